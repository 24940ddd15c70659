//! Settles operations with unknown outcome before the search. Every write brings a value of its own and every answer
//! names the value it met, so an unknown write that nobody saw can be left out, and one that somebody saw had happened
//! when the first of them returned.

use std::collections::BTreeMap;

use crate::records::ask::{Ask, Saw};
use crate::records::history::Touch;
use crate::records::universe::Content;

/// One operation as the search takes it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub operation: usize,
    pub ask: Ask,
    pub invoked: u64,
    /// By when it has happened.
    pub returned: u64,
    pub saw: Option<&'a Saw>,
    /// What an unknown write made, as the first who met it tells.
    pub made: Option<Content>,
    /// May never have happened: an unknown delete or time to live, which may leave no value behind.
    pub optional: bool,
}

pub fn calls<'a>(touches: &[Touch<'a>]) -> Vec<Call<'a>> {
    let seen = observations(touches);
    let mut calls: Vec<Call<'a>> = touches.iter().filter_map(|touch| call(touch, &seen)).collect();
    calls.sort_by_key(|call| (call.invoked, call.operation));
    calls
}

type Observations = BTreeMap<i64, (u64, Option<Content>)>;

fn call<'a>(touch: &Touch<'a>, seen: &Observations) -> Option<Call<'a>> {
    let Touch { operation, ask, invoked, returned, saw } = *touch;
    let certain = Call { operation, ask, invoked, returned, saw, made: None, optional: false };
    if saw.is_some() {
        return Some(certain);
    }
    match ask.value() {
        Some(value) => match seen.get(&value) {
            Some(&(returned, made)) => Some(Call { returned, made, ..certain }),
            // Its time may have run out before anybody looked.
            None => matches!(ask, Ask::Set { expires: Some(_), .. }).then_some(Call { optional: true, ..certain }),
        },
        None if ask == Ask::Get => None,
        None => Some(Call { optional: true, ..certain }),
    }
}

/// By value: when the first who met it returned, and what it met.
fn observations(touches: &[Touch<'_>]) -> Observations {
    let mut seen = Observations::new();
    for touch in touches {
        let Some(saw) = touch.saw else { continue };
        let met = match *saw {
            Saw::Read { now, .. } => now,
            Saw::Changed { before, .. } => before,
            Saw::Refused { now, .. } => now,
            Saw::Kept { .. } | Saw::Undone => None,
        };
        let Some(content) = met else { continue };
        // A refused compare-and-set tells the value alone, not the counter.
        let whole = (!matches!((saw, touch.ask), (Saw::Refused { .. }, Ask::Cas { .. }))).then_some(content);
        observe(&mut seen, content.value, touch.returned, whole);
    }
    // An unknown compare-and-set that was seen has itself met its old value; that may reveal another one.
    loop {
        let before = seen.len();
        for touch in touches.iter().filter(|touch| touch.saw.is_none()) {
            if let Ask::Cas { old, value } = touch.ask
                && let Some(&(returned, _)) = seen.get(&value)
            {
                observe(&mut seen, old, returned, None);
            }
        }
        if seen.len() == before {
            return seen;
        }
    }
}

fn observe(seen: &mut Observations, value: i64, returned: u64, whole: Option<Content>) {
    let known = seen.entry(value).or_insert((returned, whole));
    known.0 = known.0.min(returned);
    known.1 = known.1.or(whole);
}

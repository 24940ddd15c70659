//! Settles operations with unknown outcome before the search. Every write brings a value of its own and every answer
//! names the value it met, so an unknown write that nobody saw can be left out, and one that somebody saw had happened
//! when the first of them returned.

use std::collections::BTreeMap;

use crate::clock::wall_ms;
use crate::records::ask::{Ask, Saw};
use crate::records::history::Touch;
use crate::records::model::Moments;
use crate::records::universe::Content;

/// One operation as the search takes it.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub operation: usize,
    pub ask: Ask,
    pub invoked: u64,
    /// By when it has happened.
    pub returned: u64,
    pub saw: Option<Saw>,
    /// What an unknown write made, as the first who met it tells.
    pub made: Option<Content>,
    /// May never have happened: an unknown delete or time to live, which may leave no value behind.
    pub optional: bool,
}

impl Item {
    #[must_use]
    pub fn moments(&self) -> Moments {
        // What has not returned may happen at any time.
        let returned = if self.returned == u64::MAX { u64::MAX } else { wall_ms(self.returned) };
        Moments { invoked: wall_ms(self.invoked), returned }
    }

    /// The value that the row had before it, as far as it tells.
    #[must_use]
    pub fn met(&self) -> Option<i64> {
        match (self.saw, self.ask) {
            (Some(saw), _) => content_met(&saw).map(|content| content.value),
            (None, Ask::Cas { old, .. }) if !self.optional => Some(old),
            (None, _) => None,
        }
    }
}

/// Everything that has to be put in order, by when it began.
pub fn items(touches: &[Touch]) -> Vec<Item> {
    let seen = observations(touches);
    let mut items: Vec<Item> = touches.iter().filter_map(|touch| item(touch, &seen)).collect();
    items.sort_by_key(|item| (item.invoked, item.operation));
    items
}

type Observations = BTreeMap<i64, (u64, Option<Content>)>;

fn item(touch: &Touch, seen: &Observations) -> Option<Item> {
    let Touch { operation, ask, invoked, returned, saw } = *touch;
    let certain = Item { operation, ask, invoked, returned, saw, made: None, optional: false };
    if saw.is_some() {
        return Some(certain);
    }
    match ask.value() {
        Some(value) => match seen.get(&value) {
            Some(&(returned, made)) => Some(Item { returned, made, ..certain }),
            // Its time may have run out before anybody looked.
            None => matches!(ask, Ask::Set { expires: Some(_), .. }).then_some(Item { optional: true, ..certain }),
        },
        None if ask == Ask::Get => None,
        None => Some(Item { optional: true, ..certain }),
    }
}

/// By value: when the first who met it returned, and what it met.
fn observations(touches: &[Touch]) -> Observations {
    let mut seen = Observations::new();
    for touch in touches {
        let Some(saw) = touch.saw else { continue };
        let Some(content) = content_met(&saw) else { continue };
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

fn content_met(saw: &Saw) -> Option<Content> {
    match *saw {
        Saw::Read { now, .. } | Saw::Refused { now, .. } => now,
        Saw::Changed { before, .. } => before,
        Saw::Kept { .. } | Saw::Undone => None,
    }
}

fn observe(seen: &mut Observations, value: i64, returned: u64, whole: Option<Content>) {
    let known = seen.entry(value).or_insert((returned, whole));
    known.0 = known.0.min(returned);
    known.1 = known.1.or(whole);
}

//! The search against one that tries every order, on small histories drawn at random: what it leaves out must not matter.

use shardine_model::{ErrorCode, Version};

use super::{TOLERANCE, live};
use crate::chance::Chance;
use crate::clock::{WALL_START_MS, wall_ms};
use crate::records::ask::{Ask, Expiry, Saw};
use crate::records::check::linearizable_per_key::resolve::{Item, items};
use crate::records::check::linearizable_per_key::search::{Search, Verdict};
use crate::records::history::Touch;
use crate::records::model::{Moments, State, effect, step};
use crate::records::universe::Content;

const HISTORIES: u64 = 8_000;
/// How many of those that happen are told of. Where these are few, many others may explain what is seen.
const TOLD_PERCENT: [u32; 2] = [75, 35];
const OPERATIONS: usize = 7;
const MS: u64 = 1_000;
const EMPTY: State = State { live: None, expires: None };

#[test]
fn the_search_finds_what_trying_every_order_finds() {
    let mut found = [0, 0];
    for seed in 0..HISTORIES {
        let touches = history(&mut Chance::new(seed), TOLD_PERCENT[seed as usize % 2]);
        let items = items(&touches);

        let verdict = Search::new(&items, TOLERANCE).run(EMPTY) == Verdict::Linearizable;

        let all: Vec<&Item> = items.iter().collect();
        assert_eq!(verdict, has_order(EMPTY, &all), "history {seed}: {touches:#?}");
        found[usize::from(verdict)] += 1;
    }
    assert!(found.iter().all(|count| *count > HISTORIES / 50), "both verdicts must be common: {found:?}");
}

/// Whether some order of the rest fits, with any of those that may never have happened left out.
fn has_order(state: State, rest: &[&Item]) -> bool {
    let certain = rest.iter().filter(|item| !item.optional);
    let Some(end) = certain.map(|item| item.returned).min() else { return true };
    (0..rest.len()).filter(|place| rest[*place].invoked <= end).any(|place| {
        let others: Vec<&Item> =
            rest.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, i)| *i).collect();
        outcomes(state, rest[place]).into_iter().any(|state| has_order(state, &others))
    })
}

/// The row after an operation, told again without regard to cost.
fn outcomes(state: State, item: &Item) -> Vec<State> {
    let mut from = vec![state];
    if let (Some(_), Some(expires)) = (state.live, state.expires) {
        if expires.latest.saturating_add(TOLERANCE.late_ms) < wall_ms(item.invoked) {
            from.clear();
        }
        if expires.earliest <= wall_ms(item.returned.min(1 << 60)) + TOLERANCE.early_ms {
            from.push(EMPTY);
        }
    }
    let apply = |state| match &item.saw {
        Some(saw) => step(state, item.ask, saw, item.moments()),
        None => effect(state, item.ask, item.moments()).map(|after| State { live: item.made.or(after.live), ..after }),
    };
    from.into_iter().filter_map(apply).collect()
}

/// Operations that happen at moments of their own, one after the other; some are not told of, and sometimes one lies.
fn history(chance: &mut Chance, told_percent: u32) -> Vec<Touch> {
    let mut state = EMPTY;
    let mut touches: Vec<Touch> = Vec::new();
    for operation in 0..OPERATIONS {
        let at = 20 * operation as u64;
        let now = Moments { invoked: WALL_START_MS + at, returned: WALL_START_MS + at };
        if state.expires.is_some_and(|expires| expires.latest <= now.returned) {
            state = EMPTY;
        }
        let ask = draw(chance, operation as i64 + 1, at, state);
        let happens = chance.percent(85);
        let saw = answer(state, ask, now);
        if let (true, Some(after)) = (happens, step(state, ask, &saw, now)) {
            state = after;
        }
        let (before, after) = (chance.below(50).min(at), chance.below(50));
        let is_told = happens && chance.percent(told_percent);
        let returned = if is_told { (at + after) * MS } else { u64::MAX };
        touches.push(Touch { operation, ask, invoked: (at - before) * MS, returned, saw: is_told.then_some(saw) });
    }
    if chance.percent(50) {
        let (one, other) = (chance.index(OPERATIONS), chance.index(OPERATIONS));
        if let (Some(lie), Some(_)) = (touches[one].saw, touches[other].saw) {
            let now = Moments { invoked: 0, returned: 0 };
            touches[other].saw = Some(answer(State { live: told(&lie), expires: None }, touches[other].ask, now));
        }
    }
    touches
}

fn draw(chance: &mut Chance, value: i64, at: u64, state: State) -> Ask {
    let ms = chance.below(80);
    let expires = if chance.percent(50) { Expiry::At(WALL_START_MS + at + ms) } else { Expiry::After(ms) };
    let old = state.live.map_or(value, |content| content.value);
    match chance.below(9) {
        0 | 1 => Ask::Get,
        2 => Ask::Set { value, expires: None },
        3 => Ask::Set { value, expires: Some(expires) },
        4 => Ask::Insert { value },
        5 => Ask::Incr { value },
        6 => Ask::Cas { old, value },
        7 => Ask::Delete,
        _ => Ask::Touch { expires },
    }
}

fn told(saw: &Saw) -> Option<Content> {
    match *saw {
        Saw::Read { now, .. } | Saw::Refused { now, .. } => now,
        Saw::Changed { before, .. } => before,
        Saw::Kept { .. } | Saw::Undone => live(1),
    }
}

/// What a row in this state answers.
fn answer(state: State, ask: Ask, now: Moments) -> Saw {
    let version = Version(1);
    let refused = |code| Saw::Refused { version, code, now: state.live };
    match (ask, effect(state, ask, now)) {
        (Ask::Get, _) => Saw::Read { version, now: state.live },
        (_, Some(_)) => Saw::Changed { version, before: state.live },
        (Ask::Delete, None) => Saw::Kept { version },
        (Ask::Insert { .. }, None) => refused(ErrorCode::Exists),
        (Ask::Cas { .. }, None) if state.live.is_some() => refused(ErrorCode::CasMismatch),
        (_, None) => refused(ErrorCode::NotFound),
    }
}

//! What a row should do, told without looking at how it is done: the sequential model that histories are compared with.

use shardine_model::ErrorCode;

use crate::records::ask::{Ask, Expiry, Saw};
use crate::records::universe::Content;

/// A row between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub live: Option<Content>,
    pub expires: Option<End>,
}

/// Between which moments a row's time runs out, in milliseconds of the true wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub earliest: u64,
    pub latest: u64,
}

/// Between which moments an operation happened, in milliseconds of the true wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    pub invoked: u64,
    pub returned: u64,
}

impl Expiry {
    #[must_use]
    pub fn end(self, moments: Moments) -> End {
        match self {
            Self::At(at) => End { earliest: at, latest: at },
            Self::After(ms) => {
                End { earliest: moments.invoked.saturating_add(ms), latest: moments.returned.saturating_add(ms) }
            }
        }
    }
}

/// The row after an operation that was told `saw`, or `None` if a row in this state could not have answered so.
#[must_use]
pub fn step(state: State, ask: Ask, saw: &Saw, moments: Moments) -> Option<State> {
    match *saw {
        Saw::Undone => Some(state),
        Saw::Read { now, .. } => (now == state.live).then_some(state),
        Saw::Kept { .. } => state.live.is_none().then_some(state),
        Saw::Changed { before, .. } => {
            if before != state.live {
                return None;
            }
            effect(state, ask, moments)
        }
        Saw::Refused { code, now, .. } => refusal_fits(state, ask, code, now).then_some(state),
    }
}

/// The row after an operation that took effect, or `None` if it could not have.
#[must_use]
pub fn effect(state: State, ask: Ask, moments: Moments) -> Option<State> {
    let before = state.live.unwrap_or(Content { value: 0, count: 0 });
    let with = |value, expires| Some(State { live: Some(Content { value, ..before }), expires });
    match ask {
        Ask::Get => Some(state),
        Ask::Set { value, expires } => with(value, expires.map(|expires| expires.end(moments)).or(state.expires)),
        Ask::SetIf { value, .. } => with(value, state.expires),
        Ask::Insert { value } if state.live.is_none() => with(value, None),
        Ask::Insert { .. } => None,
        Ask::Incr { value } => {
            let live = Some(Content { value, count: before.count + 1 });
            Some(State { live, expires: state.expires })
        }
        Ask::Cas { old, value } if state.live.is_some() && before.value == old => with(value, state.expires),
        Ask::Cas { .. } => None,
        Ask::Delete => state.live.map(|_| State { live: None, expires: None }),
        Ask::Touch { expires } => state.live.map(|_| State { live: state.live, expires: Some(expires.end(moments)) }),
    }
}

fn refusal_fits(state: State, ask: Ask, code: ErrorCode, now: Option<Content>) -> bool {
    match (ask, code) {
        (Ask::SetIf { .. }, ErrorCode::VersionMismatch) => now == state.live,
        (Ask::Insert { .. }, ErrorCode::Exists) => state.live.is_some() && now == state.live,
        (Ask::Cas { .. } | Ask::Touch { .. }, ErrorCode::NotFound) => state.live.is_none(),
        // The answer carries only the field that stood in the way.
        (Ask::Cas { old, .. }, ErrorCode::CasMismatch) => match (state.live, now) {
            (Some(live), Some(now)) => live.value == now.value && live.value != old,
            (Some(live), None) => live.value == 0,
            (None, _) => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::Version;

    use super::*;

    const EMPTY: State = State { live: None, expires: None };
    const NOW: Moments = Moments { invoked: 0, returned: 10 };

    fn live(value: i64, count: i64) -> State {
        State { live: Some(Content { value, count }), expires: None }
    }

    #[test]
    fn a_write_tells_what_it_met() {
        let version = Version(2);
        let changed = |before| Saw::Changed { version, before };

        assert_eq!(step(live(7, 1), Ask::Incr { value: 8 }, &changed(live(7, 1).live), NOW), Some(live(8, 2)));
        assert_eq!(step(live(7, 1), Ask::Incr { value: 8 }, &changed(None), NOW), None);
        assert_eq!(step(EMPTY, Ask::Insert { value: 8 }, &changed(None), NOW), Some(live(8, 0)));
    }

    #[test]
    fn a_refusal_must_be_true() {
        let refused = |code, now| Saw::Refused { version: Version(1), code, now };
        let cas = Ask::Cas { old: 3, value: 9 };

        assert_eq!(step(EMPTY, cas, &refused(ErrorCode::NotFound, None), NOW), Some(EMPTY));
        assert_eq!(step(live(3, 0), cas, &refused(ErrorCode::NotFound, None), NOW), None);
        assert_eq!(step(live(3, 0), cas, &refused(ErrorCode::CasMismatch, live(3, 0).live), NOW), None);
    }
}

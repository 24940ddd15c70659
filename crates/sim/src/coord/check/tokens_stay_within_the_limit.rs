//! Promise: never more tokens are held than there are (reliability I57, coordination 148), as far as anybody was told.
//! Who was told that it holds, holds until it asks to give back, or its session may have ended.

use std::collections::BTreeMap;

use shardine_coord::{Description, SessionId};

use crate::check::Violation;
use crate::coord::names::NAMES;

pub const NAME: &str = "tokens_stay_within_the_limit";

/// What each session was told to hold, by name.
#[derive(Clone, Debug, Default)]
pub struct Told {
    claims: BTreeMap<(usize, SessionId), u64>,
    /// The last request by which a session gives back all of it, or some.
    given_up: BTreeMap<(usize, SessionId), u64>,
    lowered: BTreeMap<(usize, SessionId), (u64, u64)>,
}

impl Told {
    /// A session asks to give everything back.
    pub fn give_up(&mut self, name: usize, session: SessionId, req: u64) {
        self.claims.remove(&(name, session));
        self.given_up.insert((name, session), req);
    }

    /// A session asks for so many: if it holds more, it gives some back.
    pub fn lower(&mut self, name: usize, session: SessionId, req: u64, count: u64) {
        if let Some(held) = self.claims.get_mut(&(name, session)) {
            *held = count.min(*held);
        }
        let least = self.lowered.get(&(name, session)).map_or(count, |(_, least)| count.min(*least));
        self.lowered.insert((name, session), (req, least));
    }

    /// A session is told that it holds so many. Says how many others are held, by those who may rely on it.
    pub fn grant(
        &mut self,
        (name, session): (usize, SessionId),
        (req, count): (u64, u64),
        is_alive: impl Fn(SessionId) -> bool,
    ) -> Result<u64, Violation> {
        if NAMES[name].is_scrap || self.given_up.get(&(name, session)).is_some_and(|given_up| *given_up > req) {
            return Ok(0);
        }
        let (lowered, least) = self.lowered.get(&(name, session)).copied().unwrap_or((req, count));
        let count = if lowered > req { count.min(least) } else { count };
        if lowered <= req {
            self.lowered.remove(&(name, session));
        }
        self.claims.insert((name, session), count);
        let others: u128 =
            self.held(name, &is_alive).filter(|(holder, _)| *holder != session).map(|(_, held)| u128::from(held)).sum();
        let limit = NAMES[name].limit;
        if others + u128::from(count) > u128::from(limit) {
            let text = NAMES[name].text;
            let detail =
                format!("session {session} is told that it holds {count} of {text:?}, {others} of {limit} are held");
            return Err(Violation::new(NAME, detail));
        }
        Ok(others as u64)
    }

    /// Those who may rely on holding something of a semaphore.
    pub fn held(&self, name: usize, is_alive: impl Fn(SessionId) -> bool) -> impl Iterator<Item = (SessionId, u64)> {
        let claims = self.claims.range((name, SessionId(0))..=(name, SessionId(u64::MAX)));
        claims.map(|((_, session), count)| (*session, *count)).filter(move |(session, _)| is_alive(*session))
    }

    pub fn forget(&mut self, session: SessionId) {
        self.claims.retain(|(_, of), _| *of != session);
    }
}

/// What a replica holds must add up.
pub fn check_state(found: &Description) -> Result<(), Violation> {
    let held: u128 = found.owners.iter().map(|owner| u128::from(owner.count)).sum();
    if held != u128::from(found.count) || held > u128::from(found.limit) {
        let detail = format!("owners of {:?} hold {held}, counted are {}, of {}", found.name, found.count, found.limit);
        return Err(Violation::new(NAME, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: usize = 0;

    #[test]
    fn two_owners_of_one_token_are_seen() {
        let mut told = Told::default();

        assert_eq!(told.grant((DOOR, SessionId(1)), (1, 1), |_| true), Ok(0));
        assert!(told.grant((DOOR, SessionId(2)), (1, 1), |_| true).is_err());
    }

    #[test]
    fn who_gives_back_or_is_dead_holds_nothing() {
        let mut told = Told::default();
        assert_eq!(told.grant((DOOR, SessionId(1)), (1, 1), |_| true), Ok(0));
        told.give_up(DOOR, SessionId(1), 2);

        assert_eq!(told.grant((DOOR, SessionId(2)), (1, 1), |_| true), Ok(0));
        assert_eq!(told.grant((DOOR, SessionId(3)), (1, 1), |session| session == SessionId(3)), Ok(0));
    }
}

//! Promise: a session lives while its leader holds a stream of it, for its timeout after that, and for its timeout and the
//! grace period after a change of leader (coordination 53-57, 187); so does an owner (reliability I58). No number of a
//! session is given twice (coordination 40), and whoever has a claim has a session (reliability I61).

use std::collections::{BTreeMap, BTreeSet};

use shardine_coord::{Asker, Coord, Description, NodeNumber, SessionId};

use crate::check::Violation;
use crate::ground::MS;

pub const NAME: &str = "sessions_live_their_time";

#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// Until when each is promised to live.
    until: BTreeMap<SessionId, u64>,
    /// Those that have ended, or whose clients have asked for it.
    left: BTreeSet<SessionId>,
    /// Those whose clients have asked for their end.
    stopped: BTreeSet<SessionId>,
}

impl Sessions {
    /// A new session is told of.
    pub fn begin(&mut self, session: SessionId) -> Result<(), Violation> {
        if self.until.insert(session, 0).is_some() {
            return Err(Violation::new(NAME, format!("session {session} is given to a second client")));
        }
        Ok(())
    }

    /// The newest leader has it, and will for so long from now on, whatever was promised before: who comes back in the
    /// grace period has used it up. Clocks drift, and count whole milliseconds.
    pub fn promise(&mut self, session: SessionId, now: u64, for_ms: u64) {
        let drift = for_ms * 3 + 5 * MS;
        if let Some(until) = self.until.get_mut(&session) {
            *until = (now + for_ms * MS).saturating_sub(drift);
        }
    }

    pub fn leave(&mut self, session: SessionId) {
        self.left.insert(session);
        self.stopped.insert(session);
    }

    /// Whether its own client has asked for its end: then nobody relies on what it is told, and it may be told by a replaced
    /// leader, in its grace period, that it holds what was given to another one since.
    #[must_use]
    pub fn is_stopped(&self, session: SessionId) -> bool {
        self.stopped.contains(&session)
    }

    pub fn known(&self) -> impl Iterator<Item = SessionId> {
        self.until.keys().copied().filter(|session| !self.left.contains(session))
    }

    /// Whether its client may still rely on it.
    #[must_use]
    pub fn is_alive(&self, session: SessionId, now: u64) -> bool {
        !self.left.contains(&session) && self.until.get(&session).is_some_and(|until| *until > now)
    }

    /// The end of a session's time is applied.
    pub fn expire(&mut self, session: SessionId, now: u64) -> Result<(), Violation> {
        if self.is_alive(session, now) {
            let detail = format!("session {session} expires {} us too early", self.until[&session] - now);
            return Err(Violation::new(NAME, detail));
        }
        self.left.insert(session);
        Ok(())
    }
}

/// Every claim belongs to a session that is there.
pub fn check_state(coord: &Coord, node: NodeNumber, found: &Description) -> Result<(), Violation> {
    let mut claims = found.owners.iter().chain(&found.waiters);
    let is_dead = |session| coord.session(Asker { node, session }).is_none();
    match claims.find(|claim| is_dead(claim.session)) {
        None => Ok(()),
        Some(claim) => {
            let detail = format!("session {} has ended and has a claim on {:?}", claim.session, found.name);
            Err(Violation::new(NAME, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_is_seen() {
        let mut sessions = Sessions::default();
        sessions.begin(SessionId(1)).expect("it is new");
        sessions.promise(SessionId(1), 0, 1_000);

        assert!(sessions.clone().expire(SessionId(1), 900 * MS).is_err());
        assert_eq!(sessions.expire(SessionId(1), 1_000 * MS), Ok(()));
        assert!(sessions.begin(SessionId(1)).is_err(), "its number is not given again");
    }

    #[test]
    fn only_who_asked_for_the_end_is_taken_to_rely_on_nothing() {
        let mut sessions = Sessions::default();
        for session in [1, 2] {
            sessions.begin(SessionId(session)).expect("it is new");
        }
        sessions.leave(SessionId(1));
        sessions.expire(SessionId(2), 0).expect("nothing was promised");

        assert!(sessions.is_stopped(SessionId(1)));
        assert!(!sessions.is_stopped(SessionId(2)), "its client may not know yet");
    }
}

//! Promise: nobody overtakes in a queue (coordination 142-144). Who was told to wait before another one asked is
//! served before that one, as long as it waits at the same leader; at another it may have been served without a word.

use std::collections::BTreeMap;

use shardine_coord::{Description, SessionId};

use crate::check::Violation;
use crate::coord::names::NAMES;

pub const NAME: &str = "first_come_first_served";

#[derive(Clone, Copy, Debug)]
struct Waiter {
    wire: usize,
    seat: (usize, u64),
    since: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Queues {
    waiting: BTreeMap<(usize, SessionId), Waiter>,
}

impl Queues {
    /// A session was told to wait. `seat` is the node that said so, and its life.
    pub fn wait(&mut self, name: usize, session: SessionId, wire: usize, seat: (usize, u64), since: u64) {
        self.waiting.insert((name, session), Waiter { wire, seat, since });
    }

    /// It waits no longer, or not for what it waited for.
    pub fn leave(&mut self, name: usize, session: SessionId) {
        self.waiting.remove(&(name, session));
    }

    pub fn forget_session(&mut self, session: SessionId) {
        self.waiting.retain(|(_, of), _| *of != session);
    }

    pub fn forget_wire(&mut self, wire: usize) {
        self.waiting.retain(|_, waiter| waiter.wire != wire);
    }

    /// A session that had no claim when it asked, at `sent`, is served.
    pub fn serve(&mut self, name: usize, session: SessionId, seat: (usize, u64), sent: u64) -> Result<(), Violation> {
        self.leave(name, session);
        let queue = self.waiting.range((name, SessionId(0))..=(name, SessionId(u64::MAX)));
        let mut before = queue.filter(|(_, waiter)| waiter.seat == seat && waiter.since < sent);
        let Some(((_, first), waiter)) = before.next() else { return Ok(()) };
        let text = NAMES[name].text;
        let detail = format!(
            "session {session} asked for {text:?} at {sent} us and has it; session {first} has waited since {}",
            waiter.since
        );
        Err(Violation::new(NAME, detail))
    }

    #[must_use]
    pub fn is_empty(&self, name: usize) -> bool {
        self.waiting.range((name, SessionId(0))..=(name, SessionId(u64::MAX))).next().is_none()
    }
}

/// Whoever is first in a replica's queue does not fit, and nobody behind it was served.
pub fn check_state(found: &Description) -> Result<(), Violation> {
    let Some(first) = found.waiters.first() else { return Ok(()) };
    if first.count <= found.limit.saturating_sub(found.count) {
        let detail = format!("session {} waits for {} of {:?}, which are free", first.session, first.count, found.name);
        return Err(Violation::new(NAME, detail));
    }
    let last_owner = found.owners.iter().map(|owner| owner.order).max();
    if last_owner > Some(first.order) {
        let detail = format!("somebody has overtaken session {} in the queue of {:?}", first.session, found.name);
        return Err(Violation::new(NAME, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_came_later_and_is_served_first_is_seen() {
        let mut queues = Queues::default();
        queues.wait(0, SessionId(1), 4, (0, 1), 100);

        assert_eq!(queues.serve(0, SessionId(2), (0, 1), 50), Ok(()), "it asked before");
        assert_eq!(queues.serve(1, SessionId(2), (0, 1), 200), Ok(()), "of another semaphore");
        assert_eq!(queues.serve(0, SessionId(2), (1, 1), 200), Ok(()), "at another leader");
        assert!(queues.serve(0, SessionId(2), (0, 1), 200).is_err());
    }
}

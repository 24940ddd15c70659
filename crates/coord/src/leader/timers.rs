//! Deadlines, soonest first, and what falls due: expiries, timeouts, the leader's proof that it leads.

use std::collections::BTreeSet;

use super::{Leader, Message, Origin, Out, Ticket, not_leading};
use crate::command::{Asker, Command};
use crate::ids::NodeNumber;
use crate::outcome::ClaimRef;
use crate::state::Coord;

/// Deadlines served in one tick, so that a wave of them does not hold up requests.
const DUE_MAX: usize = 1_000;

/// How soon a session is looked at again whose client was just coming back.
const LOOK_AGAIN_MS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(Asker),
    Wait(ClaimRef),
    /// Units have come for somebody who waits for them.
    Units(NodeNumber),
    /// Somebody has waited for units long enough.
    Patience(Ticket),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, Timer)>,
}

impl Timers {
    pub fn set(&mut self, at_ms: u64, timer: Timer) {
        self.due.insert((at_ms, timer));
    }

    pub fn clear(&mut self, at_ms: u64, timer: Timer) {
        self.due.remove(&(at_ms, timer));
    }

    fn pop_due(&mut self, now_ms: u64) -> Option<Timer> {
        let (at_ms, _) = self.due.first()?;
        (*at_ms <= now_ms).then(|| self.due.pop_first().expect("just looked").1)
    }
}

impl Leader {
    /// Lets timers run. Nothing expires here: what is due goes into the log, and its entry decides.
    pub fn tick(&mut self, coord: &Coord, out: &mut Out) {
        if !self.leads {
            return;
        }
        self.mark_if_due(coord, out);
        for _ in 0..DUE_MAX {
            match self.timers.pop_due(self.now_ms) {
                None => return,
                Some(Timer::Session(by)) => self.expire(by, out),
                Some(Timer::Wait(place)) => self.time_out(place, out),
                Some(Timer::Units(node)) => self.serve_units(coord, node, out),
                Some(Timer::Patience(ticket)) => self.lose_patience(coord, ticket, out),
            }
        }
    }

    /// When [`Leader::tick`] next has something to do, if nothing else happens.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.timers.due.first().map(|(at_ms, _)| *at_ms)
    }

    fn expire(&mut self, by: Asker, out: &mut Out) {
        let Some(attachment) = self.attachments.get_mut(&by) else { return };
        if attachment.attaching > 0 {
            // Its client is on its way and came in time.
            let later_ms = self.now_ms + LOOK_AGAIN_MS;
            attachment.deadline_ms = Some(later_ms);
            return self.timers.set(later_ms, Timer::Session(by));
        }
        attachment.deadline_ms = None;
        attachment.expiring = true;
        out.propose(&Command::Expire(by), Origin::Expire);
    }

    fn time_out(&mut self, place: ClaimRef, out: &mut Out) {
        let Some(wait) = self.waits.get_mut(&place) else { return };
        wait.deadline_ms = None;
        let ClaimRef { node, semaphore, order } = place;
        let command = Command::TimeOut { node, semaphore, order, revision: wait.revision };
        out.propose(&command, Origin::TimeOut(place));
    }

    /// A mark in the log every self-check period, while there is anybody to prove it to.
    fn mark_if_due(&mut self, coord: &Coord, out: &mut Out) {
        let occupied = coord.nodes.values().filter(|node| !node.sessions.is_empty());
        let Some(period_ms) = occupied.map(|node| node.config.self_check_ms()).min() else {
            // Nobody could have been misled.
            self.check.confirmed_ms = self.now_ms;
            return;
        };
        if !self.check.marking && self.now_ms >= self.check.confirmed_ms + period_ms {
            self.check.marking = true;
            out.propose(&Command::Mark, Origin::Mark { asked_ms: self.now_ms });
        }
    }

    /// A leader that could not commit anything for a grace period may have been replaced, and the new one may be about to
    /// expire sessions: whoever is connected here must not believe in its locks any longer.
    pub(super) fn cut_unproven(&mut self, coord: &Coord, out: &mut Out) {
        #[cfg(feature = "mutants")]
        if coord.is(crate::Mutant::NoSelfCheck) {
            return;
        }
        let unproven: Vec<NodeNumber> = coord
            .nodes
            .iter()
            .filter(|(_, node)| !node.sessions.is_empty() && !self.is_proven(node.config.grace_ms()))
            .map(|(&number, _)| number)
            .collect();
        for number in unproven {
            let streams: Vec<_> =
                self.streams.iter().filter(|(_, stream)| stream.is_of(number)).map(|(&id, _)| id).collect();
            for stream in streams {
                out.say(stream, Message::Failure(not_leading()));
                self.lose(coord, stream);
            }
        }
    }

    pub(super) fn is_proven(&self, grace_ms: u64) -> bool {
        self.now_ms < self.check.confirmed_ms + grace_ms
    }

    pub(super) fn confirm(&mut self, asked_ms: u64) {
        self.check.confirmed_ms = self.check.confirmed_ms.max(asked_ms);
    }

    pub(super) fn end_mark(&mut self) {
        self.check.marking = false;
    }
}

//! What only the leader knows, and loses with its leadership: streams, who waits for an answer, watches, timers.
//!
//! Requests come in by [`Leader::start`], [`Leader::ask`], [`Leader::call`] and [`Leader::close`] (and
//! [`Leader::withdraw`]), time by [`Leader::tick`]. What must be agreed on leaves as commands in [`Out`]; when one has been applied, [`Leader::applied`]
//! hears what came of it. Whatever is said to clients leaves as messages. Deadlines are on the leader's own clock, which
//! only runs forward; what they decide is decided by an entry.

mod message;
mod streams;
mod gathered;
mod settle;
mod watches;
mod timers;
mod units;

use std::collections::BTreeMap;

pub use gathered::{Gathered, Origin, Out};
pub use message::{Ask, Message, NodeCall, NodeReply, Opening, Patience, ResourceCall, StreamId, Ticket, Units};

use crate::command::Asker;
use crate::config::GRACE_MS_MIN;
use crate::ids::{NodeNumber, SessionId};
use crate::outcome::ClaimRef;
use crate::state::Coord;
use crate::status::{Refusal, Status};
use streams::{Attachment, Stream};
use timers::{Timer, Timers};
use units::Pools;
use watches::Watches;

/// The leader's part of one group. Invariant: it has an attachment for every session of the state, and a wait for every
/// waiter, as long as it leads.
#[derive(Debug, Default)]
pub struct Leader {
    now_ms: u64,
    leads: bool,
    streams: BTreeMap<StreamId, Stream>,
    attachments: BTreeMap<Asker, Attachment>,
    waits: BTreeMap<ClaimRef, Wait>,
    watches: Watches,
    timers: Timers,
    pools: Pools,
    check: SelfCheck,
}

/// A waiter as the leader sees it.
#[derive(Debug)]
struct Wait {
    revision: u32,
    deadline_ms: Option<u64>,
    /// Where its result goes; nowhere once the stream is lost (coordination 68).
    reply: Option<(StreamId, u64)>,
}

/// Whether this leader can still prove that it leads (coordination 192).
#[derive(Debug, Default)]
struct SelfCheck {
    /// When the newest command was sent that is known to be committed.
    confirmed_ms: u64,
    marking: bool,
}

impl Leader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the time, before anything else that happens at that time. A process that stood still may find an old
    /// commit or a request before its timers, and must not say anything on the strength of old proofs.
    pub fn set_time(&mut self, coord: &Coord, now_ms: u64, out: &mut Out) {
        self.now_ms = now_ms;
        if self.leads && !self.is_proven(GRACE_MS_MIN) {
            self.cut_unproven(coord, out);
        }
    }

    /// Begins to lead. Every session gets its whole time and the grace period to come back, and every waiter waits anew
    /// (coordination 187, 189). What proves that it leads is an entry that it proposed when it was elected; it may
    /// hear only long afterwards that this was committed.
    pub fn take_over(&mut self, coord: &Coord, elected_ms: u64) {
        *self = Self { now_ms: self.now_ms, leads: true, ..Self::default() };
        self.check.confirmed_ms = elected_ms;
        self.pools = Pools::empty_since(self.now_ms);
        for (&number, node) in &coord.nodes {
            let grace_ms = node.config.grace_ms();
            #[cfg(feature = "mutants")]
            let grace_ms = if coord.is(crate::Mutant::NoGrace) { 0 } else { grace_ms };
            for (&session, held) in &node.sessions {
                let by = Asker { node: number, session };
                self.attachments.insert(by, Attachment::default());
                self.detach(by, held.timeout_ms + grace_ms);
            }
            for (&semaphore, held) in &node.semaphores {
                for (&order, claim) in &held.waiters {
                    let place = ClaimRef { node: number, semaphore, order };
                    self.wait(place, claim.revision, claim.timeout_ms, None);
                }
            }
        }
    }

    /// Leads no longer: streams end, and clients come back to whoever leads now (coordination 186).
    pub fn step_down(&mut self, out: &mut Out) {
        for stream in self.streams.keys() {
            out.say(*stream, Message::Failure(not_leading()));
        }
        for ticket in self.pools.waiting() {
            out.replies.push((ticket, NodeReply::Refused(not_leading())));
        }
        *self = Self { now_ms: self.now_ms, ..Self::default() };
    }

    fn wait(&mut self, place: ClaimRef, revision: u32, timeout_ms: u64, reply: Option<(StreamId, u64)>) {
        let deadline_ms = (timeout_ms != crate::limits::FOREVER_MS).then(|| self.now_ms + timeout_ms);
        if let Some(at) = deadline_ms {
            self.timers.set(at, Timer::Wait(place));
        }
        self.waits.insert(place, Wait { revision, deadline_ms, reply });
    }

    fn end_wait(&mut self, place: ClaimRef) -> Option<Wait> {
        let wait = self.waits.remove(&place)?;
        if let Some(at) = wait.deadline_ms {
            self.timers.clear(at, Timer::Wait(place));
        }
        Some(wait)
    }

    /// Whether a stream holds the session.
    #[must_use]
    pub fn is_attached(&self, node: NodeNumber, session: SessionId) -> bool {
        self.attachments.get(&Asker { node, session }).is_some_and(|attachment| attachment.stream.is_some())
    }

    /// Streams, watches and waiting requests, for `status`.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.streams.len(), self.watches.len(), self.waits.len())
    }
}

fn not_leading() -> Refusal {
    Refusal::new(Status::Unavailable, "this replica does not lead now")
}

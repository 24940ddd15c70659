//! A request of a call to one host: whom, for what, why, and what came of it.

use std::sync::Arc;

use crate::core::map::Slot;
use crate::core::moment::Moment;

/// A request's number in its call.
pub type AskId = usize;

/// Why a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first plan, or a search that found somebody.
    First,
    /// The host before took too long.
    Hedge,
    /// The host before failed, or had no value.
    Instead,
    /// The host before does not serve the keys any more.
    Moved,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves the keys, and answered.
    Answered,
    /// The host does not serve the keys.
    Refused,
    /// It, or the way to it, said so.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// Somebody else was quicker.
    Cancelled,
    /// A second request, or a retry, that the budget had no room for.
    Forgone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A second request that waits for the budget's word.
    Proposed,
    Out {
        times_out: Moment,
        hedge_at: Option<Moment>,
    },
    /// Will be sent again.
    Pausing {
        until: Moment,
    },
    Done(Fate),
}

/// A request to one host.
#[derive(Clone, Debug)]
pub struct Ask<H> {
    /// Who is asked.
    pub host: H,
    /// Its address.
    pub address: Arc<str>,
    pub(super) slot: Slot,
    pub(super) version: u64,
    pub(super) added: Moment,
    /// Keys by their number in the call, ascending.
    pub keys: Vec<u32>,
    /// Why it is sent.
    pub cause: Cause,
    /// 1 for the first time that it is sent.
    pub attempt: u32,
    /// The host has said that it would fail the next time too.
    pub(super) is_final: bool,
    pub(super) state: State,
}

impl<H> Ask<H> {
    /// Whether it asks for what has failed: the budget is asked before it is sent.
    pub fn is_retry(&self) -> bool {
        self.attempt > 1 || self.cause == Cause::Instead
    }

    /// What came of it, if anything did yet.
    pub fn fate(&self) -> Option<Fate> {
        match self.state {
            State::Done(fate) => Some(fate),
            State::Proposed | State::Out { .. } | State::Pausing { .. } => None,
        }
    }
}

//! Proposals that the group did not take because its lead was being handed over. If that fails they are made again, in their
//! order; if the lead is lost they were certainly not executed, and whoever they belong to is told so. None is forgotten.

use std::collections::VecDeque;

use super::proposals::Fate;
use super::turn::Turn;

/// Invariant: empty whenever the member does not lead, and whenever it hands the lead over to nobody.
#[derive(Debug)]
pub(crate) struct Deferred<T> {
    waiting: VecDeque<(Vec<u8>, T)>,
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<T> Deferred<T> {
    pub fn push(&mut self, bytes: Vec<u8>, load: T) {
        self.waiting.push_back((bytes, load));
    }
}

/// Looks how a hand-over stands. To be called whenever something has happened to the group, before anything else is proposed.
pub(crate) fn settle<R: Turn>(replica: &mut R, now_ms: u64, actions: &mut R::Actions) {
    let member = replica.member();
    let has_stopped = member.has_stopped();
    if member.deferred.waiting.is_empty() || (member.is_handing_over() && !has_stopped) {
        return;
    }
    for (bytes, load) in std::mem::take(&mut member.deferred.waiting) {
        let proposed = if has_stopped { Err(load) } else { replica.member().propose(bytes, now_ms, load) };
        if let Err(load) = proposed {
            replica.lose(load, Fate::NotExecuted, actions);
        }
    }
}

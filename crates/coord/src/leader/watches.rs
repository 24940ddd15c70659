//! Watches: each fires once, and is forgotten with its stream (coordination 67, 174).

use std::collections::{BTreeMap, BTreeSet};

use super::{Message, Out, StreamId};
use crate::command::Asker;
use crate::ids::{NodeNumber, SemaphoreId, SessionId};

#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub stream: StreamId,
    pub req: u64,
    pub data: bool,
    pub owners: bool,
}

/// What happened to a semaphore, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Data,
    Owners,
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// One per session and semaphore at most.
    set: BTreeMap<(NodeNumber, SemaphoreId, SessionId), Watch>,
    by_session: BTreeSet<(NodeNumber, SessionId, SemaphoreId)>,
}

impl Watches {
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// An older watch of the same session on the same semaphore ends with a spurious call (coordination 177).
    pub fn add(&mut self, by: Asker, semaphore: SemaphoreId, watch: Watch, out: &mut Out) {
        self.by_session.insert((by.node, by.session, semaphore));
        if let Some(old) = self.set.insert((by.node, semaphore, by.session), watch) {
            out.say(old.stream, Message::Changed { req: old.req, data: false, owners: false });
        }
    }

    pub fn fire(&mut self, node: NodeNumber, semaphore: SemaphoreId, change: Change, out: &mut Out) {
        let all = (node, semaphore, SessionId(0))..=(node, semaphore, SessionId(u64::MAX));
        let fired: Vec<SessionId> = self
            .set
            .range(all)
            .filter(|(_, watch)| match change {
                Change::Data => watch.data,
                Change::Owners => watch.owners,
                Change::Gone => true,
            })
            .map(|((.., session), _)| *session)
            .collect();
        for session in fired {
            let watch = self.remove(node, semaphore, session).expect("just found");
            let (data, owners) = (change != Change::Owners, change != Change::Data);
            out.say(watch.stream, Message::Changed { req: watch.req, data, owners });
        }
    }

    fn remove(&mut self, node: NodeNumber, semaphore: SemaphoreId, session: SessionId) -> Option<Watch> {
        self.by_session.remove(&(node, session, semaphore));
        self.set.remove(&(node, semaphore, session))
    }

    /// Forgets without a word.
    pub fn forget(&mut self, by: Asker) {
        let all = (by.node, by.session, SemaphoreId(0))..=(by.node, by.session, SemaphoreId(u64::MAX));
        let held: Vec<SemaphoreId> = self.by_session.range(all).map(|(.., semaphore)| *semaphore).collect();
        for semaphore in held {
            self.remove(by.node, semaphore, by.session);
        }
    }
}

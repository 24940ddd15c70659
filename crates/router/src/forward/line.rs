//! The requests of one connection and partition: what waits, what is under way, and in which order they go.

use std::collections::{BTreeSet, VecDeque};

use shardine_model::{ErrorCode, NodeId, Position, RequestEpoch, ShardId};

use super::{Attempt, Destination, Nature, Submission};
use crate::routes::{Route, Routes, ShardWay};

/// Where those under way went, and by what.
pub(super) type Target = (Destination, ShardId, RequestEpoch);

pub(super) struct Entry<T> {
    /// Of the attempt under way; `None` while it waits.
    pub attempt: Option<u64>,
    pub is_again: bool,
    /// How often it was tried, this time too.
    pub tries: u32,
    pub arrived_ms: u64,
    pub request: Submission<T>,
}

/// Requests of one connection and partition, in order. Invariant: while nothing has been refused, those under way come first,
/// and share `target`.
pub(super) struct Line<T> {
    pub stream: u64,
    pub generation: u64,
    pub entries: VecDeque<Entry<T>>,
    pub under_way: usize,
    pub target: Option<Target>,
    /// One was refused: nothing is sent until all that is under way is answered.
    pub is_draining: bool,
    /// Since when it cannot go on for want of a leader.
    pub stuck_since_ms: Option<u64>,
    /// Who refused last, and until when it is not asked again.
    pub refused_by: Option<(Destination, u64)>,
    #[cfg(feature = "mutants")]
    pub hint: Option<NodeId>,
}

impl<T> Line<T> {
    pub fn new(stream: u64) -> Self {
        Self {
            stream,
            generation: 1,
            entries: VecDeque::new(),
            under_way: 0,
            target: None,
            is_draining: false,
            stuck_since_ms: None,
            refused_by: None,
            #[cfg(feature = "mutants")]
            hint: None,
        }
    }

    pub fn waiting(&self) -> usize {
        self.entries.len() - self.under_way
    }

    /// The first that waits.
    pub fn next(&self) -> Option<usize> {
        if self.waiting() == 0 {
            return None;
        }
        self.entries.iter().position(|entry| entry.attempt.is_none())
    }

    /// Where requests of it can go now.
    pub fn way<'a>(
        &self,
        position: Position,
        now_ms: u64,
        routes: &'a Routes,
        links: &BTreeSet<NodeId>,
    ) -> Option<(Destination, &'a ShardWay)> {
        let place = routes.find(position)?;
        #[cfg(feature = "mutants")]
        if let Some(node) = self.hint.filter(|node| links.contains(node)) {
            return Some((Destination::Node(node), place));
        }
        let to = match place.route {
            Route::Here { lane } => Destination::Here { lane },
            Route::There(node) if links.contains(&node) => Destination::Node(node),
            Route::There(_) | Route::Unknown => return None,
        };
        let is_left_alone = self.refused_by.is_some_and(|(by, until_ms)| by == to && now_ms < until_ms);
        (!is_left_alone).then_some((to, place))
    }

    pub fn begin(&mut self, index: usize, attempt: u64, target: Target, now_ms: u64) -> Attempt {
        let (to, shard, epoch) = target;
        self.target = Some(target);
        self.under_way += 1;
        let entry = &mut self.entries[index];
        entry.attempt = Some(attempt);
        entry.tries += 1;
        Attempt {
            id: attempt,
            to,
            stream: self.stream,
            generation: self.generation,
            shard,
            epoch,
            nature: entry.request.nature,
            is_again: entry.is_again,
            within_ms: entry.request.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms)),
        }
    }

    fn index_of(&self, attempt: u64) -> usize {
        let index = self.entries.iter().position(|entry| entry.attempt == Some(attempt));
        index.expect("an attempt belongs to an entry of its line")
    }

    pub fn remove(&mut self, attempt: u64) -> Entry<T> {
        self.under_way -= 1;
        let index = self.index_of(attempt);
        self.entries.remove(index).expect("it was just found")
    }

    /// It waits again, in its place.
    pub fn take_back(&mut self, attempt: u64) -> &mut Entry<T> {
        self.under_way -= 1;
        let index = self.index_of(attempt);
        self.entries[index].attempt = None;
        &mut self.entries[index]
    }

    pub fn attempts(&self) -> Vec<(u64, Nature)> {
        self.entries.iter().filter_map(|entry| Some((entry.attempt?, entry.request.nature))).collect()
    }

    /// Those that wait and have done so for too long.
    pub fn give_up(&mut self, now_ms: u64, hold_ms: u64) -> Vec<(Entry<T>, ErrorCode)> {
        let stuck_since_ms = self.stuck_since_ms;
        let verdict = |entry: &Entry<T>| {
            let is_late = entry.request.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms);
            let since_ms = stuck_since_ms.map(|since_ms| since_ms.max(entry.arrived_ms));
            let is_stuck = since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= hold_ms);
            match (is_late, is_stuck) {
                _ if entry.attempt.is_some() => None,
                (false, false) => None,
                // Its first try may have been executed, and nobody is left to say.
                _ if entry.is_again && entry.request.nature == Nature::Numbered => Some(ErrorCode::InDoubt),
                (true, _) => Some(ErrorCode::Expired),
                (false, true) => Some(ErrorCode::NoLeader),
            }
        };
        let mut given_up = Vec::new();
        let mut index = 0;
        while index < self.entries.len() {
            match verdict(&self.entries[index]) {
                Some(code) => given_up.extend(self.entries.remove(index).map(|entry| (entry, code))),
                None => index += 1,
            }
        }
        given_up
    }
}

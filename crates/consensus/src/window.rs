//! The part of a group's log that is in memory: what raft-rs reads.
//!
//! The disk may hold more, back to the last snapshot, for restarts; a follower that is behind this window gets a
//! snapshot. Writing is not done here: entries come in when they are handed to the host, and `Ready` says when the
//! host has them on disk.

use std::cell::RefCell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, HardState, Message, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

/// How much of what is applied stays in memory for followers that are a little behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub entries: u64,
    pub bytes: u64,
}

/// What a snapshot on its way keeps in memory, in times of what is kept anyway: a follower that takes longer than writers
/// need for that begins again with another one.
const PINNED_TIMES: u64 = 8;

/// Invariant: entries are without gaps from `base_index + 1` on, and `bytes` is what their data takes.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub base_index: u64,
    pub base_term: u64,
    pub entries: VecDeque<Entry>,
    pub bytes: u64,
    pub hard_state: HardState,
    pub conf_state: ConfState,
    /// A snapshot that is ready to be sent to followers, and whether somebody asked for one. raft-rs asks through a
    /// shared reference, hence the cell.
    pub snapshot: Option<Snapshot>,
    /// The entry that made its membership.
    pub snapshot_conf_index: u64,
    pub snapshot_wanted: RefCell<bool>,
}

impl Window {
    pub fn last(&self) -> u64 {
        self.base_index + self.entries.len() as u64
    }

    /// Takes entries in, replacing from the first of them on.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base_index, "entries behind the window are applied and cannot change");
        assert!(first.index <= self.last() + 1, "entries come without a gap");
        let replaced = self.entries.drain((first.index - self.base_index - 1) as usize..);
        self.bytes -= replaced.map(|entry| bytes_of(&entry)).sum::<u64>();
        self.bytes += entries.iter().map(bytes_of).sum::<u64>();
        self.entries.extend(entries.iter().cloned());
    }

    /// Forgets entries up to and including `index`.
    pub fn forget_to(&mut self, index: u64) {
        if index <= self.base_index {
            return;
        }
        assert!(index <= self.last(), "only known entries can be forgotten");
        self.base_term = self.entries[(index - self.base_index - 1) as usize].term;
        let forgotten = self.entries.drain(..(index - self.base_index) as usize);
        self.bytes -= forgotten.map(|entry| bytes_of(&entry)).sum::<u64>();
        self.base_index = index;
    }

    /// Forgets applied entries beyond what is kept; those behind `pinned` only if they have become far too many.
    pub fn shrink(&mut self, applied: u64, pinned: u64, keep: Keep) {
        let pinned_bytes = keep.bytes.saturating_mul(PINNED_TIMES);
        let (mut last, mut bytes) = (self.base_index, self.bytes);
        for entry in self.entries.iter().take_while(|entry| entry.index <= applied) {
            let is_beyond = applied - last > keep.entries || bytes > keep.bytes;
            if !is_beyond || (last >= pinned && bytes <= pinned_bytes) {
                break;
            }
            (last, bytes) = (entry.index, bytes - bytes_of(entry));
        }
        self.forget_to(last);
    }

    /// The entry that made the membership of the snapshot that a message carries.
    pub fn conf_index_of(&self, message: &Message) -> u64 {
        let offered = self.snapshot.as_ref().map(|snapshot| snapshot.get_metadata().index);
        debug_assert_eq!(offered, Some(message.get_snapshot().get_metadata().index), "sent before another is offered");
        self.snapshot_conf_index
    }

    /// Begins anew behind a snapshot.
    pub fn restart_at(&mut self, index: u64, term: u64, conf_state: ConfState) {
        self.entries.clear();
        self.bytes = 0;
        (self.base_index, self.base_term, self.conf_state) = (index, term, conf_state);
        self.snapshot = None;
    }
}

fn bytes_of(entry: &Entry) -> u64 {
    entry.data.len() as u64
}

impl Storage for Window {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state: self.conf_state.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base_index {
            return Err(StorageError::Compacted.into());
        }
        assert!(high <= self.last() + 1, "raft-rs asks for entries that were handed out");
        let from = (low - self.base_index - 1) as usize;
        let to = (high - self.base_index - 1) as usize;
        let mut entries: Vec<Entry> = self.entries.range(from..to).cloned().collect();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base_index {
            return Ok(self.base_term);
        }
        if index < self.base_index {
            return Err(StorageError::Compacted.into());
        }
        match self.entries.get((index - self.base_index - 1) as usize) {
            Some(entry) => Ok(entry.term),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base_index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let reaches = |snapshot: &&Snapshot| snapshot.get_metadata().index >= request_index.max(self.base_index);
        // Whoever joined after it was cut is not in its membership, and would not take it.
        let names = |snapshot: &&Snapshot| {
            let state = snapshot.get_metadata().get_conf_state();
            [state.get_voters(), state.get_learners(), state.get_voters_outgoing()].concat().contains(&to)
        };
        if let Some(snapshot) = self.snapshot.as_ref().filter(reaches).filter(names) {
            return Ok(snapshot.clone());
        }
        *self.snapshot_wanted.borrow_mut() = true;
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Keep = Keep { entries: 3, bytes: 100 };
    const NOBODY: u64 = u64::MAX;

    /// Entries 1, 2, … of these sizes.
    fn window(sizes: &[usize]) -> Window {
        let entry = |(place, size): (usize, &usize)| Entry {
            index: place as u64 + 1,
            term: 1,
            data: vec![0; *size].into(),
            ..Default::default()
        };
        let mut window = Window::default();
        window.append(&sizes.iter().enumerate().map(entry).collect::<Vec<_>>());
        window
    }

    #[test]
    fn many_small_entries_are_kept_by_number() {
        let mut window = window(&[1; 10]);

        window.shrink(9, NOBODY, KEEP);

        assert_eq!((window.base_index, window.last(), window.bytes), (6, 10, 4));
    }

    #[test]
    fn few_large_entries_are_kept_by_bytes() {
        let mut window = window(&[60; 3]);

        window.shrink(3, NOBODY, KEEP);

        assert_eq!((window.base_index, window.bytes), (2, 60));
    }

    #[test]
    fn an_entry_that_is_larger_than_what_is_kept_goes_when_it_is_applied() {
        let mut window = window(&[5_000]);

        window.shrink(0, NOBODY, KEEP);
        assert_eq!(window.bytes, 5_000, "it is still to be applied");

        window.shrink(1, NOBODY, KEEP);
        assert_eq!((window.base_index, window.bytes), (1, 0));
    }

    #[test]
    fn a_snapshot_on_its_way_keeps_what_comes_behind_it_up_to_a_limit() {
        let mut window = window(&[60; 20]);

        window.shrink(10, 8, KEEP);
        assert_eq!(window.base_index, 8, "behind it everything stays");

        window.append(&[Entry { index: 21, term: 1, data: vec![0; 500].into(), ..Default::default() }]);
        window.shrink(21, 8, KEEP);
        assert!(window.bytes <= KEEP.bytes * PINNED_TIMES, "but not without end: {}", window.bytes);
    }

    #[test]
    fn replaced_entries_are_not_counted() {
        let mut window = window(&[60; 5]);

        window.append(&[Entry { index: 3, term: 2, data: vec![0; 7].into(), ..Default::default() }]);

        assert_eq!((window.last(), window.bytes), (3, 127));
    }
}

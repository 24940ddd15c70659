//! The part of a group's log that is in memory: what raft-rs reads.
//!
//! The disk may hold more, back to the last snapshot, for restarts; a follower that is behind this window gets a
//! snapshot. Writing is not done here: entries come in when they are handed to the host, and `Ready` says when the
//! host has them on disk.

use std::cell::RefCell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, HardState, Message, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

/// Invariant: entries are without gaps from `base_index + 1` on.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub base_index: u64,
    pub base_term: u64,
    pub entries: VecDeque<Entry>,
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
        self.entries.truncate((first.index - self.base_index - 1) as usize);
        self.entries.extend(entries.iter().cloned());
    }

    /// Forgets entries up to and including `index`.
    pub fn forget_to(&mut self, index: u64) {
        if index <= self.base_index {
            return;
        }
        assert!(index <= self.last(), "only known entries can be forgotten");
        self.base_term = self.entries[(index - self.base_index - 1) as usize].term;
        self.entries.drain(..(index - self.base_index) as usize);
        self.base_index = index;
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
        (self.base_index, self.base_term, self.conf_state) = (index, term, conf_state);
        self.snapshot = None;
    }
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

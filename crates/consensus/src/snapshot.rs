//! Snapshots for followers that are behind the log: asked for, offered, on their way, given up on.

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::ProgressState;
use raft::eraftpb::Snapshot;
use shardine_model::ReplicaId;
use shardine_model::log::SnapshotMeta;

use crate::group::{Group, Role};
use crate::membership::{conf_state, membership};

/// Ticks that a follower may take over a snapshot before it is sent again. Sending it twice is harmless; a transport that
/// knows better says so ([`Group::report_snapshot`]).
const SNAPSHOT_TICKS_MAX: u32 = 100;

impl Group {
    /// Whether a follower is so far behind that it needs a snapshot; asking takes the mark away.
    pub fn take_snapshot_wish(&mut self) -> bool {
        self.node.store().snapshot_wanted.take()
    }

    /// Gives a snapshot to be sent to whoever needs it. No content where whoever sends the message has it from elsewhere
    /// ([`crate::Message::snapshot`]).
    pub fn offer_snapshot(&mut self, meta: &SnapshotMeta, data: Bytes) {
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = meta.index;
        snapshot.mut_metadata().term = meta.term;
        snapshot.mut_metadata().set_conf_state(conf_state(&meta.membership));
        snapshot.data = data;
        let window = self.node.mut_store();
        window.snapshot = Some(snapshot);
        window.snapshot_conf_index = meta.conf_index;
    }

    /// Tells how sending a snapshot to a follower went.
    pub fn report_snapshot(&mut self, to: ReplicaId, arrived: bool) {
        let status = if arrived { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.node.report_snapshot(to.0, status);
    }

    /// A follower has answered that it has everything up to an index. raft-rs goes on with one that has a snapshot only if it has more
    /// than before; one that has asked for it had all of the log already.
    pub(crate) fn notice_installed(&mut self, from: u64, index: u64) {
        let progress = self.node.raft.prs().get(from);
        let waits = progress.is_some_and(|one| one.state == ProgressState::Snapshot && one.pending_snapshot <= index);
        if waits && self.role() == Role::Leader {
            self.report_snapshot(ReplicaId(from), true);
        }
    }

    /// A message may be lost, and raft-rs sends nothing else to a follower that it believes to be busy with a snapshot.
    pub(crate) fn give_up_on_snapshots(&mut self) {
        if self.role() != Role::Leader {
            return self.snapshot_ticks.clear();
        }
        let progress = self.node.raft.prs().iter();
        let waiting: BTreeSet<u64> =
            progress.filter(|(_, one)| one.state == ProgressState::Snapshot).map(|(id, _)| *id).collect();
        self.snapshot_ticks.retain(|id, _| waiting.contains(id));
        for id in waiting {
            let ticks = self.snapshot_ticks.entry(id).or_insert(0);
            *ticks += 1;
            if *ticks > SNAPSHOT_TICKS_MAX {
                self.snapshot_ticks.remove(&id);
                self.report_snapshot(ReplicaId(id), false);
            }
        }
    }

    /// The snapshot that a `Ready` of raft-rs brings, if it brings one.
    pub(crate) fn arrived_snapshot(&self, snapshot: &Snapshot) -> Option<(SnapshotMeta, Bytes)> {
        if snapshot.is_empty() {
            return None;
        }
        let meta = snapshot.get_metadata();
        // Two snapshots of one index are of the same prefix of the log, and so of the same membership.
        let (_, conf_index) = self.arriving.filter(|(index, _)| *index == meta.index).unwrap_or_default();
        let membership = membership(meta.get_conf_state());
        Some((SnapshotMeta { index: meta.index, term: meta.term, membership, conf_index }, snapshot.data.clone()))
    }
}

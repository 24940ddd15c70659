//! What a start does about snapshots and logs that a crash has left apart, and how it tells that from damage.
//!
//! A snapshot that the log does not know of yet was cut here, and then the log reaches at least as far and is truncated; or it came
//! from a peer, and then it replaces the log, as the interrupted install would have done. A log that ends before a snapshot
//! which was cut from it has lost something, and so has one that begins behind its snapshot; nothing is done about those, and
//! whoever loads the group is told.

use std::path::PathBuf;

use shardine_model::ids::ShardId;
use shardine_model::log::{HardState, LogEntry, SnapshotMeta};

use super::{Storage, at_least};
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::log::{Change, Group, SegmentLog};
use crate::snapshot::{Header, Origin, SnapshotId, SnapshotReader};

/// What a snapshot asks of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// Nothing, or nothing that could be done.
    None,
    Truncate,
    Reset(HardState),
}

/// A directory with all snapshots does not vanish by itself: somebody forgot to mount it.
pub(super) fn check_snapshots_are_there(log: &SegmentLog, data: &DataDir) -> Result<(), Error> {
    let dir = data.snapshot_dir();
    if data.files().disk().is_dir(&dir) {
        return Ok(());
    }
    let mut shards = 0;
    for shard in log.shards() {
        shards += usize::from(log.group(shard)?.is_some_and(|group| group.first > 1));
    }
    if shards > 0 { Err(Error::SnapshotsGone { dir, shards }) } else { Ok(()) }
}

impl Storage {
    /// Finishes what was interrupted, for all groups in one write.
    pub(super) fn reconcile(&self) -> Result<(), Error> {
        for (shard, removed) in self.log.removed() {
            self.snapshots.remove_all(shard, removed)?;
        }
        let (mut changes, mut kept) = (Vec::new(), Vec::new());
        for shard in self.snapshots.shards()? {
            // One that cannot be read is told to whoever loads the group.
            let Some(Ok(snapshot)) = self.snapshots.newest(shard).transpose() else { continue };
            let header = snapshot.header();
            let place = SnapshotId { replica: header.replica, index: header.meta.index };
            let group = self.log.group(shard)?;
            if group.is_some_and(|group| group.replica > header.replica) {
                // Its own first snapshot is still to come.
                self.snapshots.remove_all(shard, header.replica)?;
                continue;
            }
            kept.push((shard, place));
            let term = self.log.recovered_term(shard, place.index)?;
            changes.extend(match repair(group.as_ref(), header, term) {
                Repair::None => None,
                Repair::Truncate => Some(Change::Truncate { shard, below: place.index + 1 }),
                Repair::Reset(hard_state) => {
                    Some(Change::Reset { shard, replica: place.replica, hard_state, index: place.index })
                }
            });
        }
        if !changes.is_empty() {
            self.log.append(changes)?;
        }
        kept.into_iter().try_for_each(|(shard, place)| self.snapshots.keep_newest(shard, place))
    }
}

/// What the newest snapshot asks of the log. `term` is that of the log's entry at the end of the snapshot, if it is there.
fn repair(group: Option<&Group>, header: &Header, term: Option<u64>) -> Repair {
    let SnapshotMeta { index, .. } = header.meta;
    let own = group.filter(|group| group.replica == header.replica);
    if own.is_some_and(Group::is_lost) {
        // It may be the one that was there before the damage.
        return Repair::None;
    }
    let goes_on = own.is_some_and(|group| index < group.next && term.is_none_or(|term| term == header.meta.term));
    match header.origin {
        _ if goes_on => {
            own.map_or(Repair::None, |group| if group.first <= index { Repair::Truncate } else { Repair::None })
        }
        Origin::Cut => Repair::None,
        Origin::Peer => {
            let known = own.map_or_else(HardState::default, |group| group.hard_state);
            Repair::Reset(HardState { commit: index, ..at_least(known, &header.meta) })
        }
    }
}

/// A group of which the log knows nothing has no snapshot either.
pub(super) fn check_known(shard: ShardId, snapshot: Option<&SnapshotReader>) -> Result<(), Error> {
    let behind = |snapshot: &SnapshotReader| {
        let (file, index) = (snapshot.path().to_path_buf(), snapshot.meta().index);
        Err(Error::LogBehindSnapshot { shard, file, index, end: 1 })
    };
    snapshot.map_or(Ok(()), behind)
}

/// Whether the log goes on where the snapshot ends.
pub(super) fn check_fits(
    shard: ShardId,
    group: &Group,
    entries: &[LogEntry],
    snapshot: Option<&SnapshotReader>,
    dir: impl FnOnce() -> PathBuf,
) -> Result<(), Error> {
    let first = group.first;
    let Some(snapshot) = snapshot else {
        return if first > 1 { Err(Error::SnapshotMissing { shard, first, dir: dir() }) } else { Ok(()) };
    };
    let (file, index) = (snapshot.path().to_path_buf(), snapshot.meta().index);
    if snapshot.replica() != group.replica {
        return Err(Error::SnapshotDisagrees { shard, file, what: "the replica" });
    }
    if group.next <= index {
        return Err(Error::LogBehindSnapshot { shard, file, index, end: group.next });
    }
    if index.saturating_add(1) < first {
        return Err(Error::SnapshotBehindLog { shard, file, index, first });
    }
    let last = entries.iter().find(|entry| entry.index == index);
    if last.is_some_and(|entry| entry.term != snapshot.meta().term) {
        return Err(Error::SnapshotDisagrees { shard, file, what: "the term of its last entry" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use shardine_model::ids::ReplicaId;

    use super::*;

    const REPLICA: ReplicaId = ReplicaId(7);
    const HARD_STATE: HardState = HardState { term: 4, vote: ReplicaId(8), commit: 45 };

    /// A log with entries 40 to 59.
    fn group() -> Group {
        Group { replica: REPLICA, hard_state: HARD_STATE, first: 40, next: 60 }
    }

    fn header(origin: Origin, index: u64, term: u64) -> Header {
        let meta = SnapshotMeta { index, term, ..SnapshotMeta::default() };
        Header { cluster: 1, shard: ShardId(3), replica: REPLICA, origin, meta }
    }

    #[test]
    fn a_log_that_holds_the_end_of_the_snapshot_goes_on_behind_it() {
        for origin in [Origin::Cut, Origin::Peer] {
            assert_eq!(repair(Some(&group()), &header(origin, 50, 4), Some(4)), Repair::Truncate);
            assert_eq!(repair(Some(&group()), &header(origin, 59, 4), Some(4)), Repair::Truncate);
            assert_eq!(repair(Some(&group()), &header(origin, 39, 4), None), Repair::None, "it was truncated");
        }
    }

    /// reliability I7.
    #[test]
    fn a_log_that_ends_before_a_peers_snapshot_is_replaced_and_keeps_its_vote() {
        let same_term = repair(Some(&group()), &header(Origin::Peer, 90, 4), None);
        let later_term = repair(Some(&group()), &header(Origin::Peer, 90, 5), None);

        assert_eq!(same_term, Repair::Reset(HardState { commit: 90, ..HARD_STATE }));
        assert_eq!(later_term, Repair::Reset(HardState { term: 5, vote: ReplicaId(0), commit: 90 }));
    }

    #[test]
    fn a_log_that_went_another_way_than_a_peers_snapshot_is_replaced() {
        let repair = repair(Some(&group()), &header(Origin::Peer, 50, 4), Some(3));

        assert_eq!(repair, Repair::Reset(HardState { commit: 50, ..HARD_STATE }));
    }

    #[test]
    fn a_peers_snapshot_begins_the_log_of_a_new_replica() {
        let older = Group { replica: ReplicaId(6), ..group() };
        let begun = Repair::Reset(HardState { term: 4, vote: ReplicaId(0), commit: 90 });

        assert_eq!(repair(None, &header(Origin::Peer, 90, 4), None), begun);
        assert_eq!(repair(Some(&older), &header(Origin::Peer, 90, 4), None), begun, "the vote was another's");
    }

    #[test]
    fn what_cannot_be_told_from_damage_is_left_alone() {
        let lost = Group::lost(REPLICA);

        assert_eq!(repair(Some(&group()), &header(Origin::Cut, 90, 4), None), Repair::None);
        assert_eq!(repair(None, &header(Origin::Cut, 90, 4), None), Repair::None);
        assert_eq!(repair(Some(&lost), &header(Origin::Peer, 90, 4), None), Repair::None);
    }
}

//! Log and snapshots together: installs, removals, and what a start makes of what it finds.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use bytes::Bytes;
use common::node::{Kept, REPLICA, SHARD, install, meta, write};
use common::{Ground, OWNER, SMALL, entries, hard_state, on_both};
use shardine_model::ids::{NodeId, ReplicaId, ShardId};
use shardine_model::log::{HardState, Install, LogOp, LogWrite};
use shardine_store::disk::memory::Fault;
use shardine_store::log::Start;
use shardine_store::{Error, MemoryDisk, Mutant, Options, Owner, SegmentLog};

fn nothing() -> LogWrite {
    entries(1, [], 0)
}

/// What is kept behind a snapshot of this index.
fn behind(snapshot: u64, hard_state: HardState, entries: impl IntoIterator<Item = u64>) -> Kept {
    let chunks = vec![b"state".to_vec()];
    Kept { replica: REPLICA, hard_state, snapshot, chunks, entries: entries.into_iter().collect() }
}

#[test]
fn a_turn_is_on_disk_when_it_is_performed() {
    on_both(|ground| {
        let node = ground.start();
        let with_state = LogWrite { hard_state: Some(hard_state(2)), ..entries(1, 1..=3, 50) };

        node.perform([LogOp::Write(with_state), write(2, 1..=1), write(1, 4..=4)]);

        let again = ground.crash();
        let node = again.start();
        assert_eq!(node.storage.shards().unwrap(), [ShardId(1), ShardId(2)]);
        assert_eq!((node.kept(SHARD).hard_state, node.kept(SHARD).entries), (hard_state(2), vec![1, 2, 3, 4]));
        assert_eq!(node.incarnation, 2);
    });
}

#[test]
fn a_snapshot_from_a_peer_replaces_the_log_and_what_was_asked_for_before_it_stays_before_it() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=4), write(2, 1..=2)]);

        // The same shard has writes that wait: they must not come to stand behind the snapshot.
        let install = install(&meta(90), &[b"state"], hard_state(91), entries(1, 91..=92, 10));
        node.perform([write(1, 5..=6), install, write(2, 3..=3), write(1, 93..=93)]);

        for node in [node, ground.crash().start()] {
            assert_eq!(node.kept(SHARD), behind(90, hard_state(91), 91..=93));
            assert_eq!(node.kept(ShardId(2)).entries, [1, 2, 3]);
        }
    });
}

/// What the order of installs is for: the same turn, with the log reset while earlier writes of the shard wait, leaves a log that
/// the next write does not follow, and the node would stop at it.
#[test]
fn a_snapshot_that_is_installed_before_earlier_writes_is_caught() {
    on_both(|ground| {
        let mut node = ground.start();
        node.storage = node.storage.with_mutant(Some(Mutant::InstallBeforeEarlierWrites));
        node.perform([write(1, 1..=4)]);

        let install = install(&meta(90), &[b"state"], hard_state(91), entries(1, 91..=92, 10));
        let done = node.try_perform([write(1, 5..=6), install, write(1, 93..=93)]);

        assert!(done.is_err(), "the next write does not follow what landed behind the snapshot");
    });
}

#[test]
fn a_second_snapshot_from_a_peer_replaces_the_first() {
    on_both(|ground| {
        let node = ground.start();

        for index in [50, 60] {
            node.perform([install(&meta(index), &[b"state"], hard_state(index), nothing())]);
        }

        assert_eq!(node.kept(SHARD), behind(60, hard_state(60), []));
        assert_eq!(ground.files("snap").len(), 1);
    });
}

#[test]
fn a_snapshot_that_was_received_piece_by_piece_is_installed_by_name() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=4)]);
        let mut receiver = node.storage.receive_snapshot(SHARD, REPLICA, &meta(90)).unwrap();
        receiver.push(b"state").unwrap();
        receiver.stage().unwrap();
        assert_eq!(node.kept(SHARD).entries, [1, 2, 3, 4], "nothing has happened yet");

        node.perform([install(&meta(90), &[], hard_state(90), nothing())]);

        assert_eq!(ground.crash().start().kept(SHARD), behind(90, hard_state(90), []));
        assert!(ground.files("unfinished").is_empty());
    });
}

/// Somebody who sends again stages it again, and Raft takes the one that it has chosen.
#[test]
fn a_staged_snapshot_waits_for_its_own_install_beside_those_that_came_after_it() {
    on_both(|ground| {
        let node = ground.start();
        for index in [90, 95, 99] {
            let mut receiver = node.storage.receive_snapshot(SHARD, REPLICA, &meta(index)).unwrap();
            receiver.push(b"state").unwrap();
            receiver.stage().unwrap();
        }

        node.perform([install(&meta(95), &[], hard_state(95), nothing())]);

        assert_eq!(node.kept(SHARD), behind(95, hard_state(95), []));
        assert_eq!(ground.files("unfinished").len(), 1, "what came before it is not wanted any more");
        node.perform([install(&meta(99), &[], hard_state(99), nothing())]);
        assert_eq!(ground.crash().start().kept(SHARD), behind(99, hard_state(99), []));
        assert!(ground.files("unfinished").is_empty());
    });
}

/// Staged beside, renamed, then the log is reset: whichever step a crash comes after, the next start finds the replica as it was, or
/// as the snapshot says, whole (reliability I32).
#[test]
fn a_crash_between_any_two_steps_of_a_staged_install_leaves_the_old_or_the_new() {
    let (mut changes, mut found) = (0, Vec::new());
    // Nobody else counts.
    let options = Options { fill_ahead: false, ..SMALL };
    loop {
        let disk = MemoryDisk::new(1);
        let ground = Ground::Memory(disk.clone());
        let node = ground.try_start(options).unwrap();
        node.perform([write(1, 1..=4)]);
        let before = node.kept(SHARD);

        disk.fail_after(changes, Fault::Stop);
        let staged = node.storage.receive_snapshot(SHARD, REPLICA, &meta(90)).and_then(|mut receiver| {
            receiver.push(b"state")?;
            receiver.stage()
        });
        let done = staged.and_then(|()| node.try_perform([install(&meta(90), &[], hard_state(90), nothing())]));
        drop(node);
        disk.crash(&mut |_| 0);

        let kept = ground.try_start(options).unwrap().kept(SHARD);
        // Where the log was not reset yet, the vote of the replica is what it was.
        let installed = behind(90, HardState { commit: 90, ..kept.hard_state }, []);
        assert!(kept == before || kept == installed, "after {changes} changes: {kept:?}");
        assert!(ground.files("unfinished").is_empty(), "after {changes} changes");
        found.push(kept == before);
        changes += 1;
        if done.is_ok() {
            break;
        }
    }
    assert!(found.is_sorted_by(|one, next| one >= next), "once it is there it stays: {found:?}");
    assert!(found[0] && !found[found.len() - 1]);
}

#[test]
fn an_install_says_everything_or_is_refused() {
    on_both(|ground| {
        let refused = |op: LogOp| ground.start().try_perform([write(1, 1..=1), op]).unwrap_err();
        let with = |hard_state| {
            let write = LogWrite { hard_state, ..nothing() };
            LogOp::Install(Box::new(Install { meta: meta(90), data: Bytes::from_static(b"\x05state"), write }))
        };

        assert!(matches!(refused(with(None)), Error::IncompleteInstall { what: "a hard state", .. }));
        assert!(matches!(refused(with(Some(hard_state(89)))), Error::HardStateBehind { .. }));
        let content = refused(install(&meta(90), &[], hard_state(90), nothing()));
        assert!(matches!(content, Error::IncompleteInstall { what: "its content", .. }), "{content}");
        let cut = Install { meta: meta(90), data: Bytes::from_static(b"\x09state"), write: nothing() };
        let write = LogWrite { hard_state: Some(hard_state(90)), ..nothing() };
        assert!(matches!(
            refused(LogOp::Install(Box::new(Install { write, ..cut }))),
            Error::IncompleteInstall { what: "its last chunk", .. }
        ));
        assert!(ground.files("snap").is_empty());
        assert_eq!(ground.start().kept(SHARD).entries, [1]);
    });
}

#[test]
fn the_log_lets_go_of_what_is_in_a_snapshot_and_of_nothing_else() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=20)]);
        node.cut(&meta(10), &[b"state"]);

        node.perform([write(1, 21..=21), LogOp::Truncate { shard: SHARD, below: 11 }]);

        assert_eq!(ground.crash().start().kept(SHARD).entries, (11..=21).collect::<Vec<_>>());
        let error = node.try_perform([LogOp::Truncate { shard: SHARD, below: 12 }]).unwrap_err();
        assert!(matches!(error, Error::NotInSnapshot { below: 12, covered: 10, .. }), "{error}");
        node.perform([LogOp::Truncate { shard: ShardId(9), below: 12 }]);
    });
}

#[test]
fn a_truncation_costs_no_write_of_its_own() {
    on_both(|ground| {
        let Ground::Memory(disk) = ground else { return };
        let node = ground.start();
        node.perform([write(1, 1..=20)]);
        node.cut(&meta(10), &[b"state"]);

        let before = disk.changes();
        node.perform([write(1, 21..=21), LogOp::Truncate { shard: SHARD, below: 11 }]);
        let with_truncation = disk.changes() - before;
        node.perform([write(1, 22..=22)]);

        assert_eq!(disk.changes() - before - with_truncation, with_truncation);
    });
}

#[test]
fn a_removed_replica_leaves_a_tombstone_and_no_snapshot() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=20), write(2, 1..=1)]);
        node.cut(&meta(10), &[b"state"]);
        let mut late = node.storage.cut_snapshot(SHARD, REPLICA, &meta(15)).unwrap();

        node.perform([LogOp::Remove { shard: SHARD, replica: REPLICA }, write(2, 2..=2)]);
        late.push(b"late").unwrap();
        assert!(matches!(late.finish(), Err(Error::ReplicaRemoved { .. })), "what comes late is not kept");

        for node in [node, ground.crash().start()] {
            assert!(node.storage.load(SHARD).unwrap().is_none());
            assert_eq!(node.storage.shards().unwrap(), [ShardId(2)]);
            assert_eq!(node.storage.removed(), [(SHARD, REPLICA)]);
            assert!(ground.files("snap").is_empty());
            let error = node.try_perform([write(1, 1..=1)]).unwrap_err();
            assert!(matches!(error, Error::ReplicaRemoved { .. }), "{error}");
        }
    });
}

#[test]
fn another_replica_of_the_shard_begins_anew() {
    on_both(|ground| {
        let later = |indexes: &[u64]| LogWrite { replica: ReplicaId(9), ..entries(1, indexes.iter().copied(), 10) };
        let node = ground.start();
        node.perform([write(1, 1..=20)]);
        node.cut(&meta(19), &[b"old"]);
        node.perform([LogOp::Remove { shard: SHARD, replica: REPLICA }]);

        // The peer's snapshot may be older than the one that was here.
        let installed = install(&meta(8), &[b"state"], hard_state(8), later(&[9]));
        node.perform([LogOp::Write(LogWrite { hard_state: Some(hard_state(0)), ..later(&[]) }), installed]);

        let expected = Kept { replica: ReplicaId(9), ..behind(8, hard_state(8), [9]) };
        assert_eq!(node.kept(SHARD), expected);
        assert_eq!(ground.crash().start().kept(SHARD), expected);
        let error = node.try_perform([write(1, 10..=10)]).unwrap_err();
        assert!(matches!(error, Error::AnotherReplica { owner: ReplicaId(9), .. }), "{error}");
    });
}

#[test]
fn an_unmounted_log_is_not_a_new_beginning() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=20)]);
        drop(node);
        for file in ["seg", "spare"].iter().flat_map(|ending| ground.files(ending)) {
            ground.remove(&file);
        }

        // The directory is there, as a mount point is, or is not.
        for _ in 0..2 {
            let error = ground.try_start(SMALL).err().unwrap();
            assert!(matches!(error, Error::LogGone { .. }), "{error}");
            assert!(error.to_string().contains("is it mounted?"), "{error}");
            let _ = ground.disk().remove_dir(&ground.dir().join("log"));
        }
    });
}

#[test]
fn unmounted_snapshots_are_missed() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=20)]);
        let path = node.cut(&meta(10), &[b"state"]);
        drop(node);
        let whole = ground.crash();

        // Nothing depends on it while the log has everything.
        ground.remove(&path);
        ground.disk().remove_dir(path.parent().unwrap()).unwrap();
        ground.disk().remove_dir(&ground.dir().join("snapshots")).unwrap();
        assert_eq!(ground.start().kept(SHARD).entries.len(), 20);

        let node = whole.start();
        node.perform([LogOp::Truncate { shard: SHARD, below: 11 }, write(2, 1..=1)]);
        drop(node);
        let path = whole.files("snap").remove(0);
        whole.remove(&path);
        let node = whole.start();
        let error = node.refusal(SHARD);
        assert!(matches!(error, Error::SnapshotMissing { first: 11, .. }), "{error}");
        assert_eq!(node.kept(ShardId(2)).entries, [1], "the others are started");
        drop(node);
        let _ = whole.disk().remove_dir(path.parent().unwrap());
        whole.disk().remove_dir(&whole.dir().join("snapshots")).unwrap();
        let error = whole.try_start(SMALL).err().unwrap();
        assert!(matches!(error, Error::SnapshotsGone { shards: 1, .. }), "{error}");
    });
}

#[test]
fn a_log_that_was_cut_below_its_snapshot_is_told() {
    on_both(|ground| {
        let node = ground.start();
        node.perform([write(1, 1..=5)]);
        let shorter = ground.crash();
        node.perform([write(1, 6..=20)]);
        let snapshot = node.cut(&meta(10), &[b"state"]);
        // An older log beside a newer snapshot, as somebody may put it there.
        let inside = snapshot.strip_prefix(ground.dir()).unwrap();
        let copy = shorter.dir().join(inside);
        for dir in [copy.parent().unwrap().parent().unwrap(), copy.parent().unwrap()] {
            let _ = shorter.disk().create_dir(dir);
        }
        shorter.put(&copy, &ground.read(&snapshot));

        let error = shorter.start().refusal(SHARD);

        assert!(matches!(error, Error::LogBehindSnapshot { index: 10, end: 6, .. }), "{error}");
        assert!(error.to_string().contains("a part of the log is gone"), "{error}");
    });
}

#[test]
fn a_log_of_another_cluster_or_node_is_refused_by_name() {
    on_both(|ground| {
        drop(ground.open().unwrap());
        let open = |owner| SegmentLog::open(ground.disk(), ground.dir(), owner, Start::Again, SMALL);

        let cluster = open(Owner { cluster: 0xc2, ..OWNER }).err().unwrap();
        let node = open(Owner { node: NodeId(5), ..OWNER }).err().unwrap();

        assert!(matches!(cluster, Error::AnotherCluster { found: 0xc1, expected: 0xc2, .. }), "{cluster}");
        assert!(matches!(node, Error::AnotherNode { found: NodeId(4), .. }), "{node}");
    });
}

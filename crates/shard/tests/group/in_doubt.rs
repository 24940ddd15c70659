//! A timeout never claims more than it knows (records 34).

use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership, SnapshotMeta};
use shardine_model::{Answer, Entry, ErrorCode, ReplicaId, RequestEpoch, ShardId, Timestamp};
use shardine_records::Records;
use shardine_shard::{Actions, Options, Replica, Restored};

use crate::cluster::Cluster;

#[test]
fn records_34_a_proposal_whose_fate_stays_open_is_in_doubt() {
    let mut cluster = Cluster::new();
    cluster.cut_off(1);
    let open = cluster.submit(1, "set kv:a f=1");
    cluster.settle();

    cluster.tick(100);

    assert_eq!(cluster.answer(open), Some(&Answer::Failed(ErrorCode::InDoubt)));
}

/// records 34: what a snapshot covers may have been executed; nobody may say that it was not.
#[test]
fn records_34_a_proposal_under_a_snapshot_is_in_doubt() {
    let mut cluster = Cluster::with(|options| options.window_entries = 2);
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();

    // Executed by the others, under a leader that this one never hears of until a snapshot covers it.
    let open = cluster.submit(1, "incr kv:a n 1");
    cluster.stick_disk(1);
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    cluster.deliver_to_followers(1);
    cluster.cut_off(1);
    cluster.elect(2);
    for number in 0..20 {
        cluster.submit(2, &format!("set kv:b f={number}"));
        cluster.settle();
    }
    assert_eq!(cluster.version_on(2, "kv:a"), 2, "it was executed");
    cluster.heal();
    cluster.free_disk(1);
    cluster.tick(10);

    cluster.assert_agreement();
    assert_eq!(cluster.answer(open), Some(&Answer::Failed(ErrorCode::InDoubt)));
}

/// Whoever waits for a shard that stops hears of it at once.
#[test]
fn records_62_those_who_wait_for_a_shard_that_stops_are_told() {
    let mut cluster = Cluster::new();
    // Everything is committed at once, when the disks of the followers go on.
    cluster.stick_disk(2);
    cluster.stick_disk(3);
    let before = cluster.submit(1, "set kv:a f=1");
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    let unreadable = cluster.propose(
        1,
        &Entry::Commands { proposed_at: Timestamp(1), epoch: RequestEpoch::FIRST, requests: b"no request" },
    );
    let behind = cluster.submit(1, "set kv:b f=1");
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    cluster.settle();
    cluster.keep_busy(1, true);
    let gathered = cluster.submit(1, "set kv:c f=1");

    cluster.free_disk(2);
    cluster.settle();

    assert!(cluster.stops[0].contains("shard 1 stopped: entry"), "{:?}", cluster.stops);
    assert_eq!(cluster.version(before), 1);
    for caller in [unreadable, behind] {
        assert_eq!(cluster.answer(caller), Some(&Answer::Failed(ErrorCode::InDoubt)));
    }
    let told = cluster.answer(gathered);
    assert!(matches!(told, Some(Answer::Failed(ErrorCode::InDoubt | ErrorCode::NotLeader))), "{told:?}");
}

/// reliability F32, I9.
#[test]
fn records_62_nothing_behind_an_entry_that_cannot_be_applied_is_applied() {
    let entry = |index, entry: &Entry<'_>| {
        let mut data = Vec::new();
        entry.encode(&mut data);
        LogEntry { index, term: 1, kind: LogEntryKind::Normal, data: data.into() }
    };
    let unreadable = Entry::Commands { proposed_at: Timestamp(1), epoch: RequestEpoch::FIRST, requests: b"no request" };
    let membership = Membership::of([ReplicaId(1)]);
    let restored = Restored {
        snapshot: SnapshotMeta { membership, ..Default::default() },
        hard_state: HardState { term: 1, vote: ReplicaId(1), commit: 2 },
        entries: vec![entry(1, &unreadable), entry(2, &Entry::Suspend)],
    };
    let options = Options::new(ReplicaId(1), ShardId(1));
    let mut replica = Replica::new(options, Records::new(1), restored);

    let mut actions = Actions::default();
    replica.campaign(&mut actions);

    assert!(actions.stop.is_some());
    assert_eq!((replica.status().applied, replica.status().is_suspended), (1, false));
}

#[test]
fn a_lone_replica_catches_up_without_an_election_or_says_why_it_cannot() {
    let found = |entry: &Entry<'_>| {
        let data = entry.to_bytes().into();
        let restored = Restored {
            snapshot: SnapshotMeta { membership: Membership::of([ReplicaId(1)]), ..Default::default() },
            hard_state: HardState { term: 1, vote: ReplicaId(1), commit: 0 },
            entries: vec![LogEntry { index: 1, term: 1, kind: LogEntryKind::Normal, data }],
        };
        Replica::new(Options::new(ReplicaId(1), ShardId(1)), Records::new(1), restored).catch_up()
    };
    let unreadable = Entry::Commands { proposed_at: Timestamp(1), epoch: RequestEpoch::FIRST, requests: b"no request" };

    let status = found(&Entry::Suspend).map(|(replica, _)| replica.status()).unwrap();
    assert_eq!((status.applied, status.is_suspended, status.is_serving), (1, true, false));
    assert!(found(&unreadable).is_err_and(|reason| reason.contains("shard 1 stopped: entry 1")));
}

//! Replicas that have silently parted are found, set aside and rebuilt (reliability I33).

use std::collections::BTreeSet;

use shardine_model::entry::open_commands;
use shardine_model::{Answer, ErrorCode, ReplicaId, RequestEpoch, Timestamp};
use shardine_records::{Nobody, Records};
use shardine_shard::{MembershipChange, ReadStale, Step};
use shardine_story::words;

use crate::cluster::{Cluster, TICK_MS};

const EVERY_MS: u64 = 60_000;
const EVERY: usize = (EVERY_MS / TICK_MS) as usize;

/// Replicas of which these have a row that nobody has written.
fn with_odd(nodes: u64, odd: &'static [u64]) -> Cluster {
    let begins_with = |node: u64| {
        let mut records = Records::new(node);
        if odd.contains(&node) {
            let mut entry = Vec::new();
            open_commands(&mut entry, Timestamp(1), RequestEpoch::FIRST);
            let request = words::request(records.catalogue(), &format!("set kv:odd f={node}")).expect("a request");
            request.encode(&mut entry);
            records.apply(&entry, &mut Nobody).expect("an entry");
        }
        records
    };
    let mut cluster = Cluster::beginning_with(nodes, |_| {}, begins_with);
    cluster.compare_every(EVERY_MS);
    for number in 0..20 {
        cluster.submit(1, &format!("set kv:a{number} f={number}"));
    }
    cluster.settle();
    cluster
}

fn differed(cluster: &Cluster) -> Vec<u64> {
    cluster.nodes().map(|node| cluster.node(node).checks().differed).collect()
}

fn rebuilt(cluster: &Cluster) -> Vec<u64> {
    cluster.nodes().map(|node| cluster.node(node).checks().rebuilt).collect()
}

#[test]
fn replicas_that_agree_are_found_to_agree_once_in_every_interval() {
    let mut cluster = with_odd(3, &[]);

    cluster.tick(EVERY - 10);
    let before = cluster.node(1).applied();
    cluster.tick(EVERY);

    assert_eq!(cluster.node(1).applied(), before + 2, "a mark and a verdict");
    for node in 1..=3 {
        assert_eq!(cluster.node(node).checks().agreed, 1, "node {node}");
    }
    cluster.tick(3 * EVERY);
    assert_eq!(cluster.node(1).checks().agreed, 4);
    cluster.assert_agreement();
}

#[test]
fn reliability_i33_a_follower_that_differs_is_rebuilt() {
    let mut cluster = with_odd(3, &[3]);
    assert_eq!(cluster.version_on(3, "kv:odd"), 1, "which the others do not have");

    cluster.tick(EVERY + 20);

    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![0, 0, 1], vec![0, 0, 1]));
    assert_eq!(cluster.leader(), 1, "nobody else was disturbed");
    cluster.assert_agreement();
    cluster.submit(1, "set kv:a f=behind");
    cluster.tick(2 * EVERY);
    assert_eq!(differed(&cluster), [0, 0, 1]);
    cluster.assert_agreement();
}

#[test]
fn reliability_i33_a_leader_that_differs_leads_no_longer_and_is_rebuilt() {
    let mut cluster = with_odd(3, &[1]);

    cluster.tick(EVERY + 40);

    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![1, 0, 0], vec![1, 0, 0]));
    assert_ne!(cluster.leader(), 1);
    cluster.assert_agreement();
}

/// What it has proposed comes to something else on the others.
#[test]
fn reliability_i33_a_leader_that_differs_answers_nothing_that_it_applies_behind_the_verdict() {
    let mut cluster = with_odd(3, &[1]);

    let mut last = None;
    while cluster.node(1).checks().differed == 0 {
        cluster.tick_clocks();
        last = Some(cluster.submit(1, "set kv:late f=1"));
        cluster.on(1, |replica, actions| replica.propose_gathered(actions));
        cluster.settle();
    }

    assert_eq!(cluster.answer(last.expect("one at least")), Some(&Answer::Failed(ErrorCode::InDoubt)));
}

#[test]
fn where_no_majority_agrees_nobody_is_rebuilt_and_it_is_said() {
    let mut cluster = with_odd(3, &[1, 2]);

    cluster.tick(EVERY + 20);

    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![0; 3], vec![0; 3]));
    assert_eq!(cluster.node(1).checks().unsettled, 1, "once, however often they tell");
}

#[test]
fn with_one_away_the_other_two_are_no_majority_if_they_differ() {
    let mut cluster = with_odd(3, &[2]);
    cluster.cut_off(3);

    cluster.tick(EVERY + EVERY / 2);

    assert_eq!(differed(&cluster), [0; 3]);
    assert_eq!(cluster.node(1).checks().unsettled, 1);
    cluster.heal();
    cluster.tick(EVERY);
    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![0, 1, 0], vec![0, 1, 0]));
    cluster.assert_agreement();
}

#[test]
fn a_replica_alone_marks_nothing() {
    let mut cluster = with_odd(1, &[]);
    let before = cluster.node(1).applied();

    cluster.tick(3 * EVERY);

    assert_eq!(cluster.node(1).applied(), before);
}

#[test]
fn an_interval_of_nothing_marks_nothing() {
    let mut cluster = Cluster::new();
    cluster.compare_every(0);
    let before = cluster.node(1).applied();

    cluster.tick(3 * EVERY);

    assert_eq!(cluster.node(1).applied(), before);
}

/// A learner has no voice in who is right, and is rebuilt like everybody else.
#[test]
fn a_learner_that_differs_is_rebuilt() {
    let mut cluster = with_odd(3, &[3]);
    cluster.on(1, |replica, actions| {
        let learn = MembershipChange::Simple(Step::Learn(ReplicaId(3)));
        replica.change_members(&learn, actions).expect("it leads");
    });
    cluster.settle();

    cluster.tick(EVERY + 20);

    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![0, 0, 1], vec![0, 0, 1]));
    cluster.assert_agreement();
}

/// Until it is rebuilt it answers no reads, however old they may be, does not stand for election, and lets its log help the others
/// to one.
#[test]
fn reliability_i33_whoever_is_set_aside_serves_nothing_and_votes() {
    let mut cluster = with_odd(3, &[3]);
    cluster.lose(|message| message.is_snapshot());
    cluster.tick(EVERY + 20);
    assert!(cluster.node(3).group().is_aside());

    let catalogue = cluster.node(3).records().catalogue().clone();
    let row = words::address(&catalogue, "kv:a1");
    let read = |cluster: &Cluster, node| match cluster.node(node).read_stale(row, u64::MAX) {
        ReadStale::Refused(code) => Some(code),
        ReadStale::Found { .. } | ReadStale::Later => None,
    };
    assert_eq!(read(&cluster, 3), Some(ErrorCode::NotLeader));
    assert_eq!(read(&cluster, 2), None);

    cluster.lose(|message| message.from() == ReplicaId(1) || message.to() == ReplicaId(1) || message.is_snapshot());
    let mut stood = BTreeSet::new();
    for _ in 0..100 {
        cluster.tick(1);
        stood.insert(cluster.node(3).role() == shardine_shard::Role::Follower);
    }
    assert!(cluster.node(2).is_serving(), "by the vote of the one that is set aside");
    assert_eq!(stood, BTreeSet::from([true]), "which did not stand itself");
    cluster.submit(2, "set kv:a1 f=later");
    cluster.settle();

    cluster.heal();
    cluster.tick(60);
    assert_eq!(rebuilt(&cluster), [0, 0, 1]);
    cluster.assert_agreement();
}

/// The end of its log may be one that no leader after has, and a snapshot would never reach as far: nobody writes any more.
#[test]
fn a_log_that_goes_on_behind_what_the_next_leader_has_does_not_keep_it_aside() {
    let mut cluster = with_odd(5, &[5]);
    while !cluster.node(5).group().is_aside() {
        cluster.tick(1);
    }
    cluster.lose(|message| message.to() != ReplicaId(5));
    for number in 0..3 {
        cluster.submit(1, &format!("set kv:lost f={number}"));
        cluster.settle();
    }
    cluster.lose(|message| message.is_snapshot());
    cluster.cut_off(1);
    cluster.tick(1);
    cluster.cut_off(5);
    cluster.elect(2);

    cluster.heal();
    cluster.cut_off(1);
    cluster.tick(60);

    assert_eq!(cluster.leader(), 2);
    assert_eq!(rebuilt(&cluster), [0, 0, 0, 0, 1]);
    assert_eq!(cluster.version_on(5, "kv:lost"), 0);
}

/// Verdicts and sums get lost with whoever leads; the next leader hears the sums again.
#[test]
fn a_leader_that_goes_between_mark_and_verdict_leaves_the_round_to_the_next() {
    let mut cluster = with_odd(3, &[3]);
    cluster.lose(|message| message.summary().starts_with("Sum"));
    cluster.tick(EVERY + 20);
    assert_eq!(differed(&cluster), [0; 3], "nobody was heard");

    cluster.heal();
    cluster.hand_over(1, 2);
    cluster.settle();
    assert_eq!(cluster.leader(), 2);
    cluster.tick(60);

    assert_eq!((differed(&cluster), rebuilt(&cluster)), (vec![0, 0, 1], vec![0, 0, 1]));
    cluster.assert_agreement();
}

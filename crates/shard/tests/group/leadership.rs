//! What a replica may do before, while and after it leads.

use shardine_model::{Answer, ErrorCode};
use shardine_shard::Role;

use crate::cluster::Cluster;

/// records 67 and write-back 76: between its election and the first applied entry of its own term a leader does not
/// know what is committed, and serves nobody.
#[test]
fn records_67_a_new_leader_serves_after_its_own_entry() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.cut_off(1);
    let leads = |cluster: &Cluster| (2..=3).any(|node| cluster.node(node).role() == Role::Leader);
    while !cluster.settle_until(leads) {
        cluster.tick_clocks();
    }
    let elected = (2..=3).find(|node| cluster.node(*node).role() == Role::Leader).unwrap();

    let early = cluster.submit(elected, "set kv:a f=2");
    let early_reader = cluster.read(elected, "kv:a");
    cluster.settle();
    let in_time = cluster.submit(elected, "set kv:a f=3");
    cluster.settle();

    assert_eq!(cluster.answer(early), Some(&Answer::Failed(ErrorCode::NotLeader)));
    assert_eq!(cluster.answer(early_reader), Some(&Answer::Failed(ErrorCode::NotLeader)));
    assert_eq!(cluster.version(in_time), 2);
}

/// reliability I15.
#[test]
fn a_replica_without_a_majority_leads_nobody() {
    let mut cluster = Cluster::new();
    cluster.cut_off(1);
    cluster.cut_off(3);
    cluster.tick(60);

    let asked = cluster.submit(2, "set kv:a f=2");

    assert_eq!(cluster.answer(asked), Some(&Answer::Failed(ErrorCode::NoLeader)));
}

/// records 75: an entry whose leader lost its term is applied on it as on the others, row for row, and is
/// marked for SQL on whoever leads then.
#[test]
fn w6_an_entry_of_a_lost_term_is_applied_like_any_other() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    let reader = cluster.submit(1, "set users:lili age=1");
    cluster.settle();
    cluster.sql_finds_nothing();
    assert_eq!(cluster.version(reader), 1);

    // The next write reaches a majority, but its leader is cut off before it hears so.
    let write = cluster.submit(1, "set users:lili age=2");
    cluster.stick_disk(1);
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    cluster.deliver_to_followers(1);
    cluster.cut_off(1);
    cluster.elect(2);
    assert_eq!(cluster.version_on(2, "users:lili"), 2, "the entry was on a majority of disks");
    cluster.tick(5);
    let queued = cluster.writes.iter().filter(|(node, _)| *node == 2).flat_map(|(_, write)| &write.rows);
    let versions: Vec<i64> = queued.map(|row| row.version.0).collect();
    assert_eq!(versions, [2], "the new leader knows that SQL lacks it");
    let next = cluster.submit(2, "set users:lili age=3");
    cluster.settle();

    cluster.heal();
    cluster.free_disk(1);
    cluster.tick(5);

    assert_eq!(cluster.version(next), 3, "the version was not given twice");
    cluster.assert_agreement();
    match cluster.answer(write) {
        Some(Answer::One(reply)) => assert_eq!(reply.version.0, 2),
        Some(Answer::Failed(code)) => assert_eq!(*code, ErrorCode::InDoubt),
        other => panic!("its caller hears what became of it, or that nobody knows: {other:?}"),
    }
}

/// records 6, 75: a proposal that another leader's entry replaced was certainly not executed, and its caller is told.
#[test]
fn w6_a_proposal_that_was_replaced_is_not_executed() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.cut_off(1);
    let lost = cluster.submit(1, "set kv:a f=lost");
    cluster.settle();
    cluster.elect(2);
    let kept = cluster.submit(2, "set kv:a f=kept");
    cluster.settle();

    cluster.heal();
    cluster.tick(10);

    assert_eq!(cluster.version(kept), 2);
    let told = cluster.answer(lost);
    assert!(
        matches!(told, Some(Answer::Failed(ErrorCode::NotLeader | ErrorCode::InDoubt))),
        "not executed, or not known: {told:?}"
    );
    assert_eq!(cluster.version_on(1, "kv:a"), 2);
    cluster.assert_agreement();
}

/// records 34: proposals that were lost at high places in an older term do not hide one that is executed at a lower
/// place in a newer term.
#[test]
fn a_lost_proposal_of_an_older_term_does_not_hide_a_newer_one() {
    let mut cluster = Cluster::new();
    cluster.cut_off(1);
    for number in 0..5 {
        cluster.submit(1, &format!("set kv:a f={number}"));
        cluster.settle();
    }
    cluster.elect(2);
    cluster.heal();
    cluster.tick(2);
    cluster.cut_off(2);
    cluster.elect(1);

    let kept = cluster.submit(1, "set kv:a f=kept");
    cluster.settle();

    assert_eq!(cluster.version(kept), 1);
}

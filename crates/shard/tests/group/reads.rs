//! Linearizable reads with three voters: one round for all that wait, none without a majority.

use shardine_model::{Answer, ErrorCode};
use shardine_shard::Caller;
use shardine_shard::ReadStale;

use crate::cluster::{Cluster, TICK_MS};

#[test]
fn records_53_reads_that_wait_share_a_round() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.sent.clear();

    let readers: Vec<_> = (0..50).map(|_| cluster.read(1, "kv:a")).collect();
    cluster.settle();

    assert!(readers.iter().all(|reader| cluster.version(*reader) == 1));
    let rounds = cluster.sent.iter().filter(|line| line.starts_with("MsgHeartbeat ")).count();
    assert_eq!(rounds, 2, "one question to each of two followers: {:?}", cluster.sent);
}

#[test]
fn records_58_a_read_sees_the_write_before_it_with_three_voters() {
    let mut cluster = Cluster::new();
    let write = cluster.submit(1, "set kv:a f=1");
    let behind = cluster.read(1, "kv:a");

    cluster.settle();

    assert_eq!((cluster.version(write), cluster.version(behind)), (1, 1));
}

/// records 36: a leader that cannot reach a majority answers no read from its own memory.
#[test]
fn w16_a_deposed_leader_serves_no_stale_read() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.cut_off(1);

    let stale = cluster.read(1, "kv:a");
    cluster.settle();
    cluster.elect(2);
    cluster.submit(2, "set kv:a f=2");
    cluster.settle();

    assert!(
        matches!(cluster.answer(stale), None | Some(Answer::Failed(ErrorCode::NotLeader | ErrorCode::NoLeader))),
        "it must not have been answered from memory: {:?}",
        cluster.answer(stale)
    );
    cluster.heal();
    cluster.tick(30);
    assert_eq!(cluster.answer(stale), Some(&Answer::Failed(ErrorCode::NotLeader)));
}

#[test]
fn a_follower_sends_readers_to_the_leader() {
    let mut cluster = Cluster::new();

    let reader = cluster.read(2, "kv:a");

    assert_eq!(cluster.answer(reader), Some(&Answer::Failed(ErrorCode::NotLeader)));
}

/// records 31: a flush promises what is current, so a leader that cannot reach a majority promises nothing.
#[test]
fn records_31_a_deposed_leader_calls_nothing_flushed() {
    let mut cluster = Cluster::new();
    let (early, late) = (Caller { source: 9, sequence: 1 }, Caller { source: 9, sequence: 2 });
    cluster.on(1, |replica, actions| replica.flush_rows(early, None, None, actions));
    cluster.settle();
    cluster.cut_off(1);

    cluster.on(1, |replica, actions| replica.flush_rows(late, None, None, actions));
    cluster.settle();

    assert_eq!(cluster.answer(early), Some(&Answer::Many(Vec::new())));
    assert_eq!(cluster.answer(late), None);
    cluster.tick(30);
    assert_eq!(cluster.answer(late), Some(&Answer::Failed(ErrorCode::NotLeader)));
}

/// What a stale read of `kv:a` says: its version and the applied index, or why not.
fn stale(cluster: &Cluster, node: u64, max_age_ms: u64) -> Result<(i64, u64), ErrorCode> {
    let replica = cluster.node(node);
    let row = crate::words::address(replica.records().catalogue(), "kv:a");
    match replica.read_stale(row, max_age_ms) {
        ReadStale::Found { row, applied } => Ok((shardine_records::read_reply(row).version.0, applied)),
        ReadStale::Refused(code) => Err(code),
        ReadStale::Later => panic!("a table without SQL is in memory"),
    }
}

/// records 36: a follower in touch answers at once with its version and applied index, and sends nothing.
#[test]
fn records_36_a_follower_in_touch_serves_stale_reads() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(5);
    let applied = cluster.node(2).applied();
    let sent = cluster.sent.len();

    assert_eq!(stale(&cluster, 2, 1_000), Ok((1, applied)));
    assert_eq!(stale(&cluster, 1, 1_000), Ok((1, cluster.node(1).applied())));
    // A change on its way is not waited for.
    cluster.submit(1, "set kv:a f=2");
    assert_eq!(stale(&cluster, 1, 1_000), Ok((1, applied)));
    assert_eq!(cluster.sent.len(), sent);
}

/// records 36: who has lost touch for longer than the reader accepts refuses, follower or leader.
#[test]
fn records_36_a_replica_out_of_touch_refuses_stale_reads() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(5);
    cluster.cut_off(2);
    cluster.tick(5);

    let within = stale(&cluster, 2, 10 * TICK_MS);
    assert_eq!(within, Ok((1, cluster.node(2).applied())), "five ticks without news are less than ten");
    assert_eq!(stale(&cluster, 2, TICK_MS), Err(ErrorCode::NotLeader));
    cluster.heal();
    cluster.tick(5);
    assert!(stale(&cluster, 2, 3 * TICK_MS).is_ok(), "in touch again");
    cluster.cut_off(1);
    cluster.tick(5);
    assert!(cluster.node(1).is_serving(), "it does not know yet that it is alone");
    assert_eq!(stale(&cluster, 1, 2 * TICK_MS), Err(ErrorCode::NotLeader));
}

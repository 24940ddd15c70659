//! Linearizable reads with three voters: one round for all that wait, none without a majority.

use shardine_model::{Answer, ErrorCode};
use shardine_shard::Caller;

use crate::cluster::Cluster;

#[test]
fn record_cache_53_reads_that_wait_share_a_round() {
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
fn record_cache_58_a_read_sees_the_write_before_it_with_three_voters() {
    let mut cluster = Cluster::new();
    let write = cluster.submit(1, "set kv:a f=1");
    let behind = cluster.read(1, "kv:a");

    cluster.settle();

    assert_eq!((cluster.version(write), cluster.version(behind)), (1, 1));
}

/// record-cache 36, W16: a leader that cannot reach a majority answers no read from its own memory.
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

/// record-cache 31: a flush promises what is current, so a leader that cannot reach a majority promises nothing.
#[test]
fn record_cache_31_a_deposed_leader_calls_nothing_flushed() {
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

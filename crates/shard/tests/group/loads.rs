//! Load on miss under pressure.

use shardine_model::{Answer, ErrorCode, limits};

use crate::cluster::Cluster;

/// record-cache 48: who finds a row's queue full hears so at once; those in it, and other rows, are not concerned.
#[test]
fn record_cache_48_a_full_queue_is_busy_for_the_one_who_comes_last() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    cluster.answers.clear();
    for _ in 0..limits::LOAD_WAITERS_MAX {
        cluster.read(1, "users:lili");
    }

    let late = cluster.read(1, "users:lili");
    let other = cluster.read(1, "users:bob");

    assert_eq!(cluster.answers, [(late, Answer::Failed(ErrorCode::Busy))]);
    cluster.sql_finds_nothing();
    assert_eq!(cluster.answers.len(), limits::LOAD_WAITERS_MAX + 2);
    let busy = cluster.answers.iter().filter(|(_, answer)| matches!(answer, Answer::Failed(_))).count();
    assert_eq!(busy, 1, "everybody else was served");
    assert!(cluster.answer(other).is_some());
}

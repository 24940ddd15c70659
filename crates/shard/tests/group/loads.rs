//! Load on miss: changes of leader, and pressure.

use shardine_model::{Answer, ErrorCode, Version, limits};
use shardine_records::Lookup;
use shardine_shard::LoadedRow;

use crate::cluster::Cluster;
use shardine_story::words;

/// records 46: what SQL told a leader and was not proposed before it lost its term is dropped, also if it leads again:
/// the row may have lived and changed under another meanwhile.
/// reliability F22, I47.
#[test]
fn records_46_rows_told_in_a_lost_term_are_dropped() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    let readers = [cluster.read(1, "users:lili"), cluster.read(1, "users:bob")];
    cluster.settle();
    let (_, load) = cluster.loads.pop().expect("SQL was asked");
    assert_eq!(load.rows.len(), 2, "two misses of one turn are one question (records 39)");
    let told = |row| LoadedRow { row, version: Version(5), fields: Default::default() };
    let rows = load.rows.into_iter().map(told).collect();

    // The host of node 1 has no time for what SQL tells until it leads again.
    cluster.keep_busy(1, true);
    cluster.on(1, |replica, actions| replica.loaded(load.question, rows, actions));
    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    cluster.tick(5);
    cluster.cut_off(2);
    cluster.elect(1);
    cluster.keep_busy(1, false);
    cluster.tick(5);

    for reader in readers {
        assert_eq!(cluster.answer(reader), Some(&Answer::Failed(ErrorCode::NotLeader)));
    }
    for node in 1..=3 {
        let row = words::address(cluster.node(node).records().catalogue(), "users:lili");
        let found = cluster.node(node).records().get(row.position(), row);
        assert!(matches!(found, Lookup::NotResident), "node {node} holds {found:?}");
    }
}

/// records 46: an answer that SQL gives after the term has changed is dropped, and its row is asked for anew.
#[test]
fn records_46_an_answer_after_the_term_changed_is_dropped() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    cluster.read(1, "users:lili");
    cluster.settle();
    let (_, load) = cluster.loads.pop().expect("SQL was asked");
    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    cluster.tick(5);
    cluster.cut_off(2);
    cluster.elect(1);

    let reader = cluster.read(1, "users:lili");
    cluster.settle();
    let rows = load.rows.into_iter().map(|row| LoadedRow { row, version: Version(5), fields: Default::default() });
    let rows = rows.collect();
    cluster.on(1, |replica, actions| replica.loaded(load.question, rows, actions));
    cluster.settle();

    assert_eq!(cluster.answer(reader), None, "its own question is not answered yet");
    cluster.sql_finds_nothing();
    assert!(matches!(cluster.answer(reader), Some(Answer::One(reply)) if reply.version == Version::NEVER));
}

/// records 48: who finds a row's queue full hears so at once; those in it, and other rows, are not concerned.
/// reliability I76.
#[test]
fn records_48_a_full_queue_is_busy_for_the_one_who_comes_last() {
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

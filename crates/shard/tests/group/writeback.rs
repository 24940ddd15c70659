//! Who queues rows for SQL, and which.

use std::collections::BTreeMap;

use shardine_model::RowKeyBuf;
use shardine_shard::{FlushResult, FlushRow};

use crate::cluster::Cluster;

const ROWS: usize = 10_000;

/// record-cache 84: a follower keeps no queue however much it applies; when it leads, it writes what is dirty, all of it
/// and nothing else.
#[test]
fn record_cache_84_a_follower_queues_nothing_and_a_new_leader_every_dirty_row() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    for number in 0..ROWS {
        cluster.submit(1, &format!("set users:u{number} age={number}"));
    }
    cluster.sql_finds_nothing();
    let followers = [cluster.node(2).status(), cluster.node(3).status()];
    assert_eq!(followers.map(|status| (status.dirty, status.queued)), [(ROWS as u64, 0); 2]);
    assert_eq!(cluster.node(1).status().queued, ROWS as u64);

    // One batch reaches SQL before the leader is lost.
    cluster.tick(2);
    let first = sql_writes(&mut cluster, 1);
    assert!(!first.is_empty() && first.len() < ROWS, "one batch: {}", first.len());
    cluster.settle();
    cluster.cut_off(1);
    cluster.elect(2);
    assert_eq!(cluster.node(2).status().queued, (ROWS - first.len()) as u64);
    let mut written = BTreeMap::new();
    for _ in 0..200 {
        cluster.tick(1);
        written.extend(sql_writes(&mut cluster, 2));
        cluster.settle();
    }

    assert_eq!(cluster.node(2).status().dirty, 0);
    assert!(written.keys().all(|row| !first.contains_key(row)), "what SQL had already was not written again");
    assert_eq!(written.len() + first.len(), ROWS);
    cluster.heal();
    cluster.tick(20);
    assert_eq!(cluster.node(1).status().queued, 0, "the deposed leader has let go of its queue");
}

/// record-cache 113: the list is replicated: a new leader leaves a dead letter alone, and tries it when its record changes.
#[test]
fn record_cache_113_a_new_leader_leaves_dead_letters_alone_until_they_change() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    cluster.submit(1, "set users:bad age=1");
    cluster.sql_finds_nothing();
    cluster.tick(2);
    for (node, write) in std::mem::take(&mut cluster.writes) {
        let refuse = |row: &FlushRow| (row.row.clone(), FlushResult::Refused("no".to_owned()));
        let results: Vec<_> = write.rows.iter().map(refuse).collect();
        cluster.on(node, |replica, actions| replica.flushed(write.term, &results, actions));
    }
    cluster.settle();
    cluster.cut_off(1);
    cluster.elect(2);

    cluster.tick(150);

    assert_eq!(cluster.node(2).records().dead_letter_count(), 1);
    assert!(sql_writes(&mut cluster, 2).is_empty(), "nobody has changed it");
    cluster.submit(2, "set users:bad age=2");
    cluster.settle();
    cluster.tick(150);
    assert_eq!(sql_writes(&mut cluster, 2).len(), 1);
    cluster.settle();
    assert_eq!(cluster.node(2).records().dead_letter_count(), 0);
}

/// SQL takes everything that a node has sent it.
fn sql_writes(cluster: &mut Cluster, by: u64) -> BTreeMap<RowKeyBuf, i64> {
    let mut taken = BTreeMap::new();
    for (node, write) in std::mem::take(&mut cluster.writes).into_iter().filter(|(node, _)| *node == by) {
        let results: Vec<_> = write.rows.iter().map(|row| (row.row.clone(), FlushResult::Written)).collect();
        taken.extend(write.rows.iter().map(|row| (row.row.clone(), row.version.0)));
        cluster.on(node, |replica, actions| replica.flushed(write.term, &results, actions));
    }
    taken
}

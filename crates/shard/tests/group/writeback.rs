//! Who queues rows for SQL, and which.

use std::collections::BTreeMap;

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{Answer, RowKeyBuf, Version};
use shardine_shard::{LEASE_TRUST_MS, SqlWrite};

use crate::cluster::Cluster;

const ROWS: usize = 30_000;

/// write-back 84: a follower keeps no queue however much it applies; when it leads, it writes what is dirty, all of it
/// and nothing else.
#[test]
fn write_back_84_a_follower_queues_nothing_and_a_new_leader_every_dirty_row() {
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
    let queued = cluster.node(2).status().queued;
    assert!(queued < (ROWS - first.len()) as u64 / 2, "it serves before it has looked through everything: {queued}");
    cluster.tick(1);
    assert!(cluster.node(2).status().queued > queued, "and goes on at every tick, with a lease or without");
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

/// write-back 84, 107: a leader that takes over together with the lease writes at once, and not the rows of a child before it
/// has seen those of the parent.
#[test]
fn write_back_107_parents_go_first_that_a_new_leader_has_not_seen_yet() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql delay=60000");
    cluster.define("orders user:int64 sql after=users delay=60000");
    for number in 0..ROWS {
        let table = if number % 3 == 0 { "orders" } else { "users" };
        let column = if number % 3 == 0 { "user" } else { "age" };
        cluster.submit(1, &format!("set {table}:u{number} {column}={number}"));
    }
    cluster.sql_finds_nothing();
    cluster.hand_over(1, 2);
    cluster.settle();
    assert_eq!(cluster.leader(), 2);

    let mut written = Vec::new();
    for _ in 0..2_000 {
        cluster.tick(1);
        written.extend(sql_writes(&mut cluster, 2).into_keys().map(|row| row.table));
        cluster.settle();
    }

    assert_eq!((written.len(), cluster.node(2).status().dirty), (ROWS, 0));
    assert!(written.is_sorted(), "users were defined first, and go first");
}

/// write-back 113: the list is replicated: a new leader leaves a dead letter alone, and tries it when its record
/// changes.
#[test]
fn write_back_113_a_new_leader_leaves_dead_letters_alone_until_they_change() {
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

/// write-back 108, records 32: a leader that loses its term while SQL is waited for tells what was done, and that SQL
/// does not have it yet; the next one writes it.
#[test]
fn write_back_108_a_deposed_leader_tells_what_was_done() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql mode=through");
    let change = cluster.submit(1, "set users:lili age=1");
    cluster.sql_finds_nothing();
    cluster.settle();
    assert_eq!(cluster.version_on(2, "users:lili"), 1, "it is done everywhere");
    assert_eq!(cluster.answer(change), None, "and not told before SQL has it");

    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    // The old leader's lease must end first.
    cluster.tick(120);

    match cluster.answer(change) {
        Some(Answer::One(reply)) => assert_eq!((reply.version, reply.sql_version), (Version(1), Version::NEVER)),
        other => panic!("a change that was made is no failure: {other:?}"),
    }
    let written = sql_writes(&mut cluster, 2);
    assert_eq!(written.len(), 1, "the new leader writes it");
}

/// write-back 108: an entry of a lost term is applied after its leader has gone: he tells what it came to, at once.
#[test]
fn write_back_108_a_change_that_outlives_its_leader_is_told() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql mode=through");
    cluster.read(1, "users:lili");
    cluster.sql_finds_nothing();
    let change = cluster.submit(1, "set users:lili age=1");
    cluster.stick_disk(1);
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    cluster.deliver_to_followers(1);
    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    cluster.free_disk(1);
    cluster.tick(5);

    match cluster.answer(change) {
        Some(Answer::One(reply)) => assert_eq!((reply.version, reply.sql_version), (Version(1), Version::NEVER)),
        other => panic!("it was executed: {other:?}"),
    }
}

/// A row that node 1 has sent to SQL under its lease.
fn one_row_under_way() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    cluster.submit(1, "set users:lili age=1");
    cluster.sql_finds_nothing();
    cluster.tick(2);
    assert_eq!(cluster.writes.len(), 1, "node 1 writes at once: nobody else ever had the lease");
    cluster
}

/// write-back 78, 81: a batch says until when it may begin: not beyond the time for which the lease is trusted.
#[test]
fn write_back_78_81_a_batch_may_begin_while_the_lease_is_trusted() {
    let cluster = one_row_under_way();

    let (now, begin_by) = (cluster.now_ms(), cluster.writes[0].1.begin_by_ms);

    assert!((now + 1..=now + LEASE_TRUST_MS).contains(&begin_by), "{begin_by} at {now}");
}

/// write-back 77, 83: whoever leads next writes and kicks nothing before the lease of the one before is over, and then
/// begins with what is dirty.
#[test]
fn write_back_77_83_a_new_leader_waits_for_the_end_of_the_old_lease() {
    let mut cluster = one_row_under_way();
    cluster.cut_off(1);
    cluster.elect(2);
    let kick = cluster.kick(2, "users:lili");

    // It was granted before the election, and lasts ten seconds after it was applied.
    cluster.tick(80);
    assert!(cluster.writes.iter().all(|(node, _)| *node == 1), "the old lease is not over");
    assert_eq!(cluster.answer(kick), None);
    cluster.tick(40);

    assert_eq!(sql_writes(&mut cluster, 2).len(), 1);
    cluster.settle();
    cluster.tick(1);
    assert!(cluster.answer(kick).is_some(), "kicked, once SQL has it");
}

/// write-back 85: what SQL says to one who led when he asked, and does no longer, or in another term, does not reach
/// the log: the row stays dirty until whoever leads has heard it himself.
#[test]
fn write_back_85_an_answer_of_sql_counts_in_the_term_it_was_asked_in() {
    let mut cluster = one_row_under_way();
    let (_, write) = cluster.writes.pop().unwrap();
    let results: Vec<_> = write.rows.iter().map(|row| (row.row.clone(), FlushResult::Written)).collect();
    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    cluster.tick(5);

    cluster.on(1, |replica, actions| replica.flushed(write.term, &results, actions));
    cluster.settle();
    assert_eq!(cluster.node(2).status().dirty, 1, "it does not lead any longer");
    cluster.cut_off(2);
    cluster.elect(1);
    cluster.on(1, |replica, actions| replica.flushed(write.term, &results, actions));
    cluster.settle();

    assert_eq!(cluster.node(1).status().dirty, 1, "it leads again, in another term");
}

/// Node 1 has led, has sent a row to SQL, has lost the lead before SQL answered, and leads again. Gives what SQL was sent.
fn one_row_under_way_in_a_lost_term() -> (Cluster, SqlWrite) {
    let mut cluster = one_row_under_way();
    let (_, write) = cluster.writes.pop().expect("one row is under way");
    cluster.cut_off(1);
    cluster.elect(2);
    cluster.heal();
    cluster.tick(5);
    assert!(!cluster.node(1).is_serving());
    cluster.cut_off(2);
    cluster.elect(1);
    (cluster, write)
}

/// write-back 85: a row may be under way again, in a newer version, when SQL answers for the one of a lost term.
#[test]
fn write_back_85_an_answer_of_a_lost_term_does_not_confirm_a_new_write() {
    let (mut cluster, old) = one_row_under_way_in_a_lost_term();
    cluster.submit(1, "set users:lili age=2");
    cluster.settle();
    cluster.tick(3);
    let versions: Vec<_> = cluster.writes.iter().map(|(node, write)| (*node, write.rows[0].version)).collect();
    assert_eq!(versions.last(), Some(&(1, Version(2))), "{versions:?}");

    let results: Vec<_> = old.rows.iter().map(|row| (row.row.clone(), FlushResult::Written)).collect();
    cluster.on(1, |replica, actions| replica.flushed(old.term, &results, actions));
    cluster.settle();

    assert_eq!(cluster.node(1).status().dirty, 1, "SQL has said nothing of version 2");
}

/// write-back 85: what was under way when the lead was lost is forgotten with it, else it would be waited for in vain.
#[test]
fn write_back_85_what_was_under_way_in_a_lost_term_goes_again() {
    let (mut cluster, _unanswered) = one_row_under_way_in_a_lost_term();

    cluster.tick(3);

    assert_eq!(sql_writes(&mut cluster, 1).into_values().collect::<Vec<_>>(), [1]);
    cluster.settle();
    assert_eq!(cluster.node(1).status().dirty, 0);
}

/// write-back 106: a confirmation that is lost with its leader costs one more write, of the same version.
/// reliability I49.
#[test]
fn write_back_106_a_lost_confirmation_is_one_more_write() {
    let mut cluster = one_row_under_way();
    cluster.cut_off(1);
    sql_writes(&mut cluster, 1);
    cluster.elect(2);
    assert_eq!(cluster.node(2).status().dirty, 1, "nobody but node 1 knows that SQL has it");

    cluster.tick(120);
    let again = sql_writes(&mut cluster, 2);
    cluster.settle();

    assert_eq!(again.into_values().collect::<Vec<_>>(), [1]);
    assert_eq!(cluster.node(2).status().dirty, 0);
}

//! Linearizable reads with three voters: one round for all that wait, none without a majority.

use shardine_model::{Answer, ErrorCode};
use shardine_shard::{Caller, ReadBarrier, ReadStale};

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

/// reliability 0.3: acknowledgements of an old round that come late confirm nothing that was asked after it, however a leader
/// that was replaced meanwhile finds them.
/// reliability I8.
#[test]
fn late_acknowledgements_confirm_no_new_read() {
    assert!(!late_acknowledgements_confirm(Cluster::new()));
}

#[cfg(feature = "mutants")]
#[test]
fn a_reused_read_context_is_caught() {
    let mutant = Some(shardine_shard::Mutant::ReusedReadContext);

    assert!(late_acknowledgements_confirm(Cluster::with(|options| options.mutant = mutant)));
}

fn late_acknowledgements_confirm(mut cluster: Cluster) -> bool {
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    // The leader stands still with the answers to its round before it.
    let first = cluster.read(1, "kv:a");
    cluster.hold(1);
    cluster.settle();
    let answers = cluster.held();
    cluster.depose_unseen(1, 2);
    cluster.submit(2, "set kv:a f=2");
    cluster.settle();

    let second = cluster.read(1, "kv:a");
    cluster.on(1, |replica, actions| replica.begin_read_round(actions));
    cluster.release(answers);

    assert_eq!(cluster.version(first), 1, "it was asked while 1 led");
    matches!(cluster.answer(second), Some(Answer::One(_)))
}

/// records 69: whether a record's time is over is looked at when a read is answered. Its round may have taken long.
#[test]
fn records_69_a_record_whose_time_ended_during_the_round_is_not_shown() {
    let mut cluster = Cluster::new();
    let ends = cluster.node(1).stamp().plus_ms(2 * TICK_MS);
    cluster.submit(1, &format!("set kv:a f=1 expires={}", ends.0));
    cluster.settle();

    let reader = cluster.read(1, "kv:a");
    cluster.hold(1);
    cluster.settle();
    (0..3).for_each(|_| cluster.tick_clocks());
    assert!(cluster.node(1).stamp() >= ends && cluster.answer(reader).is_none());
    let answers = cluster.held();
    cluster.release(answers);
    cluster.settle();

    assert_eq!(cluster.version(reader), -2, "it was deleted, not shown");
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
    let row = shardine_story::words::address(replica.records().catalogue(), "kv:a");
    match replica.read_stale(row, max_age_ms) {
        ReadStale::Found { row, applied } => Ok((shardine_records::read_reply(row).version.0, applied)),
        ReadStale::Refused(code) => Err(code),
        ReadStale::Later => panic!("a table without SQL is in memory"),
    }
}

/// Whether a leader has to find out for a stale read whether it is followed.
fn asks_around(cluster: &Cluster, node: u64, max_age_ms: u64) -> bool {
    let replica = cluster.node(node);
    let row = shardine_story::words::address(replica.records().catalogue(), "kv:a");
    matches!(replica.read_stale(row, max_age_ms), ReadStale::Later)
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

/// records 36: who has lost touch for longer than the reader accepts refuses; a leader asks first whether it is followed.
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
    assert!(stale(&cluster, 2, 6 * TICK_MS).is_ok(), "in touch again");
    cluster.cut_off(1);
    cluster.tick(5);
    assert!(cluster.node(1).is_serving(), "it does not know yet that it is alone");
    assert!(asks_around(&cluster, 1, 2 * TICK_MS));
}

/// records 36, issue 10: raft-rs tells a follower of no more commits than it has entries. One that hears heartbeats and gets no
/// entries is not in touch: the leader's real commit index counts.
#[test]
fn records_36_a_follower_that_hears_but_gets_no_entries_is_not_fresh() {
    assert_eq!(stale_without_entries(Cluster::new()), Err(ErrorCode::NotLeader));
}

#[cfg(feature = "mutants")]
#[test]
fn age_by_touch_is_caught() {
    let mutant = Some(shardine_shard::Mutant::StaleByTouch);

    assert!(stale_without_entries(Cluster::with(|options| options.mutant = mutant)).is_ok());
}

fn stale_without_entries(mut cluster: Cluster) -> Result<(i64, u64), ErrorCode> {
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(5);
    cluster.lose(|message| message.to().0 == 2 && message.summary().starts_with("MsgAppend "));
    cluster.submit(1, "set kv:a f=2");
    cluster.settle();

    cluster.tick(8);

    assert_eq!(cluster.version_on(1, "kv:a"), 2);
    assert!(stale(&cluster, 3, 6 * TICK_MS).is_ok());
    stale(&cluster, 2, 6 * TICK_MS)
}

/// records 36: a leader that was replaced and does not know it tells its followers how long ago a majority followed it: a
/// follower on its side of a cut grows old with it.
#[test]
fn records_36_a_follower_of_a_deposed_leader_grows_old_with_it() {
    let mut cluster = Cluster::of(5, |_| {});
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(6);
    // 1 and 2 hear each other, and nobody else.
    cluster.lose(|message| (message.from().0 <= 2) != (message.to().0 <= 2));
    cluster.tick(7);

    assert!(cluster.node(1).is_serving(), "it does not know yet that it is alone with 2");
    assert!(cluster.sent.iter().rev().take(10).any(|line| line.starts_with("MsgHeartbeat ") && line.contains("1->2")));
    assert_eq!(stale(&cluster, 2, 6 * TICK_MS), Err(ErrorCode::NotLeader));
    assert!(asks_around(&cluster, 1, 6 * TICK_MS));
}

/// records 36: messages that were long on their way make nobody younger.
#[test]
fn records_36_a_late_message_makes_nobody_fresh() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(6);
    cluster.hold(2);
    cluster.tick(3);
    let before = cluster.held();
    cluster.submit(1, "set kv:a f=2");
    cluster.tick(6);

    // What was said before the second change arrives, and is old news by then.
    assert!(before > 0);
    cluster.release(before);

    assert_eq!(cluster.version_on(2, "kv:a"), 1);
    assert_eq!(stale(&cluster, 2, 6 * TICK_MS), Err(ErrorCode::NotLeader));
}

/// records 36: followers apply what a majority has on disk, and the leader itself only what its own disk has. One whose disk
/// lags knows of changes that it cannot show, and is as old as it was before them.
#[test]
fn records_36_a_leader_whose_disk_lags_grows_old() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.tick(5);
    cluster.stick_disk(1);
    cluster.submit(1, "set kv:a f=2");
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));
    cluster.tick(4);

    assert_eq!((cluster.version_on(1, "kv:a"), cluster.version_on(2, "kv:a")), (1, 2));
    assert!(asks_around(&cluster, 1, 2 * TICK_MS));
    assert_eq!(stale(&cluster, 1, 10 * TICK_MS), Ok((1, cluster.node(1).applied())), "it was current not long ago");
    cluster.free_disk(1);
    cluster.settle();
    assert_eq!(stale(&cluster, 1, 2 * TICK_MS), Ok((2, cluster.node(1).applied())));
}

/// records 53, issue 10: reads wait for the peers, not for the leader's disk.
#[test]
fn records_53_a_read_round_does_not_wait_for_the_disk() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.stick_disk(1);
    cluster.submit(1, "set kv:b f=1");
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));

    let reader = cluster.read(1, "kv:a");
    cluster.on(1, |replica, actions| replica.begin_read_round(actions));
    cluster.settle();

    assert_eq!(cluster.version(reader), 1);
}

/// Asks to look at the records; says what was answered at once.
fn look(cluster: &mut Cluster, node: u64) -> (Caller, ReadBarrier) {
    let caller = cluster.caller();
    let mut barrier = None;
    cluster.on(node, |replica, _| barrier = Some(replica.read_barrier(caller)));
    (caller, barrier.expect("a leader takes it"))
}

/// issue 10: scans take the same round as reads, and share it.
#[test]
fn a_scan_takes_the_read_round() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.sent.clear();

    let (first, barrier) = look(&mut cluster, 1);
    let (second, _) = look(&mut cluster, 1);
    assert_eq!((barrier, cluster.passed.len()), (ReadBarrier::Waiting, 0));
    cluster.settle();

    assert_eq!(cluster.passed, [first, second]);
    let rounds = cluster.sent.iter().filter(|line| line.starts_with("MsgHeartbeat ")).count();
    assert_eq!(rounds, 2, "one question to each of two followers: {:?}", cluster.sent);
    assert_eq!(look(&mut cluster, 2).1, ReadBarrier::Refused(ErrorCode::NotLeader));
}

/// issue 10: a leader that was replaced lets nobody scan.
#[test]
fn a_deposed_leader_serves_no_scan() {
    assert!(!deposed_leader_serves_a_scan(Cluster::new()));
}

fn deposed_leader_serves_a_scan(mut cluster: Cluster) -> bool {
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.depose_unseen(1, 2);
    cluster.submit(2, "set kv:a f=2");
    cluster.settle();
    let (scan, barrier) = look(&mut cluster, 1);
    cluster.tick(30);
    let is_told = cluster.answer(scan) == Some(&Answer::Failed(ErrorCode::NotLeader));
    assert!(is_told || barrier != ReadBarrier::Waiting, "whoever waits is told");
    barrier == ReadBarrier::Passed || cluster.passed.contains(&scan)
}

#[cfg(feature = "mutants")]
#[test]
fn a_scan_of_local_memory_is_caught() {
    let mutant = Some(shardine_shard::Mutant::LocalScans);

    assert!(deposed_leader_serves_a_scan(Cluster::with(|options| options.mutant = mutant)));
}

//! Kept results are bounded: per client, in clients, and in bytes (records 35).

use shardine_model::limits::{
    REMEMBERED_BYTES_MAX, REMEMBERED_CLIENTS_MAX, REMEMBERED_RESULT_BYTES_MAX, REMEMBERED_RESULTS_MAX,
};
use shardine_model::{Answer, ErrorCode, Version};

use crate::history::{Leader, Outcome, Step, chunks, restore};

fn ask(leader: &mut Leader, line: &str) -> Answer {
    leader.take(&Step::Requests(vec![line.to_owned()], 0));
    match leader.outcomes.last() {
        Some(Outcome::Answered(answer)) => answer.clone(),
        other => panic!("no answer but {other:?}"),
    }
}

fn version(answer: &Answer) -> Version {
    match answer {
        Answer::One(reply) => reply.version,
        other => panic!("no reply but {other:?}"),
    }
}

#[test]
fn records_35_a_result_no_longer_kept_is_in_doubt() {
    let mut leader = Leader::new(1);
    for sequence in 1..=REMEMBERED_RESULTS_MAX as u64 + 1 {
        ask(&mut leader, &format!("incr users:a n 1 as=5/{sequence}"));
    }
    let before = leader.records.state_hash();

    let forgotten = ask(&mut leader, "incr users:a n 1 as=5/1");
    let oldest = ask(&mut leader, "incr users:a n 1 as=5/2");

    assert_eq!(forgotten, Answer::Failed(ErrorCode::InDoubt));
    assert_eq!(version(&oldest), Version(2));
    assert_eq!(leader.records.state_hash(), before, "neither was executed again");
}

#[test]
fn records_35_what_was_forgotten_stays_so_through_a_snapshot() {
    let mut leader = Leader::new(1);
    for sequence in 1..=REMEMBERED_RESULTS_MAX as u64 + 5 {
        ask(&mut leader, &format!("incr users:a n 1 as=5/{sequence}"));
    }

    leader.records = restore(2, &chunks(&mut leader.records));

    assert_eq!(ask(&mut leader, "incr users:a n 1 as=5/5"), Answer::Failed(ErrorCode::InDoubt));
    assert_eq!(version(&ask(&mut leader, "incr users:a n 1 as=5/6")), Version(6));
}

#[test]
fn records_35_the_client_unused_for_longest_is_forgotten_first() {
    let mut leader = Leader::new(1);
    let first = REMEMBERED_CLIENTS_MAX as u64 + 10;
    ask(&mut leader, &format!("incr users:a n 1 as={first}/1"));
    let lines = (1..REMEMBERED_CLIENTS_MAX as u64).map(|client| format!("incr users:b n 1 as={client}/1")).collect();
    leader.take(&Step::Requests(lines, 0));
    // The first client is used again, so the second is now the oldest.
    ask(&mut leader, &format!("incr users:a n 1 as={first}/2"));

    ask(&mut leader, &format!("incr users:a n 1 as={}/1", first + 1));

    assert_eq!(version(&ask(&mut leader, &format!("incr users:a n 1 as={first}/1"))), Version(1), "still kept");
    let again = version(&ask(&mut leader, "incr users:b n 1 as=1/1"));
    assert_eq!(again, Version(REMEMBERED_CLIENTS_MAX as i64), "a forgotten client starts anew, and is executed again");
}

#[test]
fn records_35_a_large_result_is_kept_without_its_row() {
    let mut leader = Leader::new(1);
    let large = "x".repeat(REMEMBERED_RESULT_BYTES_MAX + 1);

    let first = ask(&mut leader, &format!("set kv:a n={large} give=new as=5/1"));
    let again = ask(&mut leader, &format!("set kv:a n={large} give=new as=5/1"));

    let row = |answer: &Answer| match answer {
        Answer::One(reply) => reply.row().map(|row| row.packed.len()),
        other => panic!("no reply but {other:?}"),
    };
    assert!(row(&first) > Some(REMEMBERED_RESULT_BYTES_MAX));
    assert_eq!(row(&again), None);
    assert_eq!(version(&again), version(&first));
}

/// A slow request that others overtake is executed when it comes: they wait for it, not it for them.
#[test]
fn records_35_who_is_overtaken_is_executed_when_he_comes() {
    let mut leader = Leader::new(1);
    for sequence in 2..=REMEMBERED_RESULTS_MAX as u64 {
        ask(&mut leader, &format!("incr users:a n 1 as=5/{sequence}/1"));
    }
    let beyond = REMEMBERED_RESULTS_MAX as u64 + 1;

    assert_eq!(ask(&mut leader, &format!("incr users:a n 1 as=5/{beyond}/1")), Answer::Failed(ErrorCode::Busy));
    assert_eq!(version(&ask(&mut leader, "incr users:b n 1 as=5/1/1")), Version(1));
    assert_eq!(version(&ask(&mut leader, "incr users:b n 1 again=5/1/1")), Version(1), "kept like any other");
    let next = ask(&mut leader, &format!("incr users:a n 1 as=5/{beyond}/2"));
    assert_eq!(version(&next), Version(beyond as i64 - 1), "refused as busy is not executed, and not remembered");
}

/// Fills the shard's memory with other clients, so that those before are forgotten.
fn forget_all(leader: &mut Leader) {
    let others = 1_000_000..1_000_000 + REMEMBERED_CLIENTS_MAX as u64;
    let lines = others.map(|client| format!("incr users:z n 1 as={client}/1")).collect();
    leader.take(&Step::Requests(lines, 0));
}

/// Where clients were forgotten, one that is not known may be one of them: what it sends for the first time is executed,
/// what it repeats is in doubt.
#[test]
fn records_35_a_forgotten_client_that_repeats_is_in_doubt() {
    let mut leader = Leader::new(1);
    assert_eq!(version(&ask(&mut leader, "incr users:a n 1 again=4/9")), Version(1), "nobody was forgotten yet");
    ask(&mut leader, "incr users:a n 1 as=5/2");
    forget_all(&mut leader);
    let again = Answer::Failed(ErrorCode::InDoubt);

    assert_eq!(ask(&mut leader, "incr users:a n 1 again=5/2"), again);
    leader.records = restore(2, &chunks(&mut leader.records));
    assert_eq!(ask(&mut leader, "incr users:a n 1 again=5/2"), again, "also after a snapshot");
    assert_eq!(version(&ask(&mut leader, "incr users:a n 1 as=5/4/2")), Version(3));
    assert_eq!(ask(&mut leader, "incr users:a n 1 again=5/2/2"), again, "it is known again, the result is not");
    assert_eq!(ask(&mut leader, "incr users:a n 1 again=5/5/2"), again, "it may have been sent before, too");
    assert_eq!(version(&ask(&mut leader, "incr users:a n 1 again=5/4/2")), Version(3));
    let beyond = 2 + REMEMBERED_RESULTS_MAX as u64;
    let certain = ask(&mut leader, &format!("incr users:a n 1 again=5/{beyond}/4"));
    assert_eq!(version(&certain), Version(4), "it would have been busy before");
}

/// The product of what clients may keep is bounded, too.
#[test]
fn records_35_bytes_of_results_are_bounded() {
    let mut leader = Leader::new(1);
    let large = "x".repeat(REMEMBERED_RESULT_BYTES_MAX - 100);
    let clients = 3 + REMEMBERED_BYTES_MAX / (REMEMBERED_RESULT_BYTES_MAX * REMEMBERED_RESULTS_MAX);
    for client in 1..=clients {
        let line = |sequence| format!("set kv:a n={large} give=new as={client}/{sequence}/1");
        leader.take(&Step::Requests((1..=REMEMBERED_RESULTS_MAX).map(line).collect(), 0));
    }
    let head: usize = chunks(&mut leader.records).iter().map(Vec::len).sum();

    assert!(head < REMEMBERED_BYTES_MAX + (1 << 20), "{head} bytes are carried");
    let last = ask(&mut leader, &format!("set kv:a n=y give=new again={clients}/1/1"));
    let first = ask(&mut leader, "set kv:a n=y again=1/2/1");
    assert_eq!(version(&last), Version(((clients - 1) * REMEMBERED_RESULTS_MAX) as i64 + 1));
    assert_eq!(first, Answer::Failed(ErrorCode::InDoubt));
}

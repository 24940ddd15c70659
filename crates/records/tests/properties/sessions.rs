//! Kept results are bounded: per client, in clients, and in bytes (records 35).

use shardine_model::limits::{REMEMBERED_CLIENTS_MAX, REMEMBERED_RESULT_BYTES_MAX, REMEMBERED_RESULTS_MAX};
use shardine_model::{Answer, ErrorCode, Version};

use crate::history::{Leader, Outcome, Step};
use crate::snapshots::{chunks, restore};

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

//! Coordination groups of three replicas: what clients keep and what they lose when leaders come and go.

mod cluster;
#[path = "../support/files.rs"]
mod files;

use cluster::{Cluster, PATH};
use shardine_shard::coord::{Ask, NodeReply, SessionId, StatusCode, StreamMessage};

fn acquire(name: &str, timeout_ms: u64) -> Ask {
    Ask::Acquire { req: 1, name: name.to_owned(), timeout_ms, count: 1, data: Vec::new(), ephemeral: false }
}

fn create(name: &str) -> Ask {
    Ask::Create { req: 0, name: name.to_owned(), limit: 1, data: Vec::new() }
}

fn failed_with(heard: &[StreamMessage]) -> Option<StatusCode> {
    match heard.last() {
        Some(StreamMessage::Failure(refusal)) => Some(refusal.status),
        _ => None,
    }
}

/// coordination 185, 186.
#[test]
fn a_session_moves_to_the_new_leader_with_what_it_holds() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    let first = cluster.start(1, SessionId(0), 5_000);
    cluster.ask(1, first, &create("door"));
    cluster.ask(1, first, &acquire("door", 0));
    let session = cluster.session_of(first);

    cluster.cut_off(1);
    cluster.run_until_another_leads();
    let leader = cluster.leader();
    let second = cluster.start(leader, session, 5_000);
    cluster.run_until_heard(first, |message| matches!(message, StreamMessage::Failure(_)));

    assert_eq!(
        failed_with(cluster.heard(first)),
        Some(StatusCode::Unavailable),
        "the old leader sends its clients away"
    );
    assert_eq!(cluster.session_of(second), session);
    let found = cluster.replica(leader).coord().describe(cluster.node(leader), "door", true, false).unwrap();
    assert_eq!(found.owners[0].session, session);
}

/// coordination 187, 192: nobody is told on the old side that it holds what the new side has given away.
#[test]
fn a_cut_off_leader_lets_go_before_the_new_one_expires_anything() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    let owner = cluster.start(1, SessionId(0), 2_000);
    cluster.ask(1, owner, &create("door"));
    cluster.ask(1, owner, &acquire("door", 0));

    cluster.cut_off(1);
    cluster.run_until_another_leads();
    let leader = cluster.leader();
    let waiter = cluster.start(leader, SessionId(0), 60_000);
    cluster.ask(leader, waiter, &acquire("door", u64::MAX));
    let told_at = cluster.run_until_heard(owner, |message| matches!(message, StreamMessage::Failure(_)));
    let served_at =
        cluster.run_until_heard(waiter, |message| matches!(message, StreamMessage::Acquired { result: Ok(true), .. }));

    assert!(told_at < served_at, "told at {told_at}, given away at {served_at}");
}

/// A proposal that never reached a majority is not answered as done, and is not done.
#[test]
fn what_a_cut_off_leader_took_is_not_done() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    cluster.cut_off(1);

    let ticket = cluster.create_node(1, "/local/lost");
    cluster.run_until_another_leads();
    cluster.run(200);
    cluster.join(1);
    cluster.run(50);

    match cluster.reply(ticket) {
        Some(NodeReply::Refused(refusal)) => {
            assert!(matches!(refusal.status, StatusCode::Unavailable | StatusCode::Undetermined), "{refusal:?}");
        }
        other => panic!("{other:?}"),
    }
    for id in 1..=3 {
        assert_eq!(cluster.replica(id).coord().find_node("/local/lost"), None, "replica {id}");
    }
    cluster.check_agreement();
}

/// One that was away for long is brought up by a snapshot, and is the same.
#[test]
fn a_replica_far_behind_gets_a_snapshot() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    cluster.cut_off(3);
    let stream = cluster.start(1, SessionId(0), 60_000);
    for number in 0..200 {
        let name = format!("semaphore-{number}");
        cluster.ask(1, stream, &create(&name));
        cluster.ask(1, stream, &acquire(&name, 0));
    }

    cluster.join(3);
    cluster.run(300);

    assert!(cluster.replica(3).coord().find_node(PATH).is_some());
    assert!(cluster.snapshots_installed() > 0, "it was not the log that brought it up");
    cluster.check_agreement();
}

#[test]
fn only_the_leader_takes_streams() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();

    let stream = cluster.start(2, SessionId(0), 1_000);

    assert_eq!(failed_with(cluster.heard(stream)), Some(StatusCode::Unavailable));
}

/// A hand-over that fails costs nobody anything: what came meanwhile is done, and streams stay.
#[test]
fn a_hand_over_that_fails_leaves_nothing_behind() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    let stream = cluster.start(1, SessionId(0), 60_000);
    cluster.cut_off(3);

    cluster.hand_over(1, 3);
    cluster.ask(1, stream, &create("door"));
    let heard = cluster.heard(stream).len();
    cluster.run(20);

    assert!(!cluster.replica(1).is_handing_over() && cluster.replica(1).is_serving());
    assert_eq!(failed_with(cluster.heard(stream)), None, "nobody is sent away");
    assert!(cluster.heard(stream).len() > heard, "what was asked meanwhile is answered");
    assert!(cluster.replica(1).coord().describe(cluster.node(1), "door", true, false).is_some());
}

/// Whoever is connected is sent to the heir.
#[test]
fn a_hand_over_sends_streams_away() {
    let mut cluster = Cluster::led_by(1);
    cluster.make_node();
    let stream = cluster.start(1, SessionId(0), 60_000);
    let session = cluster.session_of(stream);

    cluster.hand_over(1, 2);

    assert_eq!(cluster.leader(), 2);
    assert_eq!(failed_with(cluster.heard(stream)), Some(StatusCode::Unavailable));
    let second = cluster.start(2, session, 60_000);
    assert_eq!(cluster.session_of(second), session);
}

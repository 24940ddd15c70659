//! Replies leave in the order of commands, whatever order the answers come in.

use proptest::prelude::*;
use shardine_model::ErrorCode;
use shardine_resp::{Flow, Options};
use shardine_router::Names;

use crate::talk::{Door, pipeline};

#[test]
fn replies_are_held_behind_a_waiting_one() {
    let mut door = Door::open();

    let received = door.receive(&pipeline(&["SET a 1", "PING", "GET b", "SET b 2", "PING"]));

    assert_eq!((received.flow, door.connection.waiting()), (Flow::Continue, 2));
    assert_eq!(door.take(), "");
    door.deliver(1);
    assert_eq!(door.take(), "");
    door.deliver(0);
    assert_eq!(door.take(), "+OK|+PONG|$-1|+OK|+PONG|");
    assert_eq!((door.connection.waiting(), door.connection.held_bytes()), (0, 0));
}

#[test]
fn parts_of_one_command_may_come_in_any_order() {
    let mut door = Door::open();
    door.say("MSET a 1 b 2 c 3");
    door.engine.is_late = true;

    door.receive(&pipeline(&["MGET a absent c", "DEL x a b"]));
    while !door.engine.responses.is_empty() {
        let last = door.engine.responses.len() - 1;
        door.deliver(last);
    }

    assert_eq!(door.take(), "*3|$1|1|$-1|$1|3|");
    let received = door.receive(&pipeline(&["DEL x a b"]));
    assert_eq!(received.flow, Flow::Continue);
    while !door.engine.responses.is_empty() {
        let last = door.engine.responses.len() - 1;
        door.deliver(last);
    }
    assert_eq!(door.take(), ":2|");
}

/// A node that has just started may not know the tables yet: who only asks whether it is there is answered.
#[test]
fn what_names_a_key_waits_until_it_is_known_what_keys_name() {
    let mut door = Door::open();
    door.engine.names = Names::NotYet;

    let input = pipeline(&["PING", "SET a 1", "PING"]);
    let received = door.receive(&input);
    assert_eq!((received.flow, door.take().as_str()), (Flow::Pause, "+PONG|"));
    assert!(door.connection.waits_for_names());

    let rest = &input[received.consumed..];
    door.engine.names = Names::Unknown;
    let refused = door.receive(&pipeline(&["GET a"]));
    assert_eq!(refused.flow, Flow::Continue);
    assert!(door.take().starts_with("-TRYAGAIN no_leader: "));

    door.engine.names = Names::Known;
    assert_eq!(door.receive(rest).flow, Flow::Continue);
    while !door.engine.responses.is_empty() {
        door.deliver(0);
    }
    assert_eq!(door.take(), "+OK|+PONG|");
    assert!(!door.connection.waits_for_names());
}

#[test]
fn mget_shows_one_key_s_error_in_its_place() {
    let mut door = Door::open();
    door.engine.failure = Some(ErrorCode::BackendUnavailable);

    let reply = door.say("MGET a b");

    let line = "-ERR backend_unavailable: the record must be read from SQL, which does not give it: see `shardine writeback status`|";
    assert_eq!(reply, format!("*2|{line}{line}"), "records 33");
}

#[test]
fn a_change_waits_for_earlier_reads_of_its_partition() {
    let mut door = Door::open();
    door.say("SET a old");
    door.engine.is_late = true;

    let input = pipeline(&["GET a", "SET b 1", "SET a new"]);
    let received = door.receive(&input);

    assert_eq!(received.flow, Flow::Pause);
    assert_eq!(&input[received.consumed..], pipeline(&["SET a new"]), "the change of another key went on");
    door.deliver(0);
    assert_eq!(door.receive(&input[received.consumed..]).flow, Flow::Continue);
}

#[test]
fn a_count_sees_the_writes_before_it() {
    let mut door = Door::open();

    let input = pipeline(&["SET a 1", "DBSIZE", "SET b 1"]);
    let received = door.receive(&input);

    assert_eq!(received.flow, Flow::Pause);
    assert_eq!(received.consumed, pipeline(&["SET a 1"]).len());
    door.send(&input[received.consumed..]);
    assert_eq!(door.take(), "+OK|:1|+OK|");
}

#[test]
fn protocol_errors_are_told_after_what_came_before() {
    let mut door = Door::open();
    let input = [&pipeline(&["SET a 1"])[..], b"*1\r\n:1\r\n"].concat();

    let received = door.receive(&input);

    assert_eq!((received.consumed, received.flow), (input.len(), Flow::Pause));
    assert_eq!(door.deliver(0), Flow::Close);
    assert_eq!(door.take(), "+OK|-ERR Protocol error: expected '$', got ':'|");
}

#[test]
fn quit_closes_after_the_last_reply() {
    let mut door = Door::open();

    let received = door.receive(&pipeline(&["SET a 1", "QUIT", "PING"]));

    assert_eq!(received.flow, Flow::Pause);
    assert_eq!(door.deliver(0), Flow::Close);
    assert_eq!(door.take(), "+OK|+OK|");
}

/// reliability F41, I77, S10.
#[test]
fn a_full_line_or_buffer_pauses() {
    let mut door = Door::with(Options { pipeline_max: 2, ..Options::default() });
    let input = pipeline(&["SET a 1", "SET b 1", "SET c 1"]);
    let received = door.receive(&input);
    assert_eq!((received.flow, door.connection.waiting()), (Flow::Pause, 2));

    let mut door = Door::with(Options { out_bytes_soft_max: 10, ..Options::default() });
    let received = door.receive(&pipeline(&["PING", "PING", "PING"]));
    assert_eq!(received.flow, Flow::Pause);
    assert_eq!(door.take(), "+PONG|+PONG|");
}

#[test]
fn an_answer_in_doubt_says_so() {
    let mut door = Door::open();
    door.engine.failure = Some(ErrorCode::InDoubt);

    let reply = door.say("SET a 1");

    assert!(reply.starts_with("-INDOUBT in_doubt: the change may or may not have been made"), "{reply}");
}

proptest! {
    #[test]
    fn bytes_split_anywhere_and_answers_in_any_order_give_the_same_replies(
        cuts in prop::collection::vec(1usize..40, 1..30), picks in prop::collection::vec(any::<usize>(), 60),
        is_late in any::<bool>(),
    ) {
        let lines = [
            "SET a 1", "GET a", "HSET h x 1 y 2", "MGET a b h", "INCR a", "PING", "DEL a b h", "EXISTS a", "SET a 5 EX 9",
            "TTL a", "EXPIRE a 5 LT", "HGETALL h", "MULTI", "SET a 7", "GET a", "EXEC", "DBSIZE", "GETDEL a", "GET a",
        ];
        let input = pipeline(&lines);
        let mut expected = Door::open();
        expected.send(&input);

        let mut door = Door::open();
        door.engine.is_late = is_late;
        let (mut start, mut end, mut picks) = (0, 0, picks.into_iter().cycle());
        for cut in cuts.into_iter().cycle() {
            end = (end + cut).min(input.len());
            start += door.receive(&input[start..end]).consumed;
            while !door.engine.responses.is_empty() {
                let index = picks.next().unwrap() % door.engine.responses.len();
                door.deliver(index);
            }
            if start == input.len() {
                break;
            }
        }

        prop_assert_eq!(door.take(), expected.take());
    }
}

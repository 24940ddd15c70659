//! `MULTI`, `EXEC`, `DISCARD` and `WATCH` within one partition.

use shardine_model::ErrorCode;

use crate::talk::{Door, frame, words};

#[test]
fn queued_commands_are_executed_at_once() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("SET {u}a 1", "+QUEUED|"),
        ("INCR {u}a", "+QUEUED|"),
        ("GET {u}a", "+QUEUED|"),
        ("HSET {u}h x 1 y 2", "+QUEUED|"),
        ("HGETALL {u}h", "+QUEUED|"),
        ("MGET {u}a {u}b", "+QUEUED|"),
        ("MSET {u}c 1 {u}d 2", "+QUEUED|"),
        ("EXISTS {u}c {u}d {u}x", "+QUEUED|"),
        ("DEL {u}c {u}d {u}x", "+QUEUED|"),
        ("PING", "+QUEUED|"),
        ("EXEC", "*10|+OK|:2|$1|2|:2|*4|$1|x|$1|1|$1|y|$1|2|*2|$1|2|$-1|+OK|:2|:2|+PONG|"),
        ("EXEC", "-ERR EXEC without MULTI|"),
        ("MULTI", "+OK|"),
        ("EXEC now", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command|"),
        ("DISCARD", "-ERR DISCARD without MULTI|"),
    ]);
}

/// redis-cluster A-53: one slot for the client, one partition here.
#[test]
fn rows_of_one_tag_in_several_tables_change_together() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("HSET users:{42} name Lili", "+QUEUED|"),
        ("SET notes:{42} x", "+QUEUED|"),
        ("HSET messages:{42}@1 text hi", "+QUEUED|"),
        ("SET cart:{42} y", "+QUEUED|"),
        ("EXEC", "*4|:1|+OK|:1|+OK|"),
        ("GET notes:42", "$1|x|"),
    ]);
}

#[test]
fn a_transaction_sees_the_end_that_it_gave_a_record() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("TTL s", "+QUEUED|"),
        ("SET s x EX 100", "+QUEUED|"),
        ("TTL s", "+QUEUED|"),
        ("PTTL s", "+QUEUED|"),
        ("PERSIST s", "+QUEUED|"),
        ("TTL s", "+QUEUED|"),
        ("EXEC", "*6|:-2|+OK|:100|:100000|:1|:-1|"),
    ]);
}

#[test]
fn a_faulty_command_fails_alone_when_executed() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("SET a text", "+QUEUED|"),
        ("INCR a", "+QUEUED|"),
        ("SET a 1 EX nan", "+QUEUED|"),
        ("GET a", "+QUEUED|"),
        (
            "EXEC",
            "*4|+OK|-ERR value is not an integer or out of range|\
             -ERR value is not an integer or out of range|$4|text|",
        ),
    ]);
}

#[test]
fn a_command_that_cannot_be_queued_spoils_the_rest() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("SET a 1", "+QUEUED|"),
        ("GET", "-ERR wrong number of arguments for 'get' command|"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
        ("GET a", "$-1|"),
        ("MULTI", "+OK|"),
        ("NOPE", "-ERR unknown command 'NOPE'…"),
        ("EXEC", "-EXECABORT …"),
        ("MULTI", "+OK|"),
        ("DBSIZE", "-ERR unsupported: DBSIZE cannot be part of a transaction…"),
        ("EXEC", "-EXECABORT …"),
    ]);
}

#[test]
fn keys_of_different_partitions_are_refused() {
    Door::open().script(&[
        ("MULTI", "+OK|"),
        ("SET a 1", "+QUEUED|"),
        ("SET b 1", "+QUEUED|"),
        ("EXEC", "-CROSSSLOT bad_request: the keys of a transaction must share one partition: …"),
        ("EXISTS a b", ":0|"),
        ("MULTI", "+OK|"),
        ("HSET users:1 age 1", "+QUEUED|"),
        ("SET 1 x", "+QUEUED|"),
        ("EXEC", "*2|:1|+OK|"),
    ]);
}

#[test]
fn discard_forgets_and_controls_do_not_nest() {
    Door::open().script(&[
        ("DISCARD", "-ERR DISCARD without MULTI|"),
        ("MULTI", "+OK|"),
        ("MULTI", "-ERR MULTI calls can not be nested|"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed|"),
        ("SET a 1", "+QUEUED|"),
        ("DISCARD", "+OK|"),
        ("GET a", "$-1|"),
        ("MULTI", "+OK|"),
        ("EXEC", "*0|"),
    ]);
}

fn watch_then_change(late: bool) -> Door {
    let mut door = Door::open();
    door.engine.is_late = late;
    door.script(&[("SET a 1", "+OK|"), ("WATCH a", "+OK|")]);
    door
}

#[test]
fn a_watched_key_that_changed_stops_the_transaction() {
    for late in [false, true] {
        let mut door = watch_then_change(late);
        door.script(&[("SET a 2", "+OK|"), ("MULTI", "+OK|"), ("SET a 3", "+QUEUED|"), ("EXEC", "*-1|")]);
        door.script(&[("GET a", "$1|2|"), ("MULTI", "+OK|"), ("SET a 3", "+QUEUED|"), ("EXEC", "*1|+OK|")]);
        door.script(&[
            ("HELLO 3", "%7|…"),
            ("WATCH a", "+OK|"),
            ("SET a 4", "+OK|"),
            ("MULTI", "+OK|"),
            ("EXEC", "_|"),
        ]);
    }
}

#[test]
fn a_watched_key_that_did_not_change_does_not() {
    for late in [false, true] {
        let mut door = watch_then_change(late);
        door.script(&[("MULTI", "+OK|"), ("INCR a", "+QUEUED|"), ("EXEC", "*1|:2|")]);
        door.script(&[("WATCH absent", "+OK|"), ("MULTI", "+OK|"), ("SET absent 3", "+QUEUED|"), ("EXEC", "*1|+OK|")]);
        door.script(&[("WATCH a", "+OK|"), ("SETBIT a 2 1", ":1|"), ("MULTI", "+OK|"), ("PING", "+QUEUED|")]);
        door.script(&[("EXEC", "*1|+PONG|")]);
    }
}

#[test]
fn unwatch_frees_the_next_transaction() {
    let mut door = watch_then_change(false);

    door.script(&[
        ("UNWATCH", "+OK|"),
        ("SET a 2", "+OK|"),
        ("MULTI", "+OK|"),
        ("GET a", "+QUEUED|"),
        ("EXEC", "*1|$1|2|"),
    ]);
}

#[test]
fn a_whole_transaction_may_come_in_one_packet() {
    let lines = ["WATCH a", "GET a", "MULTI", "SET a 2", "GET a", "EXEC", "GET a"];
    let input: Vec<u8> = lines.iter().flat_map(|line| frame(&words(line))).collect();
    for late in [false, true] {
        let mut door = Door::open();
        door.say("SET a 1");
        door.engine.is_late = late;

        door.send(&input);

        assert_eq!(door.take(), "+OK|$1|1|+OK|+QUEUED|+QUEUED|*2|+OK|$1|2|$1|2|");
    }
}

#[test]
fn a_batch_that_fails_as_a_whole_answers_with_its_code() {
    let mut door = Door::open();
    door.script(&[("MULTI", "+OK|"), ("SET a 1", "+QUEUED|")]);
    door.engine.failure = Some(ErrorCode::InDoubt);

    assert!(door.say("EXEC").starts_with("-INDOUBT in_doubt: "));
}

#[test]
fn the_queue_has_a_limit() {
    let mut door = Door::open();
    door.say("MULTI");
    for _ in 0..1_024 {
        assert_eq!(door.say("GET a"), "+QUEUED|");
    }

    assert!(door.say("GET a").starts_with("-ERR too_large: "));
    assert!(door.say("EXEC").starts_with("-EXECABORT"));
}

/// What is refused outside a transaction is refused inside one, by the same code: an odd `MSET` once emptied its last key.
#[test]
fn commands_over_several_keys_are_checked_inside_as_outside() {
    let mut door = Door::open();
    door.script(&[
        ("SET {t}b keep", "+OK|"),
        ("MSET {t}a 1 {t}b", "-ERR wrong number of arguments for 'mset' command…"),
        ("MULTI", "+OK|"),
        ("MSET {t}a 1 {t}b", "+QUEUED|"),
        ("SET {t}c 1", "+QUEUED|"),
        ("EXEC", "*2|-ERR wrong number of arguments for 'mset' command…"),
        ("MGET {t}a {t}b {t}c", "*3|$-1|$4|keep|$1|1|"),
    ]);
    let lines = [
        "MGET users:1",
        "EXISTS users:1 users:1",
        "DEL users:1 users:1",
        "MGET messages:c",
        "DEL messages:c",
        "MSET users:1 x",
    ];
    for line in lines {
        let outside = door.say(line);
        door.script(&[("MULTI", "+OK|"), (line, "+QUEUED|")]);

        assert_eq!(door.say("EXEC"), format!("*1|{outside}"), "{line}");
    }
}

/// A transaction may name no row: nothing of it has to be agreed upon but what is watched.
#[test]
fn a_transaction_without_rows_is_answered() {
    for late in [false, true] {
        let mut door = Door::open();
        door.engine.is_late = late;
        let unharmed =
            [("PING", "*1|+PONG|"), ("ECHO a", "*1|$1|a|"), ("SET x 1 EX nan", "*1|-ERR value is not an integer…")];
        for (line, reply) in unharmed {
            door.script(&[("MULTI", "+OK|"), (line, "+QUEUED|"), ("EXEC", reply)]);
            door.script(&[("WATCH x", "+OK|"), ("MULTI", "+OK|"), (line, "+QUEUED|"), ("EXEC", reply)]);
            door.script(&[
                ("WATCH x", "+OK|"),
                ("INCR x", "…"),
                ("MULTI", "+OK|"),
                (line, "+QUEUED|"),
                ("EXEC", "*-1|"),
            ]);
        }
        door.script(&[("WATCH x", "+OK|"), ("MULTI", "+OK|"), ("EXEC", "*0|")]);
        door.script(&[("WATCH x", "+OK|"), ("INCR x", "…"), ("MULTI", "+OK|"), ("EXEC", "*-1|")]);
        door.script(&[("MULTI", "+OK|"), ("TIME", "+QUEUED|"), ("EXEC", "*1|*2|…")]);
    }
}

/// The time of a shard never goes back, whatever the clock of the node does, and a record's time to live is told by it everywhere.
#[test]
fn a_time_to_live_is_told_by_the_shard_s_clock_in_a_transaction_too() {
    for is_late in [false, true] {
        let mut door = Door::open();
        door.say("SET x 1 EX 100");
        door.engine.shard.now.0 -= 50_000;
        door.engine.is_late = is_late;

        door.script(&[("TTL x", ":100|"), ("PTTL x", ":100000|"), ("MULTI", "+OK|")]);
        door.script(&[("TTL x", "+QUEUED|"), ("GET x", "+QUEUED|"), ("PTTL x", "+QUEUED|")]);
        door.script(&[("EXEC", "*3|:100|$1|1|:100000|")]);
    }
}

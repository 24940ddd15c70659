//! What clients of one node know of each other, and do to each other.

use shardine_model::Timestamp;
use shardine_resp::{Flow, Options};

use crate::talk::{Door, frame};

fn two() -> [Door; 2] {
    let options = Options::default();
    [8, 9].map(|id| Door::numbered(id, options.clone()))
}

#[test]
fn clients_see_each_other() {
    let [mut one, mut other] = two();
    other.script(&[("CLIENT SETNAME other", "+OK|"), ("MULTI", "+OK|"), ("GET a", "+QUEUED|")]);

    let list = one.say("CLIENT LIST");
    assert!(list.contains("id=8 addr=127.0.0.1:1008 ") && list.contains(" name=other "), "{list}");
    assert!(list.contains(" flags=x db=0 sub=0 psub=0 ssub=0 multi=1 "), "{list}");
    one.engine.shard.now = Timestamp(one.engine.shard.now.0 + 3_500);
    assert!(one.say("CLIENT LIST ID 9").contains("age=3 idle=3"), "it has said nothing since");
    one.script(&[
        ("CLIENT LIST TYPE replica", "$0||"),
        ("CLIENT LIST TYPE nope", "-ERR Unknown client type 'nope'|"),
        ("CLIENT LIST ID 0", "-ERR Invalid client ID|"),
        ("CLIENT LIST nope", "-ERR syntax error|"),
    ]);
    drop(other);
    assert!(!one.say("CLIENT LIST").contains("id=9"));
}

#[test]
fn a_client_ends_others_but_itself_only_if_it_says_so() {
    let [mut one, mut other] = two();
    one.script(&[
        ("CLIENT KILL ID 99", ":0|"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0|"),
        ("CLIENT KILL USER nobody", "-ERR No such user 'nobody'|"),
        ("CLIENT KILL ID", "-ERR No such client|"),
        ("CLIENT KILL ID 9 TYPE", "-ERR syntax error|"),
        ("CLIENT KILL 127.0.0.1:1", "-ERR No such client|"),
        ("CLIENT KILL TYPE normal", ":1|"),
    ]);

    assert!(other.connection.is_killed() && !one.connection.is_killed());
    assert_eq!(other.send(&frame(&["SET", "a", "1"])), Flow::Close, "nothing more of it is executed");
    assert_eq!((one.say("EXISTS a"), other.take()), (":0|".into(), String::new()));

    assert_eq!(one.send(&frame(&["CLIENT", "KILL", "ID", "8", "SKIPME", "no"])), Flow::Close);
    assert_eq!(one.take(), ":1|");
}

#[test]
fn a_pause_of_writes_holds_changes_and_what_stands_behind_them() {
    let [mut one, mut other] = two();
    one.script(&[
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range|"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative|"),
        ("CLIENT PAUSE 10 nope", "-ERR CLIENT PAUSE mode must be WRITE or ALL|"),
        ("CLIENT PAUSE 1000 WRITE", "+OK|"),
    ]);

    other.script(&[("GET a", "$-1|"), ("PING", "+PONG|"), ("EVAL_RO return\t1 0", ":1|")]);
    for line in ["SET a 1", "DEL a", "RENAME a a", "EVAL return\t1 0", "FLUSHALL"] {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('\t', " ")).collect();
        let received = other.receive(&frame(&words));
        assert_eq!((received.consumed, received.flow), (0, Flow::Pause), "{line}");
        assert!(other.connection.is_held());
    }
    one.script(&[("CLIENT UNPAUSE", "+OK|")]);
    other.script(&[("SET a 1", "+OK|")]);
    assert!(!other.connection.is_held());
}

#[test]
fn a_pause_of_all_ends_by_itself() {
    let [mut one, mut other] = two();
    one.script(&[("CLIENT PAUSE 1000", "+OK|"), ("CLIENT ID", ":8|")]);

    assert_eq!(other.receive(&frame(&["PING"])).flow, Flow::Pause);
    other.engine.shard.now = Timestamp(other.engine.shard.now.0 + 1_000);
    other.script(&[("PING", "+PONG|")]);
}

#[test]
fn what_took_long_is_kept() {
    let mut door = Door::open();
    door.script(&[
        ("CONFIG SET slowlog-log-slower-than 5000 slowlog-max-len 2", "+OK|"),
        ("CONFIG GET slowlog*", "*4|$23|slowlog-log-slower-than|$4|5000|$15|slowlog-max-len|$1|2|"),
        ("CONFIG SET slowlog-max-len x", "-ERR CONFIG SET failed …"),
    ]);
    let began = door.engine.shard.now;
    for (number, took_ms) in [4, 5, 6, 7].into_iter().enumerate() {
        door.engine.shard.now = began;
        door.receive(&frame(&["HSET", &format!("key{number}"), "f", "v"]));
        door.engine.shard.now = Timestamp(began.0 + took_ms);
        door.deliver(0);
    }
    door.take();

    door.script(&[
        ("SLOWLOG LEN", ":2|"),
        ("SLOWLOG GET 1", "*1|*6|:2|:1000|:7000|*3|$4|HSET|$4|key3|$22|... (2 more arguments)|$3|?:0|$0||"),
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1|"),
        ("SLOWLOG RESET", "+OK|"),
        ("SLOWLOG GET", "*0|"),
        ("SLOWLOG NOPE", "-ERR unknown subcommand 'NOPE'. Try SLOWLOG HELP.|"),
        ("LATENCY LATEST", "*0|"),
        ("LATENCY RESET", ":0|"),
        ("ROLE", "*3|$6|master|:0|*0|"),
    ]);
}

#[test]
fn what_is_not_here_says_why() {
    Door::open().script(&[
        (
            "HEXPIRE h 10 FIELDS 1 f",
            "-ERR unsupported: Shardine has no HEXPIRE: a record expires as a whole (EXPIRE), …",
        ),
        ("SORT l", "-ERR unsupported: Shardine has no SORT: it sorts lists and sets; …"),
        ("DEBUG SLEEP 0", "-ERR unsupported: Shardine has no DEBUG: nobody may …"),
        ("SUBSCRIBE c", "-ERR unsupported: Shardine has no SUBSCRIBE: there are no channels|"),
    ]);
}

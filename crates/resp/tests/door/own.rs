//! What the connection answers by itself.

use shardine_resp::{Flow, Options, Password};

use crate::talk::{Door, frame};

#[test]
fn greetings_and_small_talk() {
    Door::open().script(&[
        ("PING", "+PONG|"),
        ("PING hello", "$5|hello|"),
        ("ECHO hello", "$5|hello|"),
        ("SELECT 0", "+OK|"),
        ("SELECT 1", "-ERR DB index is out of range|"),
        ("TIME", "*2|$4|1000|$1|0|"),
        ("WAIT 1 100", ":0|"),
        ("HELLO 4", "-NOPROTO unsupported protocol version|"),
        (
            "HELLO 2",
            "*14|$6|server|$5|redis|$7|version|$5|7.2.0|$5|proto|:2|$2|id|:7|$4|mode|$10|standalone|$4|role|$6|master|\
             $7|modules|*0|",
        ),
        ("RESET", "+RESET|"),
        ("REC.CALL f", "-ERR unsupported: REC.CALL is not offered: Shardine runs no stored functions yet|"),
        ("LPUSH l 1", "-ERR unsupported: Shardine has no LPUSH, only records: hashes and strings|"),
        ("FOO a b", "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' |"),
    ]);
}

#[test]
fn clients_say_who_they_are() {
    Door::open().script(&[
        ("CLIENT ID", ":7|"),
        ("CLIENT GETNAME", "$-1|"),
        ("CLIENT SETNAME me", "+OK|"),
        ("CLIENT GETNAME", "$2|me|"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK|"),
        ("CLIENT SETINFO lib-ver 5.0", "+OK|"),
        ("CLIENT SETINFO BOGUS 5.0", "-ERR Unrecognized option 'BOGUS'|"),
        ("CLIENT INFO", "$263|id=7 addr=?:0 laddr=?:0 fd=0 name=me age=0 …"),
        ("CLIENT NO-EVICT on", "+OK|"),
        ("CLIENT KILL x", "-ERR No such client|"),
        ("CLIENT GETREDIR", ":-1|"),
        ("CLIENT TRACKING OFF", "+OK|"),
        ("CLIENT TRACKING ON", "-ERR unsupported: …"),
        ("CLIENT UNBLOCK 7", ":0|"),
    ]);
}

#[test]
fn libraries_find_what_they_ask_for() {
    let mut door = Door::open();
    door.script(&[
        ("COMMAND COUNT", ":116|"),
        ("COMMAND DOCS nope ttl", "*2|$3|ttl|*6|$7|summary|$44|Tells how many seconds a record has to live.|$5|since|$5|1.0.0|$5|group|$7|generic|"),
        ("COMMAND DOCS", "*232|$4|hget|*6|$7|summary|…"),
        ("COMMAND INFO get nope", "*2|*10|$3|get|:2|*1|+readonly|:1|:1|:1|*0|*0|*0|*0|*-1|"),
        ("COMMAND GETKEYS mset a 1 b 2", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS rename a b", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS bitop AND d a b", "*3|$1|d|$1|a|$1|b|"),
        ("COMMAND GETKEYS object encoding a", "*1|$1|a|"),
        ("COMMAND GETKEYS eval return 2 a b c", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS eval return 9 a b c", "-ERR Invalid arguments specified for command|"),
        ("COMMAND GETKEYS echo x", "-ERR The command has no key arguments|"),
        ("COMMAND", "*116|*10|$4|hget|:3|…"),
        ("CONFIG GET save", "*2|$4|save|$0||"),
        ("CONFIG GET append*", "*4|$11|appendfsync|$6|always|$10|appendonly|$3|yes|"),
        ("CONFIG GET nope", "*0|"),
        ("CONFIG SET save x", "-ERR unsupported: …"),
    ]);
    door.script(&[("MSET a 1 b 2", "+OK|"), ("HSET users:lili age 1", ":1|")]);
    let info = door.say("INFO");
    for text in
        ["# Server|", "redis_version:7.2.0|", "connected_clients:2|", "db0:keys=3,", "users:backing=sql,fields=5|"]
    {
        assert!(info.contains(text), "{text} in {info}");
    }
    let one = door.say("INFO keyspace");
    assert!(one.contains("# Keyspace|") && !one.contains("# Server|"), "{one}");
}

/// redis-cluster A-16: clients that know several nodes read how to ask and how to add up.
#[test]
fn commands_over_many_keys_say_how_they_are_split() {
    let mut door = Door::open();
    let mget = door.say("COMMAND INFO mget");
    assert!(mget.contains("*1|$26|request_policy:multi_shard|"), "{mget}");
    let dbsize = door.say("COMMAND INFO dbsize");
    assert!(dbsize.contains("*2|$25|request_policy:all_shards|$23|response_policy:agg_sum|"), "{dbsize}");
    for name in ["rec.get", "rec.explain", "object", "rename", "lcs", "get"] {
        let told = door.say(&format!("COMMAND INFO {name}"));
        assert!(told.contains("+readonly|") != told.contains("+write|"), "{told}");
    }
}

/// redis-cluster A-18: a cluster client is told that this is none.
#[test]
fn the_door_is_that_of_a_redis_without_a_cluster() {
    let mut door = Door::open();
    for line in ["CLUSTER INFO", "CLUSTER SLOTS", "READONLY", "READWRITE"] {
        assert_eq!(door.say(line), "-ERR This instance has cluster support disabled|", "{line}");
    }
    assert!(door.say("INFO cluster").contains("cluster_enabled:0|"));
}

fn locked() -> Door {
    Door::with(Options { password: Some(Password::new("secret")), ..Options::default() })
}

#[test]
fn strangers_may_only_say_who_they_are() {
    locked().script(&[
        ("PING", "-NOAUTH Authentication required.|"),
        ("GET a", "-NOAUTH …"),
        ("NOPE", "-NOAUTH …"),
        ("HELLO 3", "-NOAUTH HELLO must be called with the client already authenticated…"),
        ("AUTH wrong", "-WRONGPASS …"),
        ("AUTH other secret", "-WRONGPASS …"),
        ("AUTH secret", "+OK|"),
        ("PING", "+PONG|"),
        ("RESET", "+RESET|"),
        ("PING", "-NOAUTH …"),
        ("AUTH default secret", "+OK|"),
        ("PING", "+PONG|"),
    ]);
    locked().script(&[("HELLO 3 AUTH default secret SETNAME me", "%7|…"), ("CLIENT GETNAME", "$2|me|")]);
    Door::open().script(&[("AUTH x", "-ERR AUTH <password> called without any password…"), ("PING", "+PONG|")]);
}

/// reliability S10.
#[test]
fn strangers_have_tiny_limits() {
    let mut door = locked();
    let flow = door.send(b"*11\r\n");
    assert_eq!((flow, door.take().as_str()), (Flow::Close, "-ERR Protocol error: unauthenticated multibulk length|"));

    let mut door = locked();
    let flow = door.send(b"*1\r\n$16385\r\n");
    assert_eq!((flow, door.take().as_str()), (Flow::Close, "-ERR Protocol error: unauthenticated bulk length|"));
}

#[test]
fn a_browser_is_hung_up_on() {
    for request in [&b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n"[..], b"Host: localhost\r\nSET a 1\r\n"] {
        let mut door = Door::open();

        let flow = door.send(request);

        assert_eq!((flow, door.take().as_str()), (Flow::Close, ""), "reliability S9");
        assert!(door.engine.shard.records().live_count(None) == 0);
    }
}

#[test]
fn commands_may_be_typed_by_hand() {
    let mut door = Door::open();

    door.send(b"SET a \"x y\"\r\n\r\nGET a\r\n");

    assert_eq!(door.take(), "+OK|$3|x y|");
    assert_eq!(door.send(&frame(&["QUIT"])), Flow::Close);
}

//! Walks over many rows.

use crate::talk::Door;

fn filled() -> Door {
    let mut door = Door::open();
    for number in 0..30 {
        door.say(&format!("SET key:{number} x"));
    }
    door.script(&[("HSET users:lili age 1", ":1|"), ("HSET h a 1", ":1|"), ("SET kv:users:x 1", "+OK|")]);
    door
}

fn walk(door: &mut Door, options: &str) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let reply = door.say(format!("SCAN {cursor} {options}").trim());
        let mut lines = reply.split('|').skip(2);
        cursor = lines.next().expect("a cursor").to_owned();
        keys.extend(lines.skip(1).filter(|line| !line.starts_with('$') && !line.is_empty()).map(str::to_owned));
        if cursor == "0" {
            keys.sort();
            return keys;
        }
    }
}

#[test]
fn a_scan_sees_every_key_once() {
    let mut door = filled();

    let keys = walk(&mut door, "");

    assert_eq!(keys.len(), 33);
    assert!(["users:lili", "kv:users:x", "key:0", "h"].iter().all(|key| keys.iter().any(|found| found == key)));
    assert_eq!(walk(&mut door, "COUNT 3").len(), 33);
    assert_eq!(walk(&mut door, "MATCH key:1*").len(), 11);
    assert_eq!(walk(&mut door, "MATCH users:* COUNT 1000"), ["users:lili"]);
    assert_eq!(walk(&mut door, "TYPE hash COUNT 5"), ["h", "users:lili"]);
    assert!(door.engine.calls.iter().any(|call| call.contains("table: Some(TableId(2))")), "a prefix narrows the scan");
}

#[test]
fn scans_refuse_nonsense() {
    filled().script(&[
        ("SCAN x", "-ERR invalid cursor|"),
        ("SCAN 0 COUNT 0", "-ERR syntax error|"),
        ("SCAN 0 COUNT", "-ERR syntax error|"),
        ("SCAN 0 BOGUS 1", "-ERR syntax error|"),
    ]);
}

#[test]
fn the_whole_is_counted_listed_and_emptied() {
    let mut door = filled();
    door.script(&[("DBSIZE", ":33|"), ("KEYS user*", "*1|$10|users:lili|"), ("KEYS nope:*", "*0|")]);
    let random = door.say("RANDOMKEY");
    assert!(random.starts_with('$'), "{random}");

    door.script(&[("FLUSHALL ASYNC", "+OK|"), ("DBSIZE", ":1|"), ("RANDOMKEY", "$10|users:lili|")]);
    door.script(&[("DEL users:lili", ":1|"), ("RANDOMKEY", "$-1|"), ("FLUSHDB BOGUS", "-ERR syntax error|")]);
}

#[test]
fn records_are_scanned_with_their_versions() {
    let mut door = Door::open();
    for number in 1..4 {
        door.say(&format!("HSET messages:chat@{number} text t{number}"));
    }
    door.script(&[
        ("REC.SCAN messages:chat LIMIT 1 DESC", "*2|$16|…"),
        ("REC.SCAN messages:chat FROM 1 TO (3", "*2|$-1|*2|*4|$15|messages:chat@1|:1|:0|*2|$4|text|$2|t1|…"),
        ("REC.SCAN messages", "*2|$-1|*3|…"),
        ("REC.SCAN nope", "-ERR unknown_table: there is no table 'nope'|"),
        ("REC.SCAN users:lili", "-ERR bad_request: a key of users is one row, it has no sort key: use REC.GET|"),
        ("REC.SCAN messages FROM 1", "-ERR bad_request: FROM, TO and DESC order the rows of one key…"),
        ("REC.SCAN messages:chat FROM x", "-ERR bad_request: sort part \"x\" is not a valid int64|"),
    ]);
    assert!(door.engine.calls[1].contains("from: Including") && door.engine.calls[1].contains("to: Excluding"));
}

//! Nothing that a client sends makes the connection panic, stall, or grow without bound.

use proptest::prelude::*;
use shardine_resp::{Flow, Options};

use crate::talk::{Door, frame, pipeline};

/// reliability F37, I80, S10.
#[test]
fn a_claimed_length_costs_nothing() {
    let mut door = Door::open();

    for _ in 0..1_000 {
        let received = door.receive(b"*65536\r\n$33554432\r\nx");
        assert_eq!((received.consumed, received.flow), (0, Flow::Continue));
    }

    assert_eq!(door.out.capacity(), 0);
}

/// One reply has a limit, whatever it is made of: several records, one field again and again, or a transaction.
#[test]
fn a_reply_above_its_limit_is_refused_and_the_connection_lives() {
    for is_late in [false, true] {
        let mut door = Door::with(Options { reply_bytes_max: 2_000, ..Options::default() });
        let (value, refused) = ("x".repeat(900), "-ERR too_large: the reply would hold more than 2000 bytes…");
        door.script(&[(&format!("SET {{t}}a {value}"), "+OK|"), (&format!("HSET {{t}}h f {value}"), ":1|")]);
        door.engine.is_late = is_late;

        door.script(&[
            ("MGET {t}a {t}a", "*2|$900|…"),
            ("MGET {t}a {t}a {t}a", refused),
            ("MGET {t}b {t}a {t}a {t}a {t}a", refused),
            ("HMGET {t}h f f", "*2|$900|…"),
            ("HMGET {t}h f f f", refused),
            ("HRANDFIELD {t}h -3 WITHVALUES", refused),
            ("REC.GET {t}h FIELDS 2 f f", "*3|:1|:0|*4|$1|f|…"),
            ("REC.GET {t}h FIELDS 3 f f f", refused),
            ("PING", "+PONG|"),
        ]);
        assert_eq!((door.connection.waiting(), door.connection.held_bytes()), (0, 0));
    }
}

/// Every answer from elsewhere is a copy of the record: forty times one of 30 MiB was more than a gigabyte.
#[test]
fn a_record_that_is_named_again_is_asked_for_once() {
    let mut door = Door::with(Options::default());
    door.script(&[("SET a 1", "+OK|"), ("SET b 2", "+OK|")]);
    door.engine.is_late = true;

    door.script(&[
        ("MGET a b a c a c", "*6|$1|1|$1|2|$1|1|$-1|$1|1|$-1|"),
        ("EXISTS a a b c a c", ":4|"),
        ("DEL a a b", ":2|"),
    ]);

    let reads = door.engine.calls.iter().filter(|call| call.contains("Read")).count();
    assert_eq!(reads, 6, "three for each command that reads");
}

/// Reads that are answered elsewhere are asked a few at a time as long as their records may be large.
#[test]
fn a_connection_waits_for_few_large_records_at_once() {
    let mut door = Door::with(Options { late_bytes_soft_max: 10_000_000, ..Options::default() });
    door.say(&format!("SET large {}", "x".repeat(6_000_000)));
    door.say("SET small 1");
    door.engine.is_late = true;
    let input = [pipeline(&["GET large"; 10]), pipeline(&["GET small"; 100])].concat();
    let (mut consumed, mut most) = (0, [0, 0]);

    while consumed < input.len() || !door.engine.responses.is_empty() {
        let is_small = consumed >= pipeline(&["GET large"; 10]).len();
        consumed += door.receive(&input[consumed..]).consumed;
        most[usize::from(is_small)] = door.connection.waiting().max(most[usize::from(is_small)]);
        door.deliver(0);
        door.out.clear();
    }

    assert!(most[0] <= 3 && most[1] >= 50, "{most:?}");
}

/// A transaction has been executed when its reply turns out to be too long: the parts that do not fit say so, each for itself.
#[test]
fn a_transaction_above_the_limit_tells_what_fits() {
    let mut door = Door::with(Options { reply_bytes_max: 2_000, ..Options::default() });
    let value = "x".repeat(900);
    door.say(&format!("SET {{t}}a {value}"));
    let lines = ["MULTI", "GET {t}a", "MGET {t}a {t}a", "GETSET {t}a 1", "HSET {t}h f 1", "GET {t}a"];
    for line in lines {
        door.say(line);
    }

    let told = door.say("EXEC");

    let refused = "-ERR too_large: the reply would hold more than 2000 bytes: ask for fewer records or fields at once|";
    assert_eq!(told, format!("*5|$900|{value}|{refused}$900|{value}|:1|$1|1|"));
}

#[test]
fn keys_above_the_limit_are_refused() {
    let mut door = Door::with(Options { keys_rows_max: 3, ..Options::default() });
    door.script(&[
        ("MSET a 1 b 1 c 1", "+OK|"),
        ("KEYS [a-b]", "*2|…"),
        ("SET d 1", "+OK|"),
        ("KEYS a", "-ERR too_large: KEYS…"),
    ]);
}

#[test]
fn a_value_above_its_limit_is_refused_and_the_connection_lives() {
    let mut door = Door::open();

    door.send(&frame(&[b"SET", &b"a"[..], &vec![b'x'; (32 << 20) + 1]]));

    assert_eq!(door.take(), "-ERR too_large: the value has 33554433 bytes, the limit is 33554432|");
    assert_eq!(door.say("PING"), "+PONG|");
}

/// Words that commands are made of, so that random lines often mean something.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "a",
        "users:1",
        "messages:c@1",
        "notes:1",
        "name",
        "age",
        "value",
        "1",
        "-1",
        "0",
        "9223372036854775807",
        "1.5",
        "x",
        "EX",
        "NX",
        "XX",
        "GET",
        "GT",
        "COUNT",
        "MATCH",
        "*",
        "FIELDS",
        "VERSION",
        "IFVERSION",
        "ACK",
        "sql",
        "splice",
        "+",
        "=",
        "max",
        "unset",
        "CURSOR",
        "FROM",
        "DESC",
        "WITHVALUES",
        "INFO",
        "",
        "3",
    ];
    let verbs = [
        "HGET",
        "HSET",
        "HMGET",
        "HGETALL",
        "HSETNX",
        "HDEL",
        "HINCRBY",
        "HINCRBYFLOAT",
        "HRANDFIELD",
        "HSCAN",
        "SET",
        "GET",
        "GETEX",
        "GETDEL",
        "GETSET",
        "SETRANGE",
        "GETRANGE",
        "INCR",
        "DECRBY",
        "APPEND",
        "MGET",
        "MSET",
        "DEL",
        "EXISTS",
        "TTL",
        "EXPIRE",
        "PERSIST",
        "SCAN",
        "KEYS",
        "RANDOMKEY",
        "DBSIZE",
        "FLUSHDB",
        "INFO",
        "MULTI",
        "EXEC",
        "DISCARD",
        "WATCH",
        "UNWATCH",
        "HELLO",
        "CLIENT",
        "COMMAND",
        "CONFIG",
        "RESET",
        "REC.GET",
        "REC.SET",
        "REC.CAS",
        "REC.DEL",
        "REC.SCAN",
        "REC.KICK",
        "REC.FLUSH",
        "REC.EXPLAIN",
        "REC.INSERT",
        "REC.REPLACE",
        "TYPE",
        "AUTH",
        "WAIT",
        "TIME",
    ];
    prop_oneof![
        3 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(verbs.to_vec()).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_command_gets_exactly_one_reply(
        lines in prop::collection::vec(prop::collection::vec(word(), 1..7), 1..12), is_late in any::<bool>(),
    ) {
        let mut door = Door::open();
        door.engine.is_late = is_late;

        for line in &lines {
            let flow = door.send(&frame(line));

            prop_assert_eq!(flow, Flow::Continue, "{:?}", line);
            prop_assert_eq!(count_replies(&door.out), Some(1), "{:?} {:?}", line, door.take());
            door.out.clear();
            prop_assert_eq!(door.connection.waiting(), 0);
        }
    }
}

/// How many whole replies stand in the bytes; `None` if they are not well formed.
fn count_replies(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !bytes.is_empty() {
        bytes = skip_reply(bytes)?;
        count += 1;
    }
    Some(count)
}

fn skip_reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[1..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let parts = match bytes[0] {
        b'+' | b'-' | b'_' | b':' => 0,
        b'$' | b'=' => {
            return match number()? {
                -1 => Some(rest),
                length => rest.get(length as usize..)?.strip_prefix(b"\r\n"),
            };
        }
        b'*' | b'~' => number()?.max(0),
        b'%' => number()? * 2,
        _ => return None,
    };
    (0..parts).try_fold(rest, |rest, _| skip_reply(rest))
}

//! Records as strings: the field `value`.

use crate::talk::Door;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

#[test]
fn strings_behave_as_in_redis() {
    Door::open().script(&[
        ("SET s hello", "+OK|"),
        ("GET s", "$5|hello|"),
        ("GET absent", "$-1|"),
        ("STRLEN s", ":5|"),
        ("STRLEN absent", ":0|"),
        ("APPEND s _world", ":11|"),
        ("APPEND new x", ":1|"),
        ("GETRANGE s -5 -1", "$5|world|"),
        ("SUBSTR s 0 1", "$2|he|"),
        ("SETRANGE s 5 =", ":11|"),
        ("SETRANGE pad 3 x", ":4|"),
        ("GET pad", "$4|\0\0\0x|"),
        ("SETRANGE absent 3 ''", ":0|"),
        ("SETRANGE s -1 x", "-ERR offset is out of range|"),
        ("GETSET s new", "$11|hello=world|"),
        ("GETSET fresh new", "$-1|"),
        ("GETDEL s", "$3|new|"),
        ("GETDEL s", "$-1|"),
        ("SETNX s 1", ":1|"),
        ("SETNX s 2", ":0|"),
        ("MSET a 1 b 2", "+OK|"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command|"),
        ("MGET a b absent", "*3|$1|1|$1|2|$-1|"),
    ]);
}

#[test]
fn set_takes_all_its_options() {
    Door::open().script(&[
        ("SET s a NX", "+OK|"),
        ("SET s b NX", "$-1|"),
        ("SET s b XX", "+OK|"),
        ("SET absent b XX", "$-1|"),
        ("SET s c GET", "$1|b|"),
        ("SET absent c XX GET", "$-1|"),
        ("SET s d NX GET", "$1|c|"),
        ("SET s d EX 10", "+OK|"),
        ("TTL s", ":10|"),
        ("SET s e KEEPTTL", "+OK|"),
        ("TTL s", ":10|"),
        ("SET s e", "+OK|"),
        ("TTL s", ":-1|"),
        ("SET s e PX 2500 XX", "+OK|"),
        ("PTTL s", ":2500|"),
        ("SET s e EXAT 2000", "+OK|"),
        ("EXPIRETIME s", ":2000|"),
        ("SET s e PXAT 2000001", "+OK|"),
        ("PEXPIRETIME s", ":2000001|"),
        ("SETEX s 5 x", "+OK|"),
        ("PSETEX s 1500 x", "+OK|"),
        ("PTTL s", ":1500|"),
        ("GETEX s PERSIST", "$1|x|"),
        ("TTL s", ":-1|"),
        ("GETEX s EX 7", "$1|x|"),
        ("TTL s", ":7|"),
        ("GETEX s", "$1|x|"),
        ("TTL s", ":7|"),
        ("GETEX absent EX 7", "$-1|"),
        ("SET s e EX 0", "-ERR invalid expire time in 'set' command|"),
        ("SETEX s 9223372036854775807 x", "-ERR invalid expire time in 'setex' command|"),
        ("SET s e EX x", "-ERR value is not an integer or out of range|"),
        ("SET s e NX XX", "-ERR syntax error|"),
        ("SET s e EX 1 PX 1", "-ERR syntax error|"),
        ("SET s e EX", "-ERR syntax error|"),
        ("SET s e BOGUS", "-ERR syntax error|"),
    ]);
}

#[test]
fn counters_behave_as_in_redis() {
    Door::open().script(&[
        ("INCR n", ":1|"),
        ("INCRBY n 10", ":11|"),
        ("DECR n", ":10|"),
        ("DECRBY n 20", ":-10|"),
        ("GET n", "$3|-10|"),
        ("INCRBYFLOAT n 0.5", "$4|-9.5|"),
        ("INCR n", "-ERR value is not an integer or out of range|"),
        ("SET t text", "+OK|"),
        ("INCRBYFLOAT t 1", "-ERR value is not a valid float|"),
        ("SET n 9223372036854775807", "+OK|"),
        ("INCR n", "-ERR increment or decrement would overflow|"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow|"),
    ]);
}

#[test]
fn a_hash_is_not_a_string() {
    Door::open().script(&[
        ("HSET h a 1", ":1|"),
        ("GET h", WRONG),
        ("STRLEN h", WRONG),
        ("GETDEL h", WRONG),
        ("GETSET h x", WRONG),
        ("SET h x GET", WRONG),
        ("GETEX h", WRONG),
        ("SETRANGE h 0 x", WRONG),
        ("INCR h", WRONG),
        ("APPEND h x", WRONG),
        ("INCRBYFLOAT h 1", WRONG),
        ("MGET h", "*1|$-1|"),
        ("TYPE h", "+hash|"),
        ("HGET h a", "$1|1|"),
        ("SET h x", "+OK|"),
        ("TYPE h", "+string|"),
        ("HGET h value", WRONG),
        ("HGET h a", WRONG),
    ]);
}

/// In and out of transactions, and decided when it is executed: the record may have become another in between.
#[test]
fn a_string_is_not_a_hash() {
    let lines = [
        "HSET s a 1",
        "HMSET s a 1",
        "HSETNX s value 1",
        "HDEL s value",
        "HINCRBY s a 1",
        "HINCRBYFLOAT s a 1",
        "HGET s value",
        "HMGET s value",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HEXISTS s value",
        "HSTRLEN s value",
        "HRANDFIELD s",
        "HRANDFIELD s 2",
        "HSCAN s 0",
    ];
    let mut door = Door::open();
    door.say("SET s text");
    for line in lines {
        door.script(&[(line, WRONG), ("MULTI", "+OK|"), (line, "+QUEUED|"), ("EXEC", &format!("*1|{WRONG}"))]);
    }
    door.script(&[
        ("GET s", "$4|text|"),
        ("HSET h value 1", ":1|"),
        ("TYPE h", "+hash|"),
        ("GET h", WRONG),
        ("MULTI", "+OK|"),
        ("GETSET h x", "+QUEUED|"),
        ("GETDEL h", "+QUEUED|"),
        ("GETEX h PERSIST", "+QUEUED|"),
        ("SET h x GET", "+QUEUED|"),
        ("INCR h", "+QUEUED|"),
        ("SETRANGE h 0 x", "+QUEUED|"),
        ("EXEC", &format!("*6|{}", WRONG.repeat(6))),
        ("HGETALL h", "*2|$5|value|$1|1|"),
        ("REC.GET s", "*3|:1|:0|*2|$5|value|$4|text|"),
        ("REC.GET s FIELDS 2 value x", "*3|:1|:0|*4|$5|value|$4|text|$1|x|$-1|"),
        ("REC.SET s value new", "*2|:2|:0|"),
        ("GET s", "$3|new|"),
        ("REC.SET s a 1", "-WRONGTYPE wrong_type: the record is a string, …"),
    ]);
}

#[test]
fn bits_behave_as_in_redis() {
    Door::open().script(&[
        ("SETBIT b 7 1", ":0|"),
        ("SETBIT b 7 0", ":1|"),
        ("SETBIT b 20 1", ":0|"),
        ("GET b", "$3|\0\0\u{8}|"),
        ("GETBIT b 20", ":1|"),
        ("GETBIT b 21", ":0|"),
        ("GETBIT b 99999", ":0|"),
        ("GETBIT absent 0", ":0|"),
        ("GETBIT b -1", "-ERR bit offset is not an integer or out of range|"),
        ("SETBIT b 268435456 1", "-ERR bit offset is not an integer or out of range|"),
        ("SETBIT b 0 2", "-ERR bit is not an integer or out of range|"),
        ("SET s foobar", "+OK|"),
        ("BITCOUNT s", ":26|"),
        ("BITCOUNT s 0 0", ":4|"),
        ("BITCOUNT s 1 1", ":6|"),
        ("BITCOUNT s 5 30 BIT", ":17|"),
        ("BITCOUNT s 0", "-ERR syntax error|"),
        ("BITCOUNT absent 0 x", ":0|"),
        ("BITPOS s 1", ":1|"),
        ("BITPOS s 0", ":0|"),
        ("BITPOS s 1 2 -1", ":17|"),
        ("BITPOS s 1 7 15 BIT", ":9|"),
        ("BITPOS s 1 -100 -9223372036854775808 byte", ":1|"),
        ("BITPOS s 1 -1 -100", ":-1|"),
        ("BITCOUNT s -1 -100", ":0|"),
        ("BITCOUNT s -1 -100 BAD", ":0|"),
        ("BITCOUNT s -100 -1 BAD", "-ERR syntax error|"),
        ("BITCOUNT s -1 -100 BIT more", "-ERR syntax error|"),
        ("BITPOS absent 0", ":0|"),
        ("BITPOS absent 1", ":-1|"),
        ("BITPOS s 2", "-ERR The bit argument must be 1 or 0.|"),
        ("HSET h a 1", ":1|"),
        ("SETBIT h 0 1", WRONG),
        ("GETBIT h 0", WRONG),
        ("BITCOUNT h", WRONG),
    ]);
}

#[test]
fn msetnx_sets_all_or_none_of_one_partition() {
    Door::open().script(&[
        ("MSETNX {t}a 1 {t}b 2", ":1|"),
        ("MSETNX {t}c 1 {t}b 3", ":0|"),
        ("MGET {t}a {t}b {t}c", "*3|$1|1|$1|2|$-1|"),
        ("MSETNX {t}c 1 {t}c 2", ":1|"),
        ("GET {t}c", "$1|2|"),
        ("MSETNX {t}d 1 {t}e", "-ERR wrong number of arguments for 'msetnx' command|"),
        ("MSETNX a 1 b 2", "-CROSSSLOT bad_request: …"),
    ]);
}

#[test]
fn records_are_described_as_redis_describes_them() {
    Door::open().script(&[
        ("SET n 12", "+OK|"),
        ("SET s text", "+OK|"),
        ("HSET h a 1", ":1|"),
        ("OBJECT ENCODING n", "$3|int|"),
        ("OBJECT ENCODING s", "$6|embstr|"),
        ("OBJECT ENCODING h", "$8|listpack|"),
        ("OBJECT ENCODING absent", "$-1|"),
        ("OBJECT REFCOUNT s", ":1|"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command|"),
        ("OBJECT BOGUS s", "-ERR unknown subcommand 'BOGUS'. Try OBJECT HELP.|"),
        ("MEMORY USAGE s", ":57|"),
        ("MEMORY USAGE absent", "$-1|"),
        ("MEMORY USAGE s SAMPLES x", "-ERR value is not an integer or out of range|"),
        ("COMMAND GETKEYS object encoding s", "*1|$1|s|"),
    ]);
}

/// What Redis says first when several things are wrong.
#[test]
fn faults_are_told_in_the_order_of_redis() {
    Door::open().script(&[
        ("HSET h a 1", ":1|"),
        ("SET s text", "+OK|"),
        ("GETEX absent EX x", "$-1|"),
        ("GETEX absent EX -1", "$-1|"),
        ("GETEX h EX x", WRONG),
        ("GETEX s EX x", "-ERR value is not an integer or out of range|"),
        ("GETEX s EX 0", "-ERR invalid expire time in 'getex' command|"),
        ("GETEX absent BOGUS", "-ERR syntax error|"),
        ("SETRANGE h 99999999999 x", WRONG),
        ("SETRANGE absent 99999999999 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"),
        ("SETRANGE absent 99999999999 ''", ":0|"),
        ("SETRANGE s 99999999999 ''", ":4|"),
        ("SET s a EX 5 EX 10", "+OK|"),
        ("TTL s", ":10|"),
        ("SET s a XX XX KEEPTTL KEEPTTL", "+OK|"),
        ("TTL s", ":10|"),
        ("SET s a PERSIST", "-ERR syntax error|"),
        ("PERSIST s", ":1|"),
        ("PERSIST s", ":0|"),
        ("INCRBYFLOAT s nan", "-ERR value is not a valid float|"),
        ("INCRBYFLOAT s inf", "-ERR value is not a valid float|"),
        ("INCRBYFLOAT absent inf", "-ERR increment would produce NaN or Infinity|"),
        ("HINCRBYFLOAT h a inf", "-ERR value is NaN or Infinity|"),
        ("INCRBYFLOAT n 0x1p3", "$1|8|"),
        ("EXPIRE s x BOGUS", "-ERR Unsupported option BOGUS|"),
        ("HSCAN absent 0 BOGUS", "*2|$1|0|*0|"),
        ("HSCAN h 0 BOGUS", "-ERR syntax error|"),
    ]);
}

#[test]
fn a_table_with_a_field_value_holds_strings_too() {
    Door::open().script(&[
        ("SET notes:1 text", "+OK|"),
        ("GET notes:1", "$4|text|"),
        ("HGET notes:1 value", "$4|text|"),
        ("GETSET notes:1 new", "$4|text|"),
        ("GETDEL notes:1", "$3|new|"),
        ("SET users:lili x", "-WRONGTYPE wrong_type: records of users are no strings: …"),
        ("GET users:lili", "-WRONGTYPE wrong_type: records of users are no strings: …"),
        ("TYPE notes:2", "+none|"),
    ]);
}

#[test]
fn binary_values_come_back_as_they_went() {
    let mut door = Door::open();
    let value: Vec<u8> = (0..=255).collect();

    door.send(&crate::talk::frame(&[&b"SET"[..], b"s", &value]));
    door.send(&crate::talk::frame(&["GET", "s"]));

    assert_eq!(door.out, [b"+OK\r\n$256\r\n", &value[..], b"\r\n"].concat());
}

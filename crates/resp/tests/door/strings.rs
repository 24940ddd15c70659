//! Records as strings: the field `value`.

use crate::talk::Door;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value (wrong_type)|";

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
        ("SETRANGE s -1 x", "-ERR offset is out of range (bad_request)|"),
        ("GETSET s new", "$11|hello=world|"),
        ("GETSET fresh new", "$-1|"),
        ("GETDEL s", "$3|new|"),
        ("GETDEL s", "$-1|"),
        ("SETNX s 1", ":1|"),
        ("SETNX s 2", ":0|"),
        ("MSET a 1 b 2", "+OK|"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command (bad_request)|"),
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
        ("SET s e EX 0", "-ERR invalid expire time in 'set' command (bad_request)|"),
        ("SETEX s 9223372036854775807 x", "-ERR invalid expire time in 'setex' command (bad_request)|"),
        ("SET s e EX x", "-ERR value is not an integer or out of range (wrong_type)|"),
        ("SET s e NX XX", "-ERR syntax error (bad_request)|"),
        ("SET s e EX 1 PX 1", "-ERR syntax error (bad_request)|"),
        ("SET s e EX", "-ERR syntax error (bad_request)|"),
        ("SET s e BOGUS", "-ERR syntax error (bad_request)|"),
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
        ("INCR n", "-ERR value is not an integer or out of range (wrong_type)|"),
        ("SET t text", "+OK|"),
        ("INCRBYFLOAT t 1", "-ERR value is not a valid float (wrong_type)|"),
        ("SET n 9223372036854775807", "+OK|"),
        ("INCR n", "-ERR increment or decrement would overflow (overflow)|"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow (overflow)|"),
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
        ("HGET h value", "$1|x|"),
        ("HGET h a", "$-1|"),
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

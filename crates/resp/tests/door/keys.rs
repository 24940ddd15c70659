//! Records as a whole: their end, their time to live, and how they are addressed.

use crate::talk::Door;

#[test]
fn keys_end_and_are_counted() {
    Door::open().script(&[
        ("MSET a 1 b 2 c 3", "+OK|"),
        ("EXISTS a b absent a", ":3|"),
        ("TOUCH a absent", ":1|"),
        ("DEL a absent", ":1|"),
        ("UNLINK b c", ":2|"),
        ("EXISTS b", ":0|"),
        ("TYPE a", "+none|"),
        ("DEL a", ":0|"),
    ]);
}

#[test]
fn time_to_live_as_in_redis() {
    Door::open().script(&[
        ("SET s x", "+OK|"),
        ("TTL s", ":-1|"),
        ("TTL absent", ":-2|"),
        ("EXPIRE s 100", ":1|"),
        ("TTL s", ":100|"),
        ("EXPIRE absent 100", ":0|"),
        ("EXPIRE s 50 NX", ":0|"),
        ("EXPIRE s 50 GT", ":0|"),
        ("EXPIRE s 50 LT", ":1|"),
        ("EXPIRE s 60 XX", ":1|"),
        ("EXPIRE s 60 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible|"),
        ("EXPIRE s 60 BOGUS", "-ERR Unsupported option BOGUS|"),
        ("PEXPIRE s 1500", ":1|"),
        ("PTTL s", ":1500|"),
        ("EXPIREAT s 1100", ":1|"),
        ("TTL s", ":100|"),
        ("PEXPIREAT s 1000500", ":1|"),
        ("PTTL s", ":500|"),
        ("PERSIST s", ":1|"),
        ("PERSIST s", ":0|"),
        ("EXPIRE s 60 GT", ":0|"),
        ("EXPIRE s x", "-ERR value is not an integer or out of range|"),
        ("EXPIRE s 9223372036854775807", "-ERR invalid expire time in 'expire' command|"),
        ("EXPIRE s -1", ":1|"),
        ("EXISTS s", ":0|"),
    ]);
}

#[test]
fn rows_with_a_sort_key_are_written_behind_an_at() {
    Door::open().script(&[
        ("HSET messages:chat@1 text hi", ":1|"),
        ("HSET messages:chat@2 text ho", ":1|"),
        ("HGET messages:chat@2 text", "$2|ho|"),
        ("HGET messages:chat text", "-ERR bad_request: \"chat\" lacks its sort key: …"),
        ("HGET messages:chat@x text", "-ERR bad_request: sort part \"x\" is not a valid int64|"),
    ]);
}

#[test]
fn keys_of_kv_may_look_like_anything() {
    Door::open().script(&[
        ("SET unknown:1 a", "+OK|"),
        ("GET kv:unknown:1", "$1|a|"),
        ("SET kv:users:1 b", "+OK|"),
        ("GET kv:users:1", "$1|b|"),
        ("EXISTS users:1", ":0|"),
    ]);
    let long = "x".repeat(1_025);
    let reply = Door::open().say(&format!("GET {long}"));
    assert_eq!(reply, "-ERR too_large: the key has 1025 bytes, the limit is 1024|");
}

//! Scripts, and what is executed like one. A tab stands for a space inside a word.

use crate::talk::Door;

const RELEASE: &str =
    "if\tredis.call('get',KEYS[1])==ARGV[1]\tthen\treturn\tredis.call('del',KEYS[1])\telse\treturn\t0\tend";

#[test]
fn a_script_is_said_once_and_then_by_its_sum() {
    let mut door = Door::open();
    door.script(&[("SET lock mine", "+OK|")]);
    let sum = door.say(&format!("SCRIPT LOAD {RELEASE}"))[4..44].to_owned();

    for (line, expected) in [
        (format!("EVALSHA {sum} 1 lock theirs"), ":0|"),
        (format!("EVALSHA {} 1 lock mine", sum.to_uppercase()), ":1|"),
        ("GET lock".into(), "$-1|"),
        (format!("SCRIPT EXISTS {sum} x"), "*2|:1|:0|"),
        ("SCRIPT FLUSH".into(), "+OK|"),
        (format!("EVALSHA {sum} 1 lock mine"), "-NOSCRIPT No matching script. Please use EVAL.|"),
        (format!("EVAL {RELEASE} 1 lock mine"), ":0|"),
        (format!("EVALSHA {sum} 1 lock mine"), ":0|"),
        ("SCRIPT KILL".into(), "-NOTBUSY No scripts in execution right now.|"),
        ("SCRIPT NOPE".into(), "-ERR unknown subcommand 'NOPE'. Try SCRIPT HELP.|"),
    ] {
        assert_eq!(door.say(&line), expected, "{line}");
    }
}

#[test]
fn keys_of_a_script_share_a_partition() {
    Door::open().script(&[
        ("EVAL return\t1 2 a b", "-CROSSSLOT bad_request: the keys of a script, …"),
        ("EVAL return\t1 2 {t}a {t}b", ":1|"),
        ("EVAL return\t#KEYS 2 users:42 42", ":2|"),
        ("EVAL return\tredis.call('set','b','1') 1 a", "-…"),
        // One that names none goes where it looks.
        ("EVAL return\tredis.call('set','b','1') 0", "+OK|"),
        ("EVAL redis.call('set','a','1')\tredis.call('set','b','1') 0", "-CROSSSLOT …"),
        ("EXISTS a", ":0|"),
        ("EVAL return\t1 x", "-ERR value is not an integer or out of range|"),
        ("EVAL return\t1 1", "-ERR Number of keys can't be greater than number of args|"),
        ("EVAL return\t1 -1", "-ERR Number of keys can't be negative|"),
    ]);
}

#[test]
fn a_script_that_may_not_write_does_not() {
    Door::open().script(&[
        ("EVAL redis.call('set',KEYS[1],'1')\treturn\tredis.call('get',KEYS[1]) 1 a", "$1|1|"),
        (
            "EVAL_RO redis.call('set',KEYS[1],'2') 1 a",
            "-ERR Write commands are not allowed from read-only scripts. script: …",
        ),
        ("EVAL_RO return\tredis.call('get',KEYS[1]) 1 a", "$1|1|"),
        (
            "EVAL #!lua\tflags=no-writes\nreturn\tredis.call('set',KEYS[1],'2') 1 a",
            "-ERR Write commands are not allowed…",
        ),
        ("EVAL #!lua\tflags=nope\nreturn\t1 0", "-ERR Unexpected flag in script shebang: nope|"),
        ("EVAL_RO #!lua\nreturn\t1 0", "-ERR Can not execute a script with write flag using *_ro command.|"),
        ("EVAL return\tredis.call('keys','*') 1 a", "-ERR unsupported: KEYS looks beyond one partition…"),
    ]);
}

#[test]
fn a_script_is_part_of_its_transaction() {
    let mut door = Door::open();
    door.script(&[
        ("MULTI", "+OK|"),
        ("SET a 1", "+QUEUED|"),
        ("EVAL return\tredis.call('incrby',KEYS[1],ARGV[1]) 1 a 5", "+QUEUED|"),
        ("EXPIRE a 100 NX", "+QUEUED|"),
        ("INCR x{b}", "+QUEUED|"),
        ("EXEC", "-CROSSSLOT bad_request: the keys of a transaction must share one partition: …"),
        ("GET a", "$-1|"),
        ("MULTI", "+OK|"),
        ("SET a 1", "+QUEUED|"),
        ("EVAL return\tredis.call('incrby',KEYS[1],ARGV[1]) 1 a 5", "+QUEUED|"),
        ("EVALSHA 0 1 a", "+QUEUED|"),
        ("EXPIRE a 100 NX", "+QUEUED|"),
        ("SETBIT a 0 1", "+QUEUED|"),
        ("PING", "+QUEUED|"),
        ("EXEC", "*6|+OK|:6|-NOSCRIPT No matching script. Please use EVAL.|:1|:0|+PONG|"),
        ("WATCH a", "+OK|"),
        ("SET a 7", "+OK|"),
        ("MULTI", "+OK|"),
        ("EVAL return\tredis.call('set',KEYS[1],'8') 1 a", "+QUEUED|"),
        ("EXEC", "*-1|"),
        ("GET a", "$1|7|"),
    ]);
}

#[test]
fn a_key_takes_another_name_with_its_time() {
    Door::open().script(&[
        ("RENAME {t}a {t}b", "-ERR no such key|"),
        ("SET {t}a x EX 100", "+OK|"),
        ("RENAME {t}a {t}b", "+OK|"),
        ("TTL {t}b", ":100|"),
        ("EXISTS {t}a", ":0|"),
        ("COPY {t}b {t}a", ":1|"),
        ("COPY {t}b {t}a", ":0|"),
        ("COPY {t}b {t}a REPLACE", ":1|"),
        ("TTL {t}a", ":100|"),
        ("RENAMENX {t}b {t}a", ":0|"),
        ("RENAMENX {t}b {t}c", ":1|"),
        ("RENAME {t}a b", "-CROSSSLOT …"),
        ("HSET users:lili age 7", ":1|"),
        ("RENAME users:lili users:{lili}", "+OK|"),
        ("COPY users:lili lili", "-ERR bad_request: both keys must be rows of the same table|"),
    ]);
}

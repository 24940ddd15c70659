//! Records as hashes, in the dynamic table and in a table with a definition.

use crate::talk::Door;

const NOT_INT: &str = "-ERR hash value is not an integer|";

#[test]
fn a_dynamic_hash_behaves_as_in_redis() {
    Door::open().script(&[
        ("HSET h a 1 b 2", ":2|"),
        ("HSET h a 3 c 4", ":1|"),
        ("hget h a", "$1|3|"),
        ("HGET h nope", "$-1|"),
        ("HGET absent a", "$-1|"),
        ("HMGET h a nope c", "*3|$1|3|$-1|$1|4|"),
        ("HMGET absent a", "*1|$-1|"),
        ("HGETALL h", "*6|$1|a|$1|3|$1|b|$1|2|$1|c|$1|4|"),
        ("HGETALL absent", "*0|"),
        ("HKEYS h", "*3|$1|a|$1|b|$1|c|"),
        ("HVALS h", "*3|$1|3|$1|2|$1|4|"),
        ("HLEN h", ":3|"),
        ("HEXISTS h a", ":1|"),
        ("HEXISTS h nope", ":0|"),
        ("HSTRLEN h a", ":1|"),
        ("HSTRLEN h nope", ":0|"),
        ("HSETNX h a 9", ":0|"),
        ("HSETNX h d 9", ":1|"),
        ("HMSET h e 1 f 2", "+OK|"),
        ("HDEL h e f nope", ":2|"),
        ("HDEL absent e", ":0|"),
        ("HDEL h a b c d", ":4|"),
        ("EXISTS h", ":0|"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command|"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command|"),
    ]);
}

#[test]
fn resp3_has_maps_and_its_own_null() {
    Door::open().script(&[
        ("HELLO 3", "%7|$6|server|$5|redis|$7|version|…"),
        ("HSET h a 1", ":1|"),
        ("HGETALL h", "%1|$1|a|$1|1|"),
        ("HGETALL absent", "%0|"),
        ("HGET h nope", "_|"),
        ("HMGET h a nope", "*2|$1|1|_|"),
        ("HRANDFIELD h 1 WITHVALUES", "*1|*2|$1|a|$1|1|"),
        ("HRANDFIELD absent", "_|"),
    ]);
}

#[test]
fn counting_speaks_redis_about_numbers() {
    Door::open().script(&[
        ("HINCRBY h n 5", ":5|"),
        ("HINCRBY h n -7", ":-2|"),
        ("HINCRBY h n 9223372036854775807", ":9223372036854775805|"),
        ("HINCRBY h n 9223372036854775807", "-ERR increment or decrement would overflow|"),
        ("HINCRBY h n x", "-ERR value is not an integer or out of range|"),
        ("HSET h t text", ":1|"),
        ("HINCRBY h t 1", NOT_INT),
        ("HINCRBYFLOAT h f 1.5", "$3|1.5|"),
        ("HINCRBYFLOAT h f 1.25", "$4|2.75|"),
        ("HINCRBYFLOAT h t 1", "-ERR hash value is not a float|"),
        ("HINCRBYFLOAT h f nan", "-ERR value is not a valid float|"),
    ]);
}

#[test]
fn a_typed_hash_has_all_its_fields() {
    Door::open().script(&[
        ("HSET users:lili name Lili", ":1|"),
        ("HGET users:lili name", "$4|Lili|"),
        ("HGET users:lili age", "$2|18|"),
        ("HGET users:nobody age", "$-1|"),
        ("HLEN users:lili", ":5|"),
        ("HEXISTS users:lili score", ":1|"),
        ("HEXISTS users:nobody score", ":0|"),
        ("HGETALL users:lili", "*10|$4|name|$4|Lili|$3|age|$2|18|$5|score|$1|0|$6|points|$1|0|$5|photo|$0||"),
        ("HINCRBY users:lili age 2", ":20|"),
        ("HINCRBY users:lili points 3", ":3|"),
        ("HINCRBY users:lili points -4", "-ERR increment or decrement would overflow|"),
        ("HINCRBY users:lili score 1", NOT_INT),
        ("HINCRBYFLOAT users:lili score 1.5", "$3|1.5|"),
        ("HINCRBYFLOAT users:lili age 1.5", "-ERR hash value is not a float|"),
        ("HDEL users:lili age", ":1|"),
        ("HGET users:lili age", "$2|18|"),
    ]);
}

/// redis-cluster A-51: what a client of Redis Cluster writes around a key to find its slot is no part of the key.
#[test]
fn braces_around_a_key_of_a_typed_table_are_no_part_of_it() {
    Door::open().script(&[
        ("HSET users:{42} name Lili", ":1|"),
        ("HGET users:42 name", "$4|Lili|"),
        ("HSET users:{{42}} name Bob", ":1|"),
        ("HGET users:{42} name", "$4|Lili|"),
        ("HSET users:{42}:x name Eve", ":1|"),
        ("HSET messages:{42}@7 text hi", ":1|"),
        ("HGET messages:42@7 text", "$2|hi|"),
        ("REC.SCAN messages:{42}", "*2|$-1|*1|*4|$13|messages:42@7|…"),
        ("SET {42} v", "+OK|"),
        ("GET 42", "$-1|"),
        ("KEYS users:*", "*3|$8|users:42|$12|users:{{42}}|$12|users:{42}:x|"),
        ("KEYS {*", "*1|$4|{42}|"),
        ("DEL users:{{42}} users:{42}:x users:42", ":3|"),
    ]);
}

#[test]
fn a_typed_hash_refuses_what_does_not_fit() {
    Door::open().script(&[
        (
            "HSET users:lili size 3",
            "-ERR unknown_field: table users has no field 'size', only name, age, score, points, photo|",
        ),
        ("HGET users:lili size", "-ERR unknown_field: …"),
        ("HMGET users:lili name size", "-ERR unknown_field: …"),
        ("HSET users:lili age old", "-WRONGTYPE wrong_type: field age is int64, and 'old' is none|"),
        ("HSET users:lili points -1", "-WRONGTYPE wrong_type: field points is uint64, and '-1' is none|"),
        ("HSET users:lili score inf", "-WRONGTYPE wrong_type: …"),
        ("EXISTS users:lili", ":0|"),
    ]);
}

#[test]
fn a_faulty_read_is_refused_before_it_is_asked() {
    let mut door = Door::late();

    let reply = door.say("HGET users:lili size");

    assert!(reply.starts_with("-ERR unknown_field"), "records 12: {reply}");
    assert_eq!(door.engine.calls, [] as [String; 0]);
}

#[test]
fn late_reads_print_as_early_ones() {
    let lines = [
        "HSET h a 1 b 2",
        "HSET users:lili name Lili",
        "HGET h a",
        "HGET users:lili age",
        "HGETALL h",
        "HMGET h b c",
        "HGETALL users:lili",
        "HLEN h",
        "HSTRLEN h a",
        "TYPE h",
        "EXISTS h absent h",
        "MGET h absent",
        "SET s text",
        "GET s",
        "GETRANGE s 1 2",
        "MGET s h s",
        "TTL s",
        "EXPIRE s 10",
        "TTL s",
        "TTL absent",
        "PERSIST s",
        "PERSIST s",
        "EXPIRE s 5 XX",
        "EXPIRE s 5 NX",
        "SETRANGE s 6 x",
        "GETDEL h",
        "GETDEL s",
        "REC.GET users:lili",
        "HSCAN h 0",
    ];
    let (mut early, mut late) = (Door::open(), Door::late());

    for line in lines {
        assert_eq!(late.say(line), early.say(line), "{line}");
    }
}

#[test]
fn random_fields_and_scans_show_what_is_there() {
    let mut door = Door::open();
    door.say("HSET h a 1 b 2");

    let one = door.say("HRANDFIELD h");

    assert!(["$1|a|", "$1|b|"].contains(&one.as_str()), "{one}");
    assert!(door.say("HRANDFIELD h 5").starts_with("*2|"));
    assert!(door.say("HRANDFIELD h -5").starts_with("*5|"));
    assert!(door.say("HRANDFIELD h 5 WITHVALUES").starts_with("*4|"));
    door.script(&[
        ("HRANDFIELD absent", "$-1|"),
        ("HRANDFIELD absent 3", "*0|"),
        (
            "HRANDFIELD h -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|",
        ),
        ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range|"),
        ("HRANDFIELD h -1048577", "-ERR too_large: …"),
        ("HSCAN h 0", "*2|$1|0|*4|$1|a|$1|1|$1|b|$1|2|"),
        ("HSCAN h 0 MATCH b* COUNT 10", "*2|$1|0|*2|$1|b|$1|2|"),
        ("HSCAN h 0 NOVALUES", "*2|$1|0|*2|$1|a|$1|b|"),
        ("HSCAN h x", "-ERR invalid cursor|"),
    ]);
}

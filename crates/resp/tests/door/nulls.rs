//! NULL, and the types of SQL: what they look like as hashes, and as records.

use crate::talk::Door;

#[test]
fn what_is_null_is_no_field_of_a_hash() {
    Door::open().script(&[
        ("HSET bills:a sum 1.5", ":1|"),
        ("HGET bills:a nick", "$-1|"),
        ("HMGET bills:a nick sum", "*2|$-1|$4|1.50|"),
        ("HEXISTS bills:a nick", ":0|"),
        ("HLEN bills:a", ":3|"),
        ("HKEYS bills:a", "*3|$4|paid|$3|sum|$3|doc|"),
        ("HGETALL bills:a", "*6|$4|paid|$5|false|$3|sum|$4|1.50|$3|doc|$4|null|"),
        ("HSTRLEN bills:a nick", ":0|"),
        ("HSETNX bills:a nick Lili", ":1|"),
        ("HSETNX bills:a nick Bob", ":0|"),
        ("HGET bills:a nick", "$4|Lili|"),
        ("HDEL bills:a nick", ":1|"),
        ("HGET bills:a nick", "$-1|"),
        ("HSET bills:a nick NULL", ":1|"),
        ("HGET bills:a nick", "$4|NULL|"),
    ]);
}

#[test]
fn records_show_null_and_are_told_of_it() {
    Door::open().script(&[
        ("REC.SET bills:a paid true NULL nick", "*2|:1|:0|"),
        ("REC.GET bills:a", "*3|:1|:0|*10|$4|nick|$-1|$4|paid|$4|true|$3|sum|$4|0.00|$2|at|$-1|$3|doc|$4|null|"),
        ("REC.GET bills:a FIELDS 2 at paid", "*3|:1|:0|*4|$2|at|$-1|$4|paid|$4|true|"),
        ("REC.UPDATE bills:a nick = Lili at null", "*3|:2|:0|*4|$4|nick|$4|Lili|$2|at|$-1|"),
        ("REC.CAS bills:a nick Lili - TONULL", "*2|:3|:0|"),
        ("REC.CAS bills:a nick Lili Bob", "-ERR cas_mismatch: the record is at version 3, the field holds NULL|"),
        ("REC.CAS bills:a nick - Bob WASNULL", "*2|:4|:0|"),
        ("REC.REPLACE bills:a NULL nick ACK raft", "*2|:5|:0|"),
        ("REC.SET bills:a NULL sum", "-WRONGTYPE wrong_type…"),
        ("REC.SET bills:a paid true NULL", "-ERR syntax error|"),
    ]);
}

#[test]
fn values_of_sql_have_one_text_and_are_counted_exactly() {
    Door::open().script(&[
        ("HSET bills:a sum 0.1 paid 1 at 2026-11-19T21:47:45+02:00", ":3|"),
        ("HINCRBYFLOAT bills:a sum 0.2", "$4|0.30|"),
        ("HINCRBY bills:a sum 2", "$4|2.30|"),
        (
            "REC.UPDATE bills:a sum - 2.31 at max 2026-11-19T19:00:00Z",
            "*3|:4|:0|*4|$3|sum|$5|-0.01|$2|at|$20|2026-11-19T19:47:45Z|",
        ),
        ("HGET bills:a paid", "$4|true|"),
        ("HINCRBYFLOAT bills:a sum 0.001", "-ERR hash value is not a float|"),
        ("HINCRBY bills:a paid 1", "-ERR hash value is not an integer|"),
        ("HSET bills:a sum 10000", "-WRONGTYPE wrong_type: field sum is decimal(6,2), and '10000' is none…"),
        ("HSET bills:a at 2026-02-30T00:00:00Z", "-WRONGTYPE wrong_type: field at is timestamp(0)…"),
        ("HSET bills:a doc {\"a\":[1]}", ":0|"),
        ("HSET bills:a doc {a:1}", "-WRONGTYPE wrong_type: field doc is json…"),
        ("HGET bills:a doc", "$9|{\"a\":[1]}|"),
    ]);
}

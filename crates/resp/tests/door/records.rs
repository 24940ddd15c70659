//! `REC.…`: records with their versions.

use shardine_model::ErrorCode;

use crate::talk::Door;

#[test]
fn versions_travel_with_records() {
    Door::open().script(&[
        ("REC.GET users:lili", "*3|:0|:0|$-1|"),
        ("REC.SET users:lili name Lili", "*2|:1|:0|"),
        ("REC.GET users:lili FIELDS 2 name age", "*3|:1|:0|*4|$4|name|$4|Lili|$3|age|$2|18|"),
        ("REC.GET users:lili VERSION 1", "+UNCHANGED|"),
        ("REC.GET users:lili VERSION 7 FIELDS 1 age STALE", "*4|:1|:0|*2|$3|age|$2|18|:99|"),
        // records 36: with the age that is accepted.
        ("REC.GET users:lili STALE 50 FIELDS 1 age", "*4|:1|:0|*2|$3|age|$2|18|:50|"),
        ("REC.GET users:lili STALE -1", "-ERR value is not an integer or out of range|"),
        ("REC.GET users:lili FIELDS 1 size", "-ERR unknown_field: …"),
        ("REC.GET users:lili FIELDS 3 age", "-ERR syntax error|"),
        ("REC.SET users:lili age 20 IFVERSION 1", "*2|:2|:0|"),
        ("REC.SET users:lili age 20 IFVERSION 1", "-ERR version_mismatch: the record is at version 2|"),
        ("REC.INSERT users:lili age 3", "-ERR exists: the record is at version 2|"),
        ("REC.INSERT users:new", "*2|:1|:0|"),
        ("REC.REPLACE users:lili age 5", "*2|:3|:0|"),
        ("HGET users:lili name", "$0||"),
        ("REC.CAS users:lili age 5 6", "*2|:4|:0|"),
        ("REC.CAS users:lili age 5 6", "-ERR cas_mismatch: the record is at version 4, the field holds '6'|"),
        ("REC.CAS users:absent age 5 6", "-ERR not_found: the record does not exist, its version is 0|"),
        ("REC.CAS users:absent age 5 6 NX", "*2|:1|:0|"),
    ]);
}

#[test]
fn a_delete_tells_what_it_found() {
    Door::open().script(&[
        ("REC.SET users:lili age 6", "*2|:1|:0|"),
        ("REC.DEL users:lili RETURN IFVERSION 1", "*3|:-2|:0|*2|$3|age|$1|6|"),
        ("REC.DEL users:lili RETURN", "*3|:-2|:0|$-1|"),
        ("REC.DEL users:lili", "*3|:-2|:0|:0|"),
        ("REC.SET users:lili age 6", "*2|:3|:0|"),
        ("REC.DEL users:lili", "*3|:-4|:0|:1|"),
    ]);
}

#[test]
fn updates_are_lists_of_operations() {
    Door::open().script(&[
        ("REC.UPDATE users:lili age + 2", "-ERR not_found: the record does not exist, its version is 0|"),
        ("REC.UPDATE users:lili age + 2 points = 7 CREATE", "*3|:1|:0|*4|$3|age|$2|20|$6|points|$1|7|"),
        ("REC.UPDATE users:lili age max 30 IFVERSION 1", "*3|:2|:0|*2|$3|age|$2|30|"),
        ("REC.UPDATE users:lili photo append ab", "*3|:3|:0|*2|$5|photo|$2|ab|"),
        ("REC.UPDATE users:lili photo splice 1 1 cd", "*3|:4|:0|*2|$5|photo|$3|acd|"),
        ("REC.UPDATE users:lili photo unset", "*3|:5|:0|*2|$5|photo|$0||"),
        ("REC.UPDATE users:lili age ? 3", "-ERR bad_request: there is no operation '?': …"),
        ("REC.UPDATE users:lili age +", "-ERR bad_request: the operation on 'age' is not complete…"),
        ("REC.UPDATE users:lili age + 1 photo splice 1", "-ERR bad_request: the operation on 'photo' is not complete…"),
        ("REC.UPDATE users:lili age + 1 BOGUS x y", "-ERR unknown_field: …"),
        ("REC.SET users:lili age 1 IFVERSION", "-ERR syntax error|"),
        ("REC.SET users:lili age 1 ACK never", "-ERR bad_request: ACK is raft or sql, not 'never'|"),
        ("REC.SET users:lili age 1 RETURN", "-ERR bad_request: REC.SET does not know 'RETURN'…"),
        ("REC.SET users:lili age", "-ERR wrong number…"),
    ]);
}

#[test]
fn a_write_may_wait_for_sql() {
    let mut door = Door::open();

    door.script(&[
        ("REC.SET users:lili age 1 ACK sql", "*3|:1|:1|$7|written|"),
        ("REC.SET users:lili age 2 ACK raft", "*2|:2|:1|"),
    ]);
    door.script(&[("REC.SET lili value 1 ACK sql", "-ERR bad_request: the table has no SQL behind it to wait for|")]);
    door.engine.shard.sql_failure = Some(ErrorCode::BackendUnavailable);

    door.script(&[("REC.SET users:lili age 3 ACK sql", "*3|:3|:1|$7|pending|")]);
    assert!(
        door.engine.calls.iter().all(|call| call.starts_with("Row(Submit")),
        "records 32, write-back 108: {:?}",
        door.engine.calls
    );
}

#[test]
fn kick_flush_and_explain_reach_the_hall() {
    let mut door = Door::open();
    for age in 1..=3 {
        door.say(&format!("HSET users:lili age {age}"));
    }
    door.script(&[
        ("REC.KICK users:lili", "+OK|"),
        ("REC.KICK users:lili NOWAIT", "+OK|"),
        ("REC.KICK users:lili SOON", "-ERR syntax error|"),
        ("REC.FLUSH", "+OK|"),
        ("REC.FLUSH users", "+OK|"),
        ("REC.FLUSH users:lili", "+OK|"),
        ("REC.FLUSH users:lili VERSION 3", "+OK|"),
        ("REC.FLUSH users:lili VERSION -3 TIMEOUT 500", "+OK|"),
        ("REC.FLUSH users:lili VERSION", "-ERR syntax error|"),
        ("REC.FLUSH users:lili VERSION x", "-ERR value is not an integer or out of range…"),
        ("REC.FLUSH users:lili VERSION 3 TIMEOUT -1", "-ERR value is not an integer or out of range…"),
        ("REC.EXPLAIN lili", "*20|$5|table|$2|kv|$13|partition_key|$4|lili|$8|position|$16|83498e2ae7640940|…"),
    ]);

    let beginnings = [
        "Row(Kick",
        "Row(Kick",
        "Shards(Flush { table: None",
        "Shards(Flush { table: Some(TableId(2))",
        "Row(Flush",
        "Row(AwaitSql",
        "Row(AwaitSql",
        "Row(Explain",
    ];
    assert_eq!(door.engine.calls.len(), beginnings.len());
    for (call, beginning) in door.engine.calls.iter().zip(beginnings) {
        assert!(call.starts_with(beginning), "{call}");
    }
}

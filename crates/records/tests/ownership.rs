//! What a shard owns is part of its state (records 66).

#[path = "support/snapshots.rs"]
mod snapshots;

use shardine_model::command::Action;
use shardine_model::key::Interval;
use shardine_model::table::KV;
use shardine_model::{
    Answer, Command, Entry, ErrorCode, FieldRef, FieldValue, Position, Request, RowKey, RowKeyBuf, Timestamp, ValueRef,
};
use shardine_records::{Records, Sink};

#[derive(Default)]
struct Answers(Vec<Answer>);

impl Sink for Answers {
    fn answer(&mut self, answer: Answer) {
        self.0.push(answer);
    }

    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}

    fn dirty(&mut self, _: RowKey<'_>) {}
}

fn set(records: &mut Records, key: &[u8]) -> Answer {
    let row = RowKey { table: KV, key, sort: b"" };
    let fields = [FieldValue { field: FieldRef::Name(b"value"), value: ValueRef::Blob(b"1") }];
    let mut requests = Vec::new();
    Request::one(Command::plain(row, Action::Set(fields.into_iter().collect()))).encode(&mut requests);
    let entry = Entry::Commands { proposed_at: Timestamp(1), requests: &requests }.to_bytes();
    let mut answers = Answers::default();
    records.apply(&entry, &mut answers).expect("a readable entry");
    answers.0.remove(0)
}

fn refusal(answer: &Answer) -> Option<ErrorCode> {
    match answer {
        Answer::One(reply) => reply.refusal(),
        other => panic!("{other:?}"),
    }
}

/// `lili` lies at 0x638a…, `42` at 0x1217… (`docs/encoding.md`).
fn upper_half_of_the_lower_half() -> Interval {
    Interval { lo: Position(0x4000_0000_0000_0000), hi: Some(Position(0x8000_0000_0000_0000)) }
}

#[test]
fn records_66_ownership_is_checked_when_applied() {
    let mut records = Records::new(1).owning(upper_half_of_the_lower_half());

    assert_eq!(refusal(&set(&mut records, b"lili")), None);
    assert_eq!(refusal(&set(&mut records, b"42")), Some(ErrorCode::StaleRoute));
    assert_eq!(records.live_count(None), 1);
}

#[test]
fn records_66_ownership_travels_with_the_snapshot() {
    let mut records = Records::new(1).owning(upper_half_of_the_lower_half());
    set(&mut records, b"lili");

    let mut restored = snapshots::restore(2, &snapshots::chunks(&mut records));

    assert_eq!(*restored.bounds(), upper_half_of_the_lower_half().into());
    assert_eq!(restored.state_hash(), records.state_hash());
    assert_eq!(refusal(&set(&mut restored, b"42")), Some(ErrorCode::StaleRoute));
}

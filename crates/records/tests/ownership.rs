//! What a shard owns is part of its state (records 66).

use shardine_model::command::{Action, Body, Origin};
use shardine_model::key::Interval;
use shardine_model::table::KV;
use shardine_model::{
    Answer, ClientId, Command, Entry, ErrorCode, FieldRef, FieldValue, Position, Request, RequestEpoch, RowKey,
    RowKeyBuf, Timestamp, ValueRef,
};
use shardine_records::{CutStep, Records, Sink};

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
    set_as(records, key, None)
}

fn set_as(records: &mut Records, key: &[u8], origin: Option<Origin>) -> Answer {
    let row = RowKey { table: KV, key, sort: b"" };
    let fields = [FieldValue { field: FieldRef::Name(b"value"), value: ValueRef::Blob(b"1") }];
    let mut requests = Vec::new();
    let body = Body::One(Command::plain(row, Action::Set(fields.into_iter().collect())));
    Request { origin, body }.encode(&mut requests);
    let entry =
        Entry::Commands { proposed_at: Timestamp(1), epoch: RequestEpoch::FIRST, requests: &requests }.to_bytes();
    let mut answers = Answers::default();
    records.apply(&entry, &mut answers).expect("a readable entry");
    answers.0.remove(0)
}

fn refusal(answer: &Answer) -> Option<ErrorCode> {
    match answer {
        Answer::One(reply) => reply.refusal(),
        Answer::Failed(code) => Some(*code),
        other => panic!("{other:?}"),
    }
}

/// `lili` lies at 0x8349…, `42` at 0x7d00… (`docs/encoding.md`).
fn lower_half_of_the_upper_half() -> Interval {
    Interval { lo: Position(0x8000_0000_0000_0000), hi: Some(Position(0xc000_0000_0000_0000)) }
}

#[test]
fn records_66_ownership_is_checked_when_applied() {
    let mut records = Records::new(1).owning(lower_half_of_the_upper_half());

    assert_eq!(refusal(&set(&mut records, b"lili")), None);
    assert_eq!(refusal(&set(&mut records, b"42")), Some(ErrorCode::StaleRoute));
    assert_eq!(records.live_count(None), 1);
}

#[test]
fn records_66_ownership_travels_with_the_snapshot() {
    let mut records = Records::new(1).owning(lower_half_of_the_upper_half());
    set(&mut records, b"lili");
    records.begin_cut();
    let mut restored = Records::new(2);
    while let CutStep::Chunk(chunk) = records.cut_step() {
        restored.restore_chunk(&chunk).unwrap();
    }

    assert_eq!(restored.interval(), lower_half_of_the_upper_half());
    assert_eq!(restored.state_hash(), records.state_hash());
    assert_eq!(refusal(&set(&mut restored, b"42")), Some(ErrorCode::StaleRoute));
}

/// Whoever is told that he came to the wrong shard asks again, perhaps here, and is then executed: the refusal is not kept
/// as the result of his request.
#[test]
fn records_68_a_refusal_for_a_stale_route_is_not_remembered() {
    let mut records = Records::new(1).owning(lower_half_of_the_upper_half());
    let origin = Some(Origin::new(ClientId(7), 1));
    assert_eq!(refusal(&set_as(&mut records, b"42", origin)), Some(ErrorCode::StaleRoute));

    let mut records = records.owning(Interval::ALL);

    assert_eq!(refusal(&set_as(&mut records, b"42", origin)), None);
    assert_eq!(records.live_count(None), 1);
}

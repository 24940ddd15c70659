//! What a batch may give: no more than a reply may hold, whatever its items ask for.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_model::command::{Action, Batch, BatchItem, BatchMode, Body, Give};
use shardine_model::entry::open_commands;
use shardine_model::limits::{REPLY_BYTES_MAX, VALUE_BYTES_MAX};
use shardine_model::table::KV;
use shardine_model::{
    Answer, Command, ErrorCode, FieldRef, FieldValue, Reply, Request, RowKey, RowKeyBuf, Timestamp, ValueRef,
};
use shardine_records::{Lookup, Records, Sink};

const BIG: RowKey<'_> = RowKey { table: KV, key: b"{t}big", sort: b"" };
const SMALL: RowKey<'_> = RowKey { table: KV, key: b"{t}small", sort: b"" };

/// Keeps the last answer.
#[derive(Default)]
struct Last(Option<Answer>);

impl Sink for Last {
    fn answer(&mut self, answer: Answer) {
        self.0 = Some(answer);
    }
    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}
    fn dirty(&mut self, _: RowKey<'_>) {}
}

fn apply(records: &mut Records, body: Body<'_>) -> Answer {
    let (mut entry, mut last) = (Vec::new(), Last::default());
    open_commands(&mut entry, Timestamp(300), records.epoch());
    Request { origin: None, body }.encode(&mut entry);
    records.apply(&entry, &mut last).unwrap();
    last.0.unwrap()
}

fn set<'a>(row: RowKey<'a>, value: &'a [u8]) -> Command<'a> {
    let field = FieldValue { field: FieldRef::Name(b"value"), value: ValueRef::Blob(value) };
    Command::plain(row, Action::Set([field].into_iter().collect()))
}

/// A transaction of forty reads of one large value once held forty copies of it. What comes behind the limit is refused and not
/// done, so that nothing is lost which a reply can no longer tell; what gives nothing goes on.
#[test]
fn a_batch_gives_no_more_than_a_reply_may_hold() {
    let mut records = Records::new(1);
    let value = vec![b'x'; VALUE_BYTES_MAX - 100];
    apply(&mut records, Body::One(set(BIG, &value)));
    let take = BatchItem::Change(Command { give: Give::Old, ..Command::plain(BIG, Action::Delete) });
    let reads = std::iter::repeat_n(BatchItem::Read(BIG), 8);
    let commands: Vec<BatchItem<'_>> = reads.chain([take, BatchItem::Change(set(SMALL, b"1"))]).collect();

    let batch = Batch { mode: BatchMode::EachItsOwn, conditions: Vec::new(), commands };
    let Answer::Many(replies) = apply(&mut records, Body::Batch(batch)) else { panic!("a batch has many replies") };

    let given = |reply: &Reply| reply.row().map_or(0, |row| row.packed.len());
    let refused: Vec<Option<ErrorCode>> = replies.iter().map(Reply::refusal).collect();
    let fits = 1 + REPLY_BYTES_MAX / value.len();
    assert_eq!(refused[..fits], vec![None; fits]);
    assert_eq!(refused[fits..9], vec![Some(ErrorCode::TooLarge); 9 - fits]);
    assert_eq!(refused[9], None);
    assert!(replies.iter().map(given).sum::<usize>() <= REPLY_BYTES_MAX + VALUE_BYTES_MAX);
    assert!(matches!(records.get(BIG.position(), BIG), Lookup::Live(_)), "nobody was told what it held");
    assert!(matches!(records.get(SMALL.position(), SMALL), Lookup::Live(_)));
}

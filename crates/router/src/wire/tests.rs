//! Every kind of call and response comes back as it was sent, and has these bytes.

use shardine_model::reply::Outcome;
use shardine_model::{Answer, ErrorCode, FieldType, Refusal, Reply, RowImage, RowKeyBuf, Value, Version};

use super::*;
use crate::coord::{CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordView, SemaphoreRange};
use crate::response::{Response, ScanPage, ScannedRow};

fn row() -> RowKeyBuf {
    RowKeyBuf { table: TableId(3), key: (*b"k").into(), sort: (*b"").into() }
}

fn reply() -> Reply {
    let outcome = Outcome::Done { changed: 1, row: None };
    Reply { version: Version(1), sql_version: Version(0), expires_at: None, outcome }
}

fn semaphores(which: SemaphoreRange) -> CoordLook {
    CoordLook::Semaphores { node: "/n".into(), which, limit: 1 }
}

fn views() -> Vec<CoordView> {
    let node = CoordNode { path: "/n".into(), self_check_ms: 5, strict_reads: true, sessions: 2, ..Default::default() };
    let session = CoordSession { id: 3, timeout_ms: 9, attached: true, ..Default::default() };
    let claim = CoordClaim { order_id: 1, session_id: 3, count: 2, data: vec![8] };
    let semaphore = CoordSemaphore {
        name: "s".into(),
        limit: 4,
        count: 2,
        owners: vec![claim],
        owners_total: 1,
        ..Default::default()
    };
    vec![CoordView::Nodes(vec![node]), CoordView::Sessions(vec![session]), CoordView::Semaphores(vec![semaphore])]
}

fn program() -> Program {
    let words = || vec![(*b"a").into()];
    let (keys, args, reads_only) = (words(), words(), true);
    let (text, library, name) = ((*b"t").into(), (*b"l").into(), (*b"n").into());
    Program {
        home: row(),
        wanders: false,
        resp3: true,
        is_transaction: true,
        reads_only,
        watched: vec![(row(), Version(3))],
        steps: vec![
            Step::Command { words: words() },
            Step::Script { text, keys: keys.clone(), args: args.clone(), reads_only },
            Step::Said { reply: (*b"r").into() },
            Step::Function { library, name, keys, args, reads_only },
        ],
    }
}

fn calls() -> Vec<RemoteCall> {
    let scan = ScanCall { limit: 10, cursor: Some(vec![1]), ..ScanCall::default() };
    let field = FieldSpec { name: "age".into(), kind: FieldType::Int64, nullable: true, default: Some(Value::Int(7)) };
    let spec = TableSpec {
        name: "users".into(),
        fields: vec![field.clone()],
        sort: vec![("at".into(), FieldType::Int64)],
        backing: shardine_model::Backing::Sql,
        sql: shardine_model::SqlOptions::default(),
    };
    vec![
        RemoteCall::Row(RowCall::Read { row: row() }),
        RemoteCall::Row(RowCall::ReadStale { row: row(), max_age_ms: 300 }),
        RemoteCall::Row(RowCall::Submit {
            request: (*b"r").into(),
            catalogue: Default::default(),
            ack: Ack::default(),
        }),
        RemoteCall::Row(RowCall::Kick { row: row(), nowait: true }),
        RemoteCall::Row(RowCall::AwaitSql { row: row(), version: Version(-2), within_ms: Some(1) }),
        RemoteCall::Row(RowCall::Scan(scan)),
        RemoteCall::Shard { shard: ShardId(2), ask: ShardAsk::Count { table: None } },
        RemoteCall::Shard { shard: ShardId(2), ask: ShardAsk::Propose { entry: vec![9] } },
        RemoteCall::Shard { shard: ShardId(2), ask: ShardAsk::AsOf { range: 300, ask: Box::new(ShardAsk::Middle) } },
        RemoteCall::Table(TableCall::Create(spec)),
        RemoteCall::Table(TableCall::AddField { table: "users".into(), field }),
        RemoteCall::Table(TableCall::Drop { table: "users".into() }),
        RemoteCall::Row(RowCall::Run(Box::new(program()))),
        RemoteCall::Writeback,
        RemoteCall::DeadLetters { table: Some(TableId(3)) },
        RemoteCall::Status,
        RemoteCall::Transfer { shard: ShardId(2), to: Some(NodeId(3)) },
        RemoteCall::Coord { look: CoordLook::Nodes },
        RemoteCall::Coord { look: CoordLook::Sessions { node: "/n".into(), after: 7, limit: 100 } },
        RemoteCall::Coord { look: semaphores(SemaphoreRange::All) },
        RemoteCall::Coord { look: semaphores(SemaphoreRange::Named("s".into())) },
    ]
}

fn responses() -> Vec<Response> {
    let scanned = ScannedRow {
        row: row(),
        version: Version(5),
        sql_version: Version(4),
        expires_at: None,
        fields: RowImage { packed: (*b"f").into() },
        in_memory: true,
    };
    vec![
        Response::Answer(Answer::One(reply())),
        Response::Answer(Answer::Failed(ErrorCode::Busy)),
        Response::Stale { reply: reply(), applied: 12 },
        Response::Page(ScanPage { rows: vec![scanned], next: Some(vec![1, 2]) }),
        Response::Count(300),
        Response::Place { group: ShardId(7), placed: 300 },
        Response::Done,
        Response::DeadLetters(Vec::new()),
        Response::Refused(Refusal::new(ErrorCode::NotFound, "no")),
    ]
}

#[test]
fn calls_come_back_as_they_were_sent() {
    for call in calls() {
        let bytes = call.to_bytes();

        assert_eq!(format!("{:?}", RemoteCall::from_bytes(&bytes).unwrap()), format!("{call:?}"));
        for len in 0..bytes.len() {
            assert!(RemoteCall::from_bytes(&bytes[..len]).is_err(), "{call:?} cut to {len} bytes");
        }
    }
}

#[test]
fn responses_come_back_as_they_were_sent() {
    for response in responses().into_iter().chain(views().into_iter().map(Response::Coord)) {
        let bytes = response.to_bytes().unwrap();

        assert_eq!(format!("{:?}", Response::from_bytes(&bytes).unwrap()), format!("{response:?}"));
    }
}

#[test]
fn a_call_has_these_bytes_for_ever() {
    let all: Vec<u8> = calls().iter().take(8).flat_map(RemoteCall::to_bytes).collect();

    let hex: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = concat!(
        "010103016b00",
        "010203016b00ac02",
        "01030172000188270",
        "10403016b0001",
        "010603016b00030101",
        "010a00000101000a01010100",
        "02020100",
        "0202040109",
    );
    assert_eq!(hex, golden);
}

#[test]
fn a_program_has_these_bytes_for_ever() {
    let hex: String = RemoteCall::Row(RowCall::Run(Box::new(program())))
        .to_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();

    let golden = concat!(
        "010c03016b00",
        "0001010101",
        "03016b0006",
        "04",
        "01010161",
        "020174010161010161",
        "01",
        "030172",
        "04016c016e01016101016101",
    );
    assert_eq!(hex, golden);
}

#[test]
fn a_place_has_these_bytes_for_ever() {
    let place = Response::Place { group: ShardId(7), placed: 300 };

    assert_eq!(place.to_bytes().unwrap(), [14, 7, 0xac, 2]);
}

#[test]
fn looks_at_coordination_have_these_bytes_for_ever() {
    let calls = calls().into_iter().filter(|call| matches!(call, RemoteCall::Coord { .. })).map(|call| call.to_bytes());
    let views = views().into_iter().map(|view| Response::Coord(view).to_bytes().unwrap());

    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();

    assert_eq!(calls.map(hex).collect::<Vec<_>>(), ["0901", "0902022f6e0764", "0903022f6e0101", "0903022f6e03017301"]);
    assert_eq!(
        views.map(hex).collect::<Vec<_>>(),
        ["0d0101022f6e050001000200", "0d02010309000100", "0d0301017300040200010103020108010000"]
    );
}

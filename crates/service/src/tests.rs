//! The record service against a engine in memory.

use std::sync::Arc;
use std::time::Duration;

use shardine_model::command::{Give, Origin};
use shardine_model::{AckAfter, Backing, ClientId, ErrorCode, FieldType, Value, Version};
use shardine_router::{FieldSpec, TableSpec};
use tokio::time::Instant;

use crate::{
    BatchOrder, Deed, Delivery, Edge, Failure, Get, Item, Order, RecordService, RowAddress, Scan, Step, StepOperator,
    Terms,
};
use shardine_fake::{FakeEngine, Mood};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

async fn record_service() -> (Arc<FakeEngine>, RecordService) {
    let engine = FakeEngine::new();
    let record_service = RecordService::new(engine.clone());
    let field = |name: &str, kind, default| FieldSpec { name: name.to_owned(), kind, nullable: false, default };
    let users = TableSpec {
        name: "users".into(),
        fields: vec![
            field("name", FieldType::String, None),
            field("age", FieldType::Int64, Some(Value::Int(18))),
            field("coins", FieldType::Uint64, None),
        ],
        sort: vec![],
        backing: Backing::Sql,
        sql: Default::default(),
    };
    let events = TableSpec {
        name: "events".into(),
        fields: vec![field("text", FieldType::String, None)],
        sort: vec![("at".into(), FieldType::Int64), ("who".into(), FieldType::String)],
        backing: Backing::None,
        sql: Default::default(),
    };
    record_service.create_table(users, soon()).await.unwrap();
    record_service.create_table(events, soon()).await.unwrap();
    (engine, record_service)
}

fn row(table: &str, key: &str) -> RowAddress {
    RowAddress { table: table.into(), key: key.into(), sort: vec![] }
}

fn order(key: &str, deed: Deed) -> Order {
    Order { row: row("users", key), terms: Terms::default(), deed }
}

fn named(name: &str, value: Value) -> Vec<(Vec<u8>, Value)> {
    vec![(name.as_bytes().to_vec(), value)]
}

async fn code(record_service: &RecordService, order: Order) -> ErrorCode {
    record_service.change(order, Delivery::default(), soon()).await.unwrap_err().code
}

#[tokio::test]
async fn a_record_shows_defaults_for_what_was_never_set() {
    let (_, record_service) = record_service().await;
    let set = order("lili", Deed::Set(named("name", Value::Str("Lili".into()))));
    record_service.change(set, Delivery::default(), soon()).await.unwrap();

    let got = record_service.get(Get { row: row("users", "lili"), ..Get::default() }, soon()).await.unwrap();

    // records 9, 13.
    assert_eq!(got.record.version, Version(1));
    assert_eq!(got.record.value(b"age"), Some(&Value::Int(18)));
    assert_eq!(got.record.fields.len(), 3);
}

/// One reply has a limit, however many reads or names it was asked for. In its place each small record is answered all the same.
#[tokio::test]
async fn many_reads_of_large_records_end_at_the_limit_of_a_reply() {
    let (_, record_service) = record_service().await;
    let large = order("large", Deed::Set(named("name", Value::Str("x".repeat(30 << 20)))));
    record_service.change(large, Delivery::default(), soon()).await.unwrap();
    record_service
        .change(order("small", Deed::Set(named("age", Value::Int(1)))), Delivery::default(), soon())
        .await
        .unwrap();
    let get = |key: &str, fields: &[&[u8]]| {
        let fields = fields.iter().map(|name| name.to_vec()).collect();
        Get { row: row("users", key), fields, ..Get::default() }
    };
    let later = Instant::now() + Duration::from_secs(60);

    let small = record_service.mget(vec![get("small", &[]); 1_000], later).await.unwrap();
    let mixed = [vec![get("small", &[]); 3], vec![get("large", &[]); 100]].concat();
    let mixed = record_service.mget(mixed, later).await.unwrap();
    let often = record_service.get(get("large", &[b"name".as_slice(); 1_000]), later).await.unwrap();

    assert!(small.iter().all(Result::is_ok));
    assert!(mixed[..7].iter().all(Result::is_ok), "four of them fit");
    assert!(mixed[7..].iter().all(|one| one.as_ref().is_err_and(|failure| failure.code == ErrorCode::TooLarge)));
    assert_eq!(often.record.fields.len(), 1, "named often, shown once");
}

#[tokio::test]
async fn a_known_version_saves_the_fields() {
    let (_, record_service) = record_service().await;
    let set = order("lili", Deed::Set(named("age", Value::Int(1))));
    record_service.change(set, Delivery::default(), soon()).await.unwrap();
    let get = |version| Get { row: row("users", "lili"), known_version: Some(Version(version)), ..Get::default() };

    // records 11.
    assert!(record_service.get(get(1), soon()).await.unwrap().unchanged);
    assert!(!record_service.get(get(7), soon()).await.unwrap().unchanged);
}

#[tokio::test]
async fn what_does_not_fit_never_reaches_the_engine() {
    let (engine, record_service) = record_service().await;

    // records 12, 16.
    assert_eq!(code(&record_service, order("lili", Deed::Set(vec![]))).await, ErrorCode::BadRequest);
    assert_eq!(
        code(&record_service, order("lili", Deed::Set(named("shoe", Value::Int(1))))).await,
        ErrorCode::UnknownField
    );
    assert_eq!(
        code(&record_service, order("lili", Deed::Set(named("age", Value::Uint(1))))).await,
        ErrorCode::WrongType
    );
    assert_eq!(code(&record_service, order(&"k".repeat(2_000), Deed::Delete)).await, ErrorCode::TooLarge);
    let lost = Order { row: row("nobody", "x"), terms: Terms::default(), deed: Deed::Delete };
    assert_eq!(code(&record_service, lost).await, ErrorCode::UnknownTable);
    let bent = Order { row: row("events", "x"), terms: Terms::default(), deed: Deed::Delete };
    assert_eq!(code(&record_service, bent).await, ErrorCode::BadRequest);
    assert_eq!(engine.executed(), 0);
}

#[tokio::test]
async fn incr_goes_down_in_unsigned_fields_too() {
    let (_, record_service) = record_service().await;
    let incr = |by| order("lili", Deed::Incr { field: b"coins".to_vec(), by: Value::Int(by) });

    record_service.change(incr(5), Delivery::default(), soon()).await.unwrap();
    let changed = record_service.change(incr(-2), Delivery::default(), soon()).await.unwrap();

    assert_eq!(changed.record.unwrap().value(b"coins"), Some(&Value::Uint(3)));
    // records 22.
    assert_eq!(code(&record_service, incr(-4)).await, ErrorCode::Overflow);
}

#[tokio::test]
async fn an_insert_shows_what_stood_in_the_way() {
    let (_, record_service) = record_service().await;
    let insert = |age| order("lili", Deed::Insert(named("age", Value::Int(age))));
    record_service.change(insert(7), Delivery::default(), soon()).await.unwrap();

    let failure = record_service.change(insert(8), Delivery::default(), soon()).await.unwrap_err();

    // records 17.
    assert_eq!(failure.code, ErrorCode::Exists);
    assert_eq!(failure.version, Some(Version(1)));
    assert_eq!(failure.record.unwrap().value(b"age"), Some(&Value::Int(7)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_never_claims_more_than_it_knows() {
    let (engine, record_service) = record_service().await;
    let set = || order("lili", Deed::Set(named("age", Value::Int(1))));
    let get = || Get { row: row("users", "lili"), ..Get::default() };

    // records 34.
    let passed = record_service.change(set(), Delivery::default(), Instant::now()).await.unwrap_err();
    assert_eq!(passed.code, ErrorCode::Expired);
    assert_eq!(engine.executed(), 0);

    engine.set_mood(Mood::Silent);
    let silent = record_service.change(set(), Delivery::default(), soon()).await.unwrap_err();
    assert_eq!(silent.code, ErrorCode::InDoubt);
    assert_eq!(record_service.get(get(), soon()).await.unwrap_err().code, ErrorCode::Expired);
}

#[tokio::test]
async fn waiting_for_sql_raises_the_sql_version() {
    let (_, record_service) = record_service().await;
    let set = || order("lili", Deed::Set(named("age", Value::Int(1))));

    let behind = record_service.change(set(), Delivery::default(), soon()).await.unwrap();
    let through = record_service.change(set(), Delivery { origin: None, ack: AckAfter::Sql }, soon()).await.unwrap();

    // records 32.
    assert_eq!((behind.version, behind.sql_version), (Version(1), Version(0)));
    assert_eq!((through.version, through.sql_version), (Version(2), Version(2)));
}

#[tokio::test]
async fn trouble_with_sql_is_no_failure_of_the_change() {
    let (engine, record_service) = record_service().await;
    engine.stop_sql();
    let set = order("lili", Deed::Set(named("age", Value::Int(1))));

    let changed = record_service.change(set, Delivery { origin: None, ack: AckAfter::Sql }, soon()).await.unwrap();
    let flushed = record_service.flush_row(&row("users", "lili"), None, soon()).await.unwrap_err();

    // records 32: the change is made, SQL is pending; only a flush itself fails.
    assert_eq!((changed.version, changed.sql_version), (Version(1), Version(0)));
    assert_eq!(flushed.code, ErrorCode::BackendUnavailable);
}

#[tokio::test]
async fn the_version_of_a_reply_is_a_token_to_wait_for_sql_with() {
    let (engine, record_service) = record_service().await;
    let set = order("lili", Deed::Set(named("age", Value::Int(1))));
    let changed = record_service.change(set, Delivery::default(), soon()).await.unwrap();
    let lili = row("users", "lili");

    // records 32.
    record_service.flush_row(&lili, Some(changed.version), soon()).await.unwrap();
    let unheard = record_service.flush_row(&lili, Some(Version(9)), soon()).await.unwrap_err();
    engine.stop_sql();
    let late = record_service.flush_row(&lili, Some(changed.version), soon()).await.unwrap_err();

    assert_eq!((unheard.code, late.code), (ErrorCode::VersionMismatch, ErrorCode::Expired));
}

#[tokio::test]
async fn a_numbered_request_is_executed_once() {
    let (engine, record_service) = record_service().await;
    let incr = || order("lili", Deed::Incr { field: b"age".to_vec(), by: Value::Int(1) });
    let delivery = Delivery { origin: Some(Origin::new(ClientId(9), 1)), ack: AckAfter::Raft };

    let first = record_service.change(incr(), delivery, soon()).await.unwrap();
    let again = record_service.change(incr(), delivery, soon()).await.unwrap();

    // records 35.
    assert_eq!(first.version, again.version);
    assert_eq!(engine.executed(), 1);
}

#[tokio::test]
async fn a_batch_is_all_or_none_and_names_the_culprit() {
    let (_, record_service) = record_service().await;
    let good = Item::Change(order("lili", Deed::Set(named("age", Value::Int(1)))));
    let bad = Item::Change(order("lili", Deed::Insert(named("age", Value::Int(2)))));
    let batch = BatchOrder { items: vec![good.clone(), bad, good.clone()], ..BatchOrder::default() };

    let failure = record_service.batch(batch, soon()).await.unwrap_err();
    let gone = record_service.get(Get { row: row("users", "lili"), ..Get::default() }, soon()).await.unwrap_err();

    assert_eq!((failure.code, failure.item), (ErrorCode::Exists, Some(1)));
    assert_eq!(gone.code, ErrorCode::NotFound);

    let apart = Item::Change(order("bob", Deed::Delete));
    let failure = record_service.batch(BatchOrder { items: vec![good, apart], ..BatchOrder::default() }, soon()).await;
    assert_eq!(failure.map(drop).map_err(|failure: Failure| failure.code), Err(ErrorCode::BadRequest));
}

#[tokio::test]
async fn a_batch_reads_what_it_wrote() {
    let (_, record_service) = record_service().await;
    let items = vec![
        Item::Read(Get { row: row("users", "lili"), ..Get::default() }),
        Item::Change(order("lili", Deed::Set(named("age", Value::Int(1))))),
        Item::Read(Get { row: row("users", "lili"), fields: vec![b"age".to_vec()], ..Get::default() }),
    ];

    let results = record_service.batch(BatchOrder { items, ..BatchOrder::default() }, soon()).await.unwrap();

    assert_eq!(results[0].version, Version(0));
    assert_eq!(results[2].record.as_ref().unwrap().fields, named("age", Value::Int(1)));
}

#[tokio::test]
async fn a_partition_is_scanned_by_sort_range() {
    let (_, record_service) = record_service().await;
    for at in 1..=5 {
        let sort = vec![Value::Int(at), Value::Str("a".into())];
        let address = RowAddress { sort, ..row("events", "lili") };
        let deed = Deed::Set(named("text", Value::Str(at.to_string())));
        let order = Order { row: address, terms: Terms::default(), deed };
        record_service.change(order, Delivery::default(), soon()).await.unwrap();
    }
    let scan = |cursor| Scan {
        table: "events".into(),
        partition: Some(b"lili".to_vec()),
        from: Some(Edge { parts: vec![Value::Int(2)], exclusive: false }),
        limit: 3,
        cursor,
        ..Scan::default()
    };

    let first = record_service.scan(scan(None), soon()).await.unwrap();
    let second = record_service.scan(scan(first.next.clone()), soon()).await.unwrap();

    let places = |page: &crate::Page| page.records.iter().map(|record| record.row.sort[0].clone()).collect::<Vec<_>>();
    assert_eq!(places(&first), [Value::Int(2), Value::Int(3), Value::Int(4)]);
    assert_eq!(places(&second), [Value::Int(5)]);
    assert_eq!(second.next, None);

    let plain = Scan { table: "users".into(), partition: Some(b"lili".to_vec()), ..Scan::default() };
    assert_eq!(record_service.scan(plain, soon()).await.unwrap_err().code, ErrorCode::BadRequest);
}

#[tokio::test]
async fn steps_must_suit_their_fields() {
    let (_, record_service) = record_service().await;
    let step = |field: &str, operator| {
        let steps = vec![Step { field: field.into(), operator }];
        Order {
            terms: Terms { give: Give::New, ..Terms::default() },
            ..order("lili", Deed::Update { create: true, steps })
        }
    };

    let changed =
        record_service.change(step("name", StepOperator::Append(b"Li".to_vec())), Delivery::default(), soon()).await;
    assert_eq!(changed.unwrap().record.unwrap().value(b"name"), Some(&Value::Str("Li".into())));
    for (field, operator) in [
        ("name", StepOperator::Add(Value::Int(1))),
        ("age", StepOperator::Append(b"x".to_vec())),
        ("age", StepOperator::And(Value::Uint(1))),
        ("name", StepOperator::Append(vec![0xff])),
    ] {
        assert_eq!(code(&record_service, step(field, operator)).await, ErrorCode::WrongType, "{field}");
    }
}

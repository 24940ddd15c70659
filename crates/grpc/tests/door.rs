//! The gRPC door over a real socket, with a engine in memory behind it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use shardine_fake::{FakeEngine, Mood};
use shardine_grpc::Options;
use shardine_model::ErrorCode;
use shardine_proto::v1::cluster_client::ClusterClient;
use shardine_proto::v1::records_client::RecordsClient;
use shardine_proto::v1::tables_client::TablesClient;
use shardine_proto::v1::value::Kind;
use shardine_proto::{CODE_METADATA, MESSAGE_BYTES_MAX, v1};
use shardine_service::GateOptions;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

struct Door {
    address: SocketAddr,
    engine: Arc<FakeEngine>,
    channel: Channel,
    records: RecordsClient<Channel>,
    tables: TablesClient<Channel>,
}

async fn open(gate: GateOptions) -> Door {
    let engine = FakeEngine::new();
    let router = shardine_grpc::service(engine.clone(), Options { gate, formation: None });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(shardine_accept::serve(listener, router, shardine_accept::Limits::grpc(), std::future::pending()));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let records = RecordsClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Door { address, engine, records, tables: TablesClient::new(channel.clone()), channel }
}

async fn with_users() -> Door {
    let mut door = open(GateOptions::default()).await;
    let field = |name: &str, kind: v1::FieldType| v1::FieldDefinition {
        name: name.into(),
        r#type: kind.into(),
        ..Default::default()
    };
    let create = v1::CreateTableRequest {
        name: "users".into(),
        fields: vec![
            field("name", v1::FieldType::String),
            field("age", v1::FieldType::Int64),
            field("photo", v1::FieldType::Blob),
        ],
        sort: vec![],
        backing: v1::Backing::Sql.into(),
        sql: None,
    };
    door.tables.create(create).await.unwrap();
    door
}

fn row(key: &str) -> Option<v1::Row> {
    Some(v1::Row { table: "users".into(), key: key.into(), sort: vec![] })
}

fn value(kind: Kind) -> Option<v1::Value> {
    Some(v1::Value { kind: Some(kind) })
}

fn age(number: i64) -> Vec<v1::Field> {
    vec![v1::Field { name: "age".into(), value: value(Kind::Int64(number)), raw_name: vec![] }]
}

fn set(key: &str, number: i64) -> v1::SetRequest {
    v1::SetRequest { row: row(key), fields: age(number), ..Default::default() }
}

fn code(status: &Status) -> (&str, Code) {
    (status.metadata().get(CODE_METADATA).unwrap().to_str().unwrap(), status.code())
}

/// What does not fit into a message is refused by its code, and a change that was made is not called a failure.
#[tokio::test]
async fn a_reply_that_is_too_long_says_so_by_its_code() {
    let Door { mut records, .. } = with_users().await;
    let photo = |key: &str| {
        let fields =
            vec![v1::Field { name: "photo".into(), value: value(Kind::Blob(vec![7; 21 << 20])), raw_name: vec![] }];
        v1::SetRequest { row: row(key), fields, ..Default::default() }
    };
    records.set(photo("a")).await.unwrap();
    let get = || v1::GetRequest { row: row("a"), ..Default::default() };
    let item = |item| v1::BatchItem { item: Some(item) };
    let read = || item(v1::batch_item::Item::Get(get()));

    records.get(get()).await.unwrap();
    let both = records.m_get(v1::MGetRequest { gets: vec![get(), get()] }).await.unwrap_err();
    let batch = v1::BatchRequest { items: vec![read(), read()], ..Default::default() };
    let batch = records.batch(batch).await.unwrap_err();
    let set = item(v1::batch_item::Item::Set(v1::SetRequest { row: row("a"), fields: age(7), ..Default::default() }));
    let changing = v1::BatchRequest { items: vec![set, read(), read()], ..Default::default() };
    let changed = records.batch(changing).await.unwrap_err();

    assert_eq!(code(&both), ("too_large", Code::ResourceExhausted));
    assert_eq!(code(&batch), ("too_large", Code::ResourceExhausted));
    assert_eq!(code(&changed), ("in_doubt", Code::Unknown));
    assert!(changed.message().starts_with("the change was made, but the reply has "), "{}", changed.message());
    let now = records.get(v1::GetRequest { fields: vec!["age".into()], ..get() }).await.unwrap().into_inner();
    assert_eq!(now.record.unwrap().version, 2);
}

/// records 35
#[tokio::test]
async fn a_numbered_change_is_made_once() {
    let Door { mut records, .. } = with_users().await;
    let mut send = async |sequence, lowest_unanswered, again| {
        let delivery =
            Some(v1::Delivery { client_id: Some(7), sequence, lowest_unanswered, again, ..Default::default() });
        let incr = v1::IncrRequest { row: row("lili"), field: "age".into(), delivery, ..Default::default() };
        let code = |status: Status| code(&status).0.to_owned();
        records.incr(incr).await.map(|reply| reply.into_inner().version).map_err(code)
    };

    assert_eq!(send(1, Some(1), false).await, Ok(1));
    assert_eq!(send(1, Some(1), true).await, Ok(1));
    assert_eq!(send(2, None, false).await, Ok(2));
    assert_eq!(send(0, None, false).await, Err("bad_request".to_owned()));
    assert_eq!(send(2, Some(3), false).await, Err("bad_request".to_owned()));
    assert_eq!(send(129, Some(1), false).await, Err("busy".to_owned()));
}

#[tokio::test]
async fn a_record_goes_through_its_life() {
    let Door { mut records, .. } = with_users().await;
    let get = || v1::GetRequest { row: row("lili"), ..Default::default() };

    assert_eq!(records.set(set("lili", 10)).await.unwrap().into_inner().version, 1);
    let incr = v1::IncrRequest { row: row("lili"), field: "age".into(), ..Default::default() };
    assert_eq!(records.incr(incr).await.unwrap().into_inner().value, value(Kind::Int64(11)));
    let cas = v1::CasRequest {
        row: row("lili"),
        field: "age".into(),
        old: value(Kind::Int64(11)),
        new: value(Kind::Int64(20)),
        ..Default::default()
    };
    assert_eq!(records.cas(cas.clone()).await.unwrap().into_inner().version, 3);
    assert_eq!(code(&records.cas(cas).await.unwrap_err()), ("cas_mismatch", Code::Aborted));
    let record = records.get(get()).await.unwrap().into_inner().record.unwrap();
    assert_eq!((record.version, record.fields.len()), (3, 3));
    let delete = v1::DeleteRequest { row: row("lili"), return_record: true, ..Default::default() };
    let deleted = records.delete(delete.clone()).await.unwrap().into_inner();
    assert_eq!((deleted.version, deleted.existed, deleted.record.is_some()), (-4, true, true));
    let deleted = records.delete(delete).await.unwrap().into_inner();
    assert_eq!((deleted.version, deleted.existed), (-4, false));
    assert_eq!(code(&records.get(get()).await.unwrap_err()), ("not_found", Code::NotFound));
}

/// NULL is a kind of its own beside the types, and a field that may not hold it says so.
#[tokio::test]
async fn null_is_a_value_of_its_own() {
    let Door { mut records, mut tables, .. } = open(GateOptions::default()).await;
    let field = |name: &str, nullable| v1::FieldDefinition {
        name: name.into(),
        r#type: v1::FieldType::Int64.into(),
        nullable,
        ..Default::default()
    };
    let fields = vec![field("age", true), field("coins", false)];
    tables.create(v1::CreateTableRequest { name: "users".into(), fields, ..Default::default() }).await.unwrap();
    let set = |field: &str, kind: Kind| {
        let fields = vec![v1::Field { name: field.into(), value: value(kind), raw_name: vec![] }];
        v1::SetRequest { row: row("zoe"), fields, ..Default::default() }
    };
    let null = || Kind::Null(v1::Null {});

    records.set(set("coins", Kind::Int64(3))).await.unwrap();
    let get = v1::GetRequest { row: row("zoe"), fields: vec!["age".into()], ..Default::default() };
    let made = records.get(get.clone()).await.unwrap().into_inner().record.unwrap();
    records.set(set("age", Kind::Int64(0))).await.unwrap();
    let zero = records.get(get.clone()).await.unwrap().into_inner().record.unwrap();
    records.set(set("age", null())).await.unwrap();
    let again = records.get(get).await.unwrap().into_inner().record.unwrap();
    let refused = records.set(set("coins", null())).await.unwrap_err();

    let told = |record: &v1::Record| record.fields[0].value.clone().unwrap().kind.unwrap();
    assert_eq!([told(&made), told(&zero), told(&again)], [null(), Kind::Int64(0), null()]);
    assert_eq!(code(&refused).0, "wrong_type");
}

#[tokio::test]
async fn updates_apply_every_operation() {
    let Door { mut records, .. } = with_users().await;
    let step = |field: &str, operator| v1::Operation { field: field.into(), operator: Some(operator) };
    use v1::operation::Operator;
    let update = v1::UpdateRequest {
        row: row("lili"),
        create: true,
        operations: vec![
            step("age", Operator::Assign(value(Kind::Int64(12)).unwrap())),
            step("age", Operator::Or(value(Kind::Int64(3)).unwrap())),
            step("name", Operator::Append(b"Lyly".to_vec())),
            step("name", Operator::Splice(v1::Splice { at: 1, cut: 1, paste: b"i".to_vec() })),
        ],
        terms: Some(v1::Terms { r#return: v1::Return::New.into(), ..Default::default() }),
        ..Default::default()
    };

    let record = records.update(update).await.unwrap().into_inner().record.unwrap();

    let values: Vec<_> = record.fields.into_iter().map(|field| field.value).collect();
    let wanted = [Kind::String("Lily".into()), Kind::Int64(15), Kind::Blob(vec![])];
    assert_eq!(values, wanted.map(value));
}

#[tokio::test]
async fn a_batch_stands_or_falls_as_one() {
    let Door { mut records, .. } = with_users().await;
    let item = |item| v1::BatchItem { item: Some(item) };
    let insert = v1::InsertRequest { row: row("lili"), fields: age(1), ..Default::default() };
    let batch = |conditions: Vec<v1::Condition>| v1::BatchRequest {
        conditions,
        items: vec![
            item(v1::batch_item::Item::Insert(insert.clone())),
            item(v1::batch_item::Item::Get(v1::GetRequest { row: row("lili"), ..Default::default() })),
        ],
        delivery: None,
    };

    let replies = records.batch(batch(vec![])).await.unwrap().into_inner().replies;
    assert_eq!(replies[1].record.as_ref().unwrap().version, 1);

    let error = records.batch(batch(vec![])).await.unwrap_err();
    assert_eq!(code(&error), ("exists", Code::AlreadyExists));
    let old = v1::Condition { row: row("lili"), version: 7 };
    let error = records.batch(batch(vec![old])).await.unwrap_err();
    assert_eq!(code(&error), ("version_mismatch", Code::Aborted));
}

#[tokio::test]
async fn several_reads_fail_apart() {
    let Door { mut records, .. } = with_users().await;
    records.set(set("lili", 1)).await.unwrap();
    let get = |key: &str| v1::GetRequest { row: row(key), ..Default::default() };

    let reply = records.m_get(v1::MGetRequest { gets: vec![get("nobody"), get("lili")] }).await.unwrap();

    // records 33.
    let results: Vec<_> = reply.into_inner().results.into_iter().map(|one| one.result.unwrap()).collect();
    assert!(matches!(&results[0], v1::m_get_result::Result::Refusal(refusal) if refusal.code == "not_found"));
    assert!(matches!(&results[1], v1::m_get_result::Result::Reply(reply) if !reply.unchanged));
}

#[tokio::test]
async fn a_silent_hall_leaves_changes_in_doubt() {
    let Door { engine, address, .. } = with_users().await;
    engine.set_mood(Mood::Silent);
    // A client without a clock of its own: the usual one would give up at the same moment and hide the answer.
    let plain = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let mut records = RecordsClient::with_origin(plain, format!("http://{address}").parse().unwrap());
    let within = |timeout: &str| {
        let mut request = Request::new(set("lili", 1));
        request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
        request
    };

    // records 34.
    let error = records.set(within("100m")).await.unwrap_err();
    assert_eq!(code(&error), ("in_doubt", Code::Unknown));
    let error = records.set(within("0m")).await.unwrap_err();
    assert_eq!(code(&error), ("expired", Code::DeadlineExceeded));
    let error = records.set(within("soon")).await.unwrap_err();
    assert_eq!(code(&error), ("bad_request", Code::InvalidArgument));
}

#[tokio::test]
async fn a_value_of_the_largest_size_goes_both_ways() {
    let Door { mut records, .. } = with_users().await;
    let photo = vec![7u8; 32 << 20];
    let fields = vec![v1::Field { name: "photo".into(), value: value(Kind::Blob(photo.clone())), raw_name: vec![] }];
    let request = v1::SetRequest { row: row("lili"), fields, ..Default::default() };

    records.set(request).await.unwrap();
    let get = v1::GetRequest { row: row("lili"), fields: vec!["photo".into()], ..Default::default() };
    let record = records.get(get).await.unwrap().into_inner().record.unwrap();

    assert!(record.fields[0].value == value(Kind::Blob(photo)));
}

/// reliability S11: a header above its limit is refused, and whoever sent it may go on.
#[tokio::test]
async fn a_header_has_a_limit() {
    let Door { channel, .. } = open(GateOptions::default()).await;
    let mut cluster = ClusterClient::new(channel);
    let with_padding = |bytes: usize| {
        let mut request = Request::new(v1::StatusRequest {});
        request.metadata_mut().insert("x-padding", "p".repeat(bytes).parse().unwrap());
        request
    };

    assert!(cluster.status(with_padding(4 << 10)).await.is_ok());
    assert!(cluster.status(with_padding(64 << 10)).await.is_err());
    assert!(cluster.status(with_padding(0)).await.is_ok());
}

#[tokio::test]
async fn only_the_token_opens_and_probes_need_none() {
    let gate = GateOptions { token: Some("secret".into()), ..GateOptions::default() };
    let Door { channel, .. } = open(gate).await;
    let mut cluster = ClusterClient::new(channel.clone());

    let error = cluster.status(v1::StatusRequest {}).await.unwrap_err();
    assert_eq!(code(&error), ("unauthenticated", Code::Unauthenticated));
    let mut request = Request::new(v1::StatusRequest {});
    request.metadata_mut().insert("authorization", "Bearer secret".parse().unwrap());
    assert_eq!(cluster.status(request).await.unwrap().into_inner().node, 1);
    let health = HealthClient::new(channel).check(HealthCheckRequest { service: String::new() }).await;
    assert_eq!(health.unwrap().into_inner().status, 1);
}

#[tokio::test]
async fn a_full_house_sheds_load() {
    let gate = GateOptions { requests_max: 1, ..GateOptions::default() };
    let Door { engine, mut records, .. } = open(gate).await;
    engine.set_mood(Mood::Silent);
    let kv = v1::GetRequest {
        row: Some(v1::Row { table: "kv".into(), key: b"a".to_vec(), sort: vec![] }),
        ..Default::default()
    };
    let mut waiting = records.clone();
    let first = kv.clone();
    let holder = tokio::spawn(async move { waiting.get(first).await });
    tokio::time::sleep(Duration::from_millis(100)).await;

    let error = records.get(kv).await.unwrap_err();

    assert_eq!(code(&error), ("busy", Code::Unavailable));
    holder.abort();
}

#[tokio::test]
async fn tables_come_and_go() {
    let Door { mut tables, mut records, .. } = with_users().await;
    let kind = v1::FieldType::Float64.into();
    let field = v1::FieldDefinition {
        name: "height".into(),
        r#type: kind,
        default: value(Kind::Float64(1.5)),
        ..Default::default()
    };

    let table = tables.add_field(v1::AddFieldRequest { table: "users".into(), field: Some(field) }).await.unwrap();
    assert_eq!(table.into_inner().fields.len(), 4);
    let names = |reply: v1::ListTablesReply| reply.tables.into_iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(names(tables.list(v1::ListTablesRequest {}).await.unwrap().into_inner()), ["kv", "users"]);
    tables.drop(v1::DropTableRequest { name: "users".into() }).await.unwrap();
    let error = records.set(set("lili", 1)).await.unwrap_err();
    assert_eq!(code(&error), ("unknown_table", Code::InvalidArgument));
}

#[tokio::test]
async fn refusals_of_the_hall_keep_their_names() {
    let Door { engine, mut records, .. } = with_users().await;
    for (mood, wanted) in [
        (ErrorCode::DirtyLimit, ("dirty_limit", Code::ResourceExhausted)),
        (ErrorCode::NoLeader, ("no_leader", Code::Unavailable)),
        (ErrorCode::Suspended, ("suspended", Code::Unavailable)),
        (ErrorCode::SqlRefused, ("sql_refused", Code::FailedPrecondition)),
        (ErrorCode::BackendUnavailable, ("backend_unavailable", Code::Unavailable)),
    ] {
        engine.set_mood(Mood::Refusing(mood));
        let error = records.set(set("lili", 1)).await.unwrap_err();
        assert_eq!(code(&error), wanted);
    }
}

#[tokio::test]
async fn explain_tells_one_shard_from_many() {
    let Door { channel, .. } = with_users().await;
    let mut cluster = ClusterClient::new(channel);
    let ask = |what| v1::ExplainRequest { what: Some(what) };

    let one = cluster.explain(ask(v1::explain_request::What::Row(row("lili").unwrap()))).await.unwrap().into_inner();
    let shape = v1::ScanShape { table: "users".into(), partition: None };
    let all = cluster.explain(ask(v1::explain_request::What::Scan(shape))).await.unwrap().into_inner();

    assert_eq!(one.access(), v1::Access::SingleShard);
    assert_eq!(one.position, 0x8349_8e2a_e764_0940);
    assert_eq!(all.access(), v1::Access::ShardMerge);
}

/// records 67: an operator suspends a shard, sees it, and resumes it.
#[tokio::test]
async fn records_67_shards_are_suspended_and_resumed() {
    let Door { channel, .. } = with_users().await;
    let mut cluster = ClusterClient::new(channel);

    let error = cluster.suspend_shards(v1::SuspendShardsRequest { shard: Some(9) }).await.unwrap_err();
    assert_eq!(code(&error), ("not_found", Code::NotFound));
    cluster.suspend_shards(v1::SuspendShardsRequest { shard: Some(1) }).await.unwrap();
    assert!(cluster.shards(v1::ShardsRequest {}).await.unwrap().into_inner().shards[0].suspended);
    cluster.resume_shards(v1::ResumeShardsRequest { shard: None }).await.unwrap();
    assert!(!cluster.shards(v1::ShardsRequest {}).await.unwrap().into_inner().shards[0].suspended);
}

#[tokio::test]
async fn nodes_take_orders() {
    let Door { channel, .. } = open(GateOptions::default()).await;
    let mut cluster = ClusterClient::new(channel);
    let mode = |node: &str, mode: v1::NodeMode| v1::SetNodeModeRequest { node: node.into(), mode: mode.into() };

    cluster.set_node_mode(mode("n2", v1::NodeMode::Draining)).await.unwrap();
    let unsaid = cluster.set_node_mode(mode("n2", v1::NodeMode::Unspecified)).await.unwrap_err();
    assert_eq!(code(&unsaid), ("bad_request", Code::InvalidArgument));
    let unknown = cluster.set_node_mode(mode("n9", v1::NodeMode::ReadOnly)).await.unwrap_err();
    assert_eq!(code(&unknown), ("not_found", Code::NotFound));
    cluster.set_node_weight(v1::SetNodeWeightRequest { node: "n2".into(), weight: 300 }).await.unwrap();
    let report = cluster.node_drain(v1::NodeDrainRequest { node: "n2".into() }).await.unwrap().into_inner();
    assert_eq!((report.id, report.mode()), (2, v1::NodeMode::Draining));
    let left = v1::DrainLeft { group: 1, leads: true, stuck: true, waits_for: "n3 is silent".into() };
    assert_eq!(report.left, [left]);
    cluster.remove_node(v1::RemoveNodeRequest { node: "n2".into() }).await.unwrap();
    let lead = v1::TransferLeaderRequest { group: 1, to: String::new() };
    assert_eq!(cluster.transfer_leader(lead).await.unwrap().into_inner().node, 2);
}

#[tokio::test]
async fn the_balancer_is_looked_at_and_takes_orders() {
    let Door { channel, .. } = open(GateOptions::default()).await;
    let mut cluster = ClusterClient::new(channel);

    let report = cluster.balancer(v1::BalancerRequest {}).await.unwrap().into_inner();
    assert!(report.on && report.in_window);
    assert_eq!((report.nodes[0].name.as_str(), report.settings["balancer"].as_str()), ("n2", "on"));
    let planned = v1::PlannedMove {
        group: 1,
        what: "n2 in place of n1".into(),
        why: "n1 holds 2 replicas, n2 0".into(),
        for_balance: true,
    };
    assert_eq!(report.planned, [planned]);
    let off = v1::SetSettingRequest { name: "balancer".into(), value: Some("off".into()) };
    cluster.set_setting(off).await.unwrap();
    let order = |to: &str| v1::MoveReplicaRequest { group: 1, from: "n1".into(), to: to.into(), dry_run: true };
    assert_eq!(cluster.move_replica(order("n2")).await.unwrap().into_inner().what, "shard 1: n2 in place of n1");
    assert_eq!(code(&cluster.move_replica(order("n9")).await.unwrap_err()), ("not_found", Code::NotFound));
    let events = cluster.events(v1::EventsRequest { after: 6 }).await.unwrap().into_inner().events;
    assert_eq!((events[0].number, events[0].at_ms, events[0].text.as_str()), (7, 1_000, "shard 1 has moved"));
    assert!(cluster.events(v1::EventsRequest { after: 7 }).await.unwrap().into_inner().events.is_empty());
}

/// One question to the reflection service.
async fn reflect(door: &Door, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = ServerReflectionClient::new(door.channel.clone());
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer: Option<ServerReflectionResponse> = answers.into_inner().message().await.unwrap();
    answer.unwrap().message_response.unwrap()
}

#[tokio::test]
async fn reflection_lists_our_services_and_ydbs() {
    let door = open(GateOptions::default()).await;

    let MessageResponse::ListServicesResponse(list) = reflect(&door, MessageRequest::ListServices("*".into())).await
    else {
        panic!("no list")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "shardine.v1.Records",
        "Ydb.Coordination.V1.CoordinationService",
        "Ydb.Discovery.V1.DiscoveryService",
        "Ydb.RateLimiter.V1.RateLimiterService",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let symbol = MessageRequest::FileContainingSymbol("Ydb.Coordination.SessionRequest".into());

    assert!(matches!(reflect(&door, symbol).await, MessageResponse::FileDescriptorResponse(_)));
}

#[tokio::test]
async fn coordination_nodes_are_listed_and_counted() {
    let door = open(GateOptions::default()).await;
    let mut cluster = ClusterClient::new(door.channel.clone());

    let nodes = cluster.coord_nodes(v1::CoordNodesRequest {}).await.unwrap().into_inner().nodes;
    let status = cluster.status(v1::StatusRequest {}).await.unwrap().into_inner();

    let sessions = v1::CoordSessionsRequest { node: "/local/locks".into(), after: 7, limit: 5_000 };
    let sessions = cluster.coord_sessions(sessions).await.unwrap().into_inner().sessions;
    let semaphores = v1::CoordSemaphoresRequest { node: "/local/locks".into(), after: Some("a".into()), limit: 0 };
    let semaphores = cluster.coord_semaphores(semaphores).await.unwrap().into_inner().semaphores;
    let missing = v1::CoordSessionsRequest { node: "/local/none".into(), ..Default::default() };

    assert_eq!((nodes[0].path.as_str(), nodes[0].sessions), ("/local/locks", 1));
    // The engine of this test tells what it was asked: the page begins behind the last, and has a limit.
    assert_eq!((sessions[0].id, sessions[0].claims, sessions[0].attached), (8, 1_000, true));
    assert!(semaphores[0].name.contains("After(\"a\")") && semaphores[0].name.contains("100"), "{semaphores:?}");
    assert_eq!(cluster.coord_sessions(missing).await.unwrap_err().code(), tonic::Code::NotFound);
    assert_eq!(status.coordination[0].sessions, 4);
}

//! The HTTP door over a real socket, with a engine in memory behind it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use shardine_fake::{FakeEngine, Mood};
use shardine_http::Options;
use shardine_model::ErrorCode;
use shardine_service::GateOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

struct Door {
    engine: Arc<FakeEngine>,
    address: SocketAddr,
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    fn code(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        (self.status, self.json()["code"].as_str().unwrap().to_owned())
    }
}

async fn open(options: Options) -> Door {
    let engine = FakeEngine::new();
    let router = shardine_http::router(engine.clone(), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(shardine_accept::serve(listener, router, shardine_accept::Limits::default(), std::future::pending()));
    Door { engine, address }
}

impl Door {
    async fn ask(&self, line: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        stream.write_all(request.as_bytes()).await.unwrap();
        // The door may refuse before it has read everything.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    async fn send(&self, line: &str, body: Json) -> Reply {
        self.ask(line, &[], body.to_string().as_bytes()).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), &[], b"").await
    }
}

async fn with_tables() -> Door {
    let door = open(Options::default()).await;
    let users = json!({ "name": "users", "fields": [
        { "name": "name", "type": "string" }, { "name": "age", "type": "int64", "default": 18 },
        { "name": "coins", "type": "uint64" }, { "name": "photo", "type": "blob" }, { "name": "height", "type": "float64" },
    ]});
    let events = json!({ "name": "events", "backing": "none", "fields": [{ "name": "text", "type": "string" }],
        "sort": [{ "name": "at", "type": "int64" }, { "name": "who", "type": "string" }] });
    assert_eq!(door.send("POST /v1/tables", users).await.status, 201);
    assert_eq!(door.send("POST /v1/tables", events).await.status, 201);
    door
}

const LILI: &str = "/v1/tables/users/records/lili";

#[tokio::test]
async fn a_record_goes_through_its_life() {
    let door = with_tables().await;

    let created = door.send(&format!("POST {LILI}"), json!({ "name": "Lili", "photo": "AP8=" })).await;
    assert_eq!((created.status, created.json()["version"].as_i64()), (201, Some(1)));
    assert_eq!(door.send(&format!("POST {LILI}"), json!({ "insert": {} })).await.code(), (409, "exists".into()));
    assert_eq!(door.send(&format!("PATCH {LILI}"), json!({ "age": 20 })).await.json()["version"], 2);
    let read = door.get(LILI).await;
    assert!(read.head.contains("etag: \"2\""));
    assert_eq!(read.json()["fields"], json!({ "name": "Lili", "age": 20, "coins": 0, "photo": "AP8=", "height": 0.0 }));
    door.send(&format!("PUT {LILI}"), json!({ "fields": { "age": 21 } })).await;
    assert_eq!(door.get(&format!("{LILI}?fields=name,age")).await.json()["fields"], json!({ "name": "", "age": 21 }));
    let deleted = door.ask(&format!("DELETE {LILI}?return=old"), &[], b"").await.json();
    assert_eq!((&deleted["version"], &deleted["existed"]), (&json!(-4), &json!(true)));
    assert_eq!(deleted["record"]["fields"]["age"], 21);
    let gone = door.get(LILI).await;
    assert_eq!(gone.code(), (404, "not_found".into()));
    assert_eq!(gone.json()["version"], -4, "records 10: a condition for the next creation");
}

/// NULL is JSON's own, and no text is mistaken for it.
#[tokio::test]
async fn null_is_said_and_shown_as_jsons_own() {
    const ZOE: &str = "/v1/tables/people/records/zoe";
    let door = open(Options::default()).await;
    let people = json!({ "name": "people", "fields": [
        { "name": "name", "type": "string" }, { "name": "nick", "type": "string?" },
        { "name": "age", "type": "int64?", "default": 18 },
    ]});
    assert_eq!(door.send("POST /v1/tables", people).await.status, 201);
    let fields = async || door.get(ZOE).await.json()["fields"].clone();

    door.send(&format!("POST {ZOE}"), json!({ "name": "Zoe" })).await;
    assert_eq!(fields().await, json!({ "name": "Zoe", "nick": null, "age": 18 }));
    door.send(&format!("PATCH {ZOE}"), json!({ "nick": "NULL", "age": null })).await;
    assert_eq!(fields().await, json!({ "name": "Zoe", "nick": "NULL", "age": null }));
    let cas = json!({ "cas": { "field": "age", "old": null, "new": 7 } });
    assert_eq!(door.send(&format!("POST {ZOE}"), cas.clone()).await.status, 200);
    assert_eq!(door.send(&format!("POST {ZOE}"), cas).await.code().1, "cas_mismatch");
    let refused = door.send(&format!("PATCH {ZOE}"), json!({ "name": null })).await;
    assert_eq!(refused.code().1, "wrong_type");
    assert_eq!(fields().await, json!({ "name": "Zoe", "nick": "NULL", "age": 7 }));
}

#[tokio::test]
async fn posts_update_cas_and_incr() {
    let door = with_tables().await;
    let post = |body: Json| door.send("POST /v1/tables/users/records/lili?return=new", body);

    let updated = post(json!({ "create": true, "update": [
        { "op": "=", "field": "age", "value": 5 }, { "op": "+", "field": "age", "value": 2 },
        { "op": "append", "field": "name", "value": "Lyly" },
        { "op": "splice", "field": "name", "at": 1, "cut": 1, "value": "i" },
        { "op": "append", "field": "photo", "value": "AP8=" },
    ]}))
    .await;
    assert_eq!(updated.status, 200, "{}", updated.body);
    let fields = &updated.json()["record"]["fields"];
    assert_eq!((&fields["age"], &fields["name"], &fields["photo"]), (&json!(7), &json!("Lily"), &json!("AP8=")));
    let incremented = post(json!({ "incr": { "field": "coins", "by": 3 } })).await.json();
    assert_eq!(incremented["record"]["fields"]["coins"], 3);
    let overflow = post(json!({ "incr": { "field": "coins", "by": -4 } })).await;
    assert_eq!(overflow.code(), (422, "overflow".into()));
    let cas = json!({ "cas": { "field": "age", "old": 7, "new": 8 } });
    assert_eq!(post(cas.clone()).await.status, 200);
    assert_eq!(post(cas).await.code(), (409, "cas_mismatch".into()));
    let unknown = post(json!({ "update": [{ "op": "*", "field": "age", "value": 2 }] })).await;
    assert_eq!(unknown.code(), (400, "bad_request".into()));
}

/// records 35
#[tokio::test]
async fn a_numbered_change_is_made_once() {
    let door = with_tables().await;
    let incr = json!({ "incr": { "field": "age", "by": 1 } });
    let send = async |numbers: &str| door.send(&format!("POST {LILI}?{numbers}"), incr.clone()).await;

    assert_eq!(send("client=7&sequence=1&lowest=1").await.json()["version"], 1);
    assert_eq!(send("client=7&sequence=1&lowest=1&again=true").await.json()["version"], 1);
    assert_eq!(send("client=7&sequence=0").await.code(), (400, "bad_request".into()));
    assert_eq!(send("client=7&sequence=2&lowest=3").await.code(), (400, "bad_request".into()));
    assert_eq!(send("client=7&sequence=129&lowest=1").await.code(), (503, "busy".into()));
}

#[tokio::test]
async fn versions_are_etags() {
    let door = with_tables().await;
    let set = async |header: &str| door.ask(&format!("PATCH {LILI}"), &[header], b"{\"age\": 1}").await.status;

    assert_eq!(set("if-match: *").await, 404);
    assert_eq!(set("if-none-match: *").await, 200);
    assert_eq!(set("if-none-match: *").await, 409);
    assert_eq!(set("if-match: \"1\"").await, 200);
    assert_eq!(set("if-match: \"1\"").await, 412);
    assert_eq!(set("if-match: soon").await, 400);
    assert_eq!(door.ask(&format!("GET {LILI}"), &["if-none-match: \"2\""], b"").await.status, 304);
    assert_eq!(door.ask(&format!("GET {LILI}"), &["if-none-match: \"1\""], b"").await.status, 200);
}

/// records 32: the version of a reply is the token to wait for SQL with.
#[tokio::test]
async fn records_32_a_record_is_flushed_up_to_a_version() {
    let door = with_tables().await;
    let made = door.send("POST /v1/tables/users/records/lili", json!({"age": 1})).await.json();
    assert_eq!(made["version"], 1);

    let token = "POST /v1/tables/users/records/lili/flush?version=1";
    assert_eq!(door.ask(token, &[], b"").await.status, 200);
    let unheard = door.ask("POST /v1/tables/users/records/lili/flush?version=9", &[], b"").await;
    assert_eq!(unheard.code(), (412, "version_mismatch".into()));
    door.engine.stop_sql();
    assert_eq!(door.ask(token, &[], b"").await.code(), (408, "expired".into()));
}

#[tokio::test]
async fn integers_beyond_doubles_travel_as_strings() {
    let door = with_tables().await;

    door.send(&format!("PATCH {LILI}"), json!({ "age": "-9223372036854775808", "coins": "18446744073709551615" }))
        .await;

    let fields = &door.get(LILI).await.json()["fields"];
    assert_eq!(fields["age"], "-9223372036854775808");
    assert_eq!(fields["coins"], "18446744073709551615");
}

#[tokio::test]
async fn keys_are_bytes() {
    let door = with_tables().await;

    for (path, shown) in [("a%2Fb%20c", json!({ "key": "a/b c" })), ("%FF%00", json!({ "key_base64": "/wA=" }))] {
        let line = format!("PATCH /v1/tables/users/records/{path}");
        assert_eq!(door.send(&line, json!({ "age": 1 })).await.status, 200);
        let record = door.get(&format!("/v1/tables/users/records/{path}")).await.json();
        for (name, value) in shown.as_object().unwrap() {
            assert_eq!(&record[name], value);
        }
    }
}

#[tokio::test]
async fn partitions_are_read_by_range_and_pages() {
    let door = with_tables().await;
    for at in 1..=5 {
        let line = format!("PATCH /v1/tables/events/records/lili?sort={at},a%252Cb");
        assert_eq!(door.send(&line, json!({ "text": "x" })).await.status, 200);
    }
    let places = |page: &Json| {
        let records = page["records"].as_array().unwrap().iter();
        records.map(|record| record["sort"][0].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let base = "/v1/tables/events/partitions/lili";

    let first = door.get(&format!("{base}?from=2&limit=2")).await.json();
    assert_eq!(places(&first), [2, 3]);
    assert_eq!(first["records"][0]["sort"], json!([2, "a,b"]));
    let next = first["next"].as_str().unwrap();
    let second = door.get(&format!("{base}?from=2&limit=2&cursor={next}")).await.json();
    assert_eq!((places(&second), &second["next"]), (vec![4, 5], &Json::Null));
    assert_eq!(places(&door.get(&format!("{base}?order=desc&limit=1")).await.json()), [5]);
    assert_eq!(door.get(&format!("{base}?order=up")).await.code(), (400, "bad_request".into()));
    assert_eq!(door.get("/v1/tables/events/records?limit=3").await.json()["records"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn slips_are_refused_with_a_stable_code() {
    let door = with_tables().await;

    assert_eq!(door.get("/v1/tables/nobody/records/x").await.code(), (404, "unknown_table".into()));
    assert_eq!(door.send(&format!("PATCH {LILI}"), json!({ "shoe": 1 })).await.code(), (400, "unknown_field".into()));
    assert_eq!(door.send(&format!("PATCH {LILI}"), json!({ "age": "x" })).await.code(), (400, "wrong_type".into()));
    assert_eq!(door.send(&format!("PATCH {LILI}"), json!({})).await.code(), (400, "bad_request".into()));
    assert_eq!(door.ask(&format!("PATCH {LILI}"), &[], b"{").await.code(), (400, "bad_request".into()));
    assert_eq!(door.get(&format!("{LILI}?filds=age")).await.code(), (400, "bad_request".into()));
    assert_eq!(door.get("/v2").await.code(), (404, "not_found".into()));
    assert_eq!(door.ask("PUT /v1/status", &[], b"").await.code(), (405, "unsupported".into()));
    assert_eq!(door.get("/v1/tables/events/records/x").await.code(), (400, "bad_request".into()));
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused() {
    let door = with_tables().await;
    let body = vec![b' '; shardine_http::BODY_BYTES_MAX + 1];

    let mut stream = TcpStream::connect(door.address).await.unwrap();
    let head = format!("PATCH {LILI} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).await.unwrap();

    assert!(answer[..length].starts_with(b"HTTP/1.1 413"));
}

#[tokio::test]
async fn only_the_token_opens_and_probes_need_none() {
    let gate = GateOptions { token: Some("secret".into()), ..GateOptions::default() };
    let door = open(Options { gate, ..Options::default() }).await;

    assert_eq!(door.get("/v1/status").await.code(), (401, "unauthenticated".into()));
    assert_eq!(door.get("/metrics").await.status, 401);
    assert_eq!(door.ask("GET /v1/status", &["authorization: Bearer secret"], b"").await.status, 200);
    assert_eq!(door.get("/healthz").await.status, 200);
    assert_eq!(door.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_are_not_served() {
    let door = open(Options::default()).await;
    let own = format!("origin: http://{}", door.address);

    assert_eq!(
        door.ask("GET /v1/status", &["origin: http://evil.example"], b"").await.code(),
        (403, "forbidden".into())
    );
    assert_eq!(door.ask("GET /v1/status", &["origin: null"], b"").await.status, 403);
    assert_eq!(door.ask("GET /v1/status", &[&own], b"").await.status, 200);
}

#[tokio::test]
async fn a_silent_hall_leaves_changes_in_doubt() {
    let door = with_tables().await;
    door.engine.set_mood(Mood::Silent);
    let brief = ["shardine-timeout-ms: 50"];

    // records 34.
    let changed = door.ask(&format!("PATCH {LILI}"), &brief, b"{\"age\": 1}").await;
    assert_eq!(changed.code(), (504, "in_doubt".into()));
    assert_eq!(door.ask(&format!("GET {LILI}"), &brief, b"").await.code(), (408, "expired".into()));
    assert_eq!(door.get("/readyz").await.status, 503);
    assert_eq!(door.get("/healthz").await.status, 200);
    door.engine.set_mood(Mood::Refusing(ErrorCode::Busy));
    let busy = door.get(LILI).await;
    assert_eq!(busy.code(), (503, "busy".into()));
    assert!(busy.head.contains("retry-after: 1"));
}

#[tokio::test]
async fn the_cluster_shows_itself() {
    let door = with_tables().await;

    assert_eq!(door.get("/v1/status").await.json()["shards"][0]["leader"], 1);
    assert_eq!(door.get("/v1/shards").await.json()["shards"][0]["lo"], "0000000000000000");
    assert_eq!(door.get("/v1/writeback").await.json()["writeback"]["connected"], true);
    let explained = door.get("/v1/explain?key=users:lili").await.json();
    assert_eq!((&explained["position"], &explained["access"]), (&json!("83498e2ae7640940"), &json!("SINGLE_SHARD")));
    assert_eq!(door.get("/v1/explain?scan=users").await.json()["access"], "SHARD_MERGE");
    assert_eq!(door.get("/v1/explain").await.status, 400);
    assert!(door.get("/metrics").await.body.contains("shardine_shard_up{shard=\"1\"} 1"));
}

#[tokio::test]
async fn the_document_names_every_address() {
    let door = open(Options::default()).await;

    let document = door.get("/openapi.json").await.json();

    let paths = document["paths"].as_object().unwrap();
    let methods = |path: &str| paths[path].as_object().unwrap().len();
    assert_eq!(methods("/v1/tables/{table}/records/{key}"), 5);
    for path in [
        "/v1/tables",
        "/v1/tables/{table}/partitions/{key}",
        "/v1/status",
        "/v1/shards",
        "/v1/shards/{shard}/transfer-leader",
        "/v1/nodes",
        "/v1/nodes/{node}",
        "/v1/nodes/{node}/drain",
        "/v1/explain",
        "/v1/writeback",
        "/v1/coord/nodes",
        "/v1/coord/sessions",
        "/v1/coord/semaphores",
        "/metrics",
        "/healthz",
        "/readyz",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
}

#[tokio::test]
async fn nodes_take_orders() {
    let door = open(Options::default()).await;
    let patch = |node: &str, body: Json| {
        let line = format!("PATCH /v1/nodes/{node}");
        let door = &door;
        async move { door.send(&line, body).await }
    };

    assert_eq!(patch("n2", json!({ "mode": "draining", "weight": 0 })).await.status, 204);
    assert_eq!(patch("n9", json!({ "mode": "ro" })).await.code(), (404, "not_found".into()));
    assert_eq!(patch("n2", json!({ "mode": "idle" })).await.code(), (400, "bad_request".into()));
    assert_eq!(patch("n2", json!({})).await.code(), (400, "bad_request".into()));
    let report = door.get("/v1/nodes/n2/drain").await.json();
    assert_eq!((&report["id"], &report["mode"]), (&json!(2), &json!("draining")));
    let left = json!({ "group": 1, "kind": "records", "leads": true, "stuck": true, "waits_for": "n3 is silent" });
    assert_eq!(report["left"], json!([left]));
    assert_eq!(door.send("DELETE /v1/nodes/n2", json!({})).await.status, 204);
    assert_eq!(door.send("DELETE /v1/nodes/n9", json!({})).await.code(), (404, "not_found".into()));
    for shard in ["1", "coordination", "meta"] {
        let moved = door.send(&format!("POST /v1/shards/{shard}/transfer-leader"), json!({ "to": "n2" })).await;
        assert_eq!(moved.json(), json!({ "node": 2 }), "{shard}");
    }
    assert_eq!(door.send("POST /v1/shards/x/transfer-leader", json!({})).await.code(), (400, "bad_request".into()));
}

#[tokio::test]
async fn coordination_is_shown_page_by_page() {
    let door = open(Options::default()).await;

    assert_eq!(door.get("/v1/coord/nodes").await.json()["nodes"][0]["path"], "/local/locks");
    let session = &door.get("/v1/coord/sessions?node=/local/locks&after=6&limit=5000").await.json()["sessions"][0];
    assert_eq!((&session["id"], &session["claims"]), (&json!(7), &json!(1_000)), "a page has its limit");
    let semaphores = door.get("/v1/coord/semaphores?node=/local/locks&after=a%20b").await.json();
    let semaphore = &semaphores["semaphores"][0];
    assert!(semaphore["name"].as_str().unwrap().contains("After(\"a b\"), limit: 100"), "{semaphore}");
    assert_eq!(semaphore["owners"][0]["order_id"], u64::MAX.to_string());
    assert_eq!(semaphore["owners"][0]["data"], "aGVyZQ==");

    assert_eq!(door.get("/v1/coord/sessions?node=/local/none").await.code(), (404, "not_found".into()));
    assert_eq!(door.get("/v1/coord/sessions").await.code(), (400, "bad_request".into()));
}

#[tokio::test]
async fn a_batch_is_all_or_none() {
    let door = with_tables().await;
    let command = |key: &str, what: Json| {
        let mut command = json!({ "table": "users", "key": key });
        command.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        command
    };
    let both = json!([
        command("{f}lili", json!({ "insert": { "age": 10 }, "return": "new" })),
        command("{f}lili", json!({ "incr": { "field": "age", "by": 5 } })),
        command("{f}tom", json!({ "set": { "name": "Tom" } })),
        command("{f}lili", json!({ "get": ["age"] })),
    ]);

    let done = door.send("POST /v1/batch", json!({ "commands": both })).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let replies = done.json()["replies"].clone();
    assert_eq!(replies.as_array().unwrap().len(), 4);
    assert_eq!(replies[3]["record"]["fields"], json!({ "age": 15 }));
    let again = door.send("POST /v1/batch", json!({ "commands": both })).await;
    assert_eq!((again.code(), &again.json()["item"]), ((409, "exists".into()), &json!(0)));
    let condition = json!([{ "table": "users", "key": "{f}tom", "version": 7 }]);
    let delete = json!([command("{f}tom", json!({ "delete": true }))]);
    let stale = door.send("POST /v1/batch", json!({ "commands": delete, "conditions": condition })).await;
    assert_eq!(stale.status, 412, "{}", stale.body);
    assert_eq!(door.get("/v1/tables/users/records/%7Bf%7Dtom").await.status, 200, "nothing was done");

    for wrong in [
        json!([]),
        json!([command("a", json!({}))]),
        json!([command("a", json!({ "get": [], "delete": true }))]),
        json!([command("a", json!({ "set": {}, "incr": { "field": "age" } }))]),
        json!([command("a", json!({ "delete": true })), command("b", json!({ "delete": true }))]),
        json!([{ "table": "users", "delete": true }]),
        json!([command("a", json!({ "unknown": 1 }))]),
    ] {
        let refused = door.send("POST /v1/batch", json!({ "commands": wrong })).await;
        assert_eq!(refused.code(), (400, "bad_request".into()), "{wrong}");
    }
}

#[tokio::test]
async fn a_record_can_be_kicked() {
    let door = with_tables().await;
    door.send(&format!("PATCH {LILI}"), json!({ "age": 20 })).await;

    let kicked = door.ask(&format!("POST {LILI}/kick"), &[], b"").await;
    assert_eq!((kicked.status, kicked.json()), (200, json!({ "kicked": true })));
    assert_eq!(door.ask(&format!("POST {LILI}/kick?nowiat=true"), &[], b"").await.status, 400);
    assert_eq!(door.get(&format!("{LILI}/kick")).await.status, 405);
}

//! The command as a user types it, against a real server.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::{Command, Output};

use serde_json::{Value as Json, json};
use shardine_testkit::{Options, Shardine, Sql};

struct Shell {
    server: Shardine,
}

impl Shell {
    fn start() -> Self {
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let options = Options { sql: Sql::Sqlite, binary, ..Default::default() };
        Self { server: Shardine::start_with(options).unwrap() }
    }

    fn run(&self, line: &[&str]) -> Output {
        self.server.command(line).output().unwrap()
    }

    /// The JSON of a command that must succeed.
    fn json(&self, line: &[&str]) -> Json {
        let output = self.run(&[line, &["--json"]].concat());
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn text(&self, line: &[&str]) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit code and error code of a command that must fail, with nothing on stdout.
    fn failure(&self, line: &[&str]) -> (i32, String) {
        let output = self.run(&[line, &["--json"]].concat());
        assert_eq!(output.stdout, b"", "{line:?}");
        let error: Json = serde_json::from_slice(&output.stderr).unwrap();
        (output.status.code().unwrap(), error["error"]["code"].as_str().unwrap().to_owned())
    }
}

/// The text of these four letters is no NULL, said or shown.
#[test]
fn null_is_typed_and_shown_so_that_no_text_is_mistaken_for_it() {
    let shell = Shell::start();
    shell.json(&[
        "table",
        "create",
        "people",
        "--field",
        "nick:string?",
        "--field",
        "age:int64?=18",
        "--field",
        "name:string",
    ]);
    let fields = || shell.json(&["get", "people:zoe"])["fields"].clone();

    shell.json(&["set", "people:zoe", "name=Zoe"]);
    assert_eq!(fields(), json!({ "nick": null, "age": 18, "name": "Zoe" }));
    shell.json(&["set", "people:zoe", "nick=NULL", "age:NULL"]);
    assert_eq!(fields(), json!({ "nick": "NULL", "age": null, "name": "Zoe" }));
    let shown = shell.text(&["get", "people:zoe"]);
    assert!(shown.contains("\"NULL\"") && shown.matches("NULL").count() == 2, "{shown}");
    shell.json(&["cas", "people:zoe", "age", "7", "--old-null"]);
    assert_eq!(fields()["age"], 7);
    assert_eq!(shell.failure(&["set", "people:zoe", "name:NULL"]), (1, "wrong_type".into()));
}

#[test]
fn a_session_from_table_to_explain() {
    let shell = Shell::start();
    shell.json(&[
        "table",
        "create",
        "users",
        "--field",
        "name:string",
        "--field",
        "age:int64=18",
        "--field",
        "coins:uint64",
    ]);

    assert_eq!(shell.json(&["set", "users:lili", "name=Lili"])["version"], 1);
    let record = shell.json(&["get", "users:lili"]);
    assert_eq!(record["fields"], json!({ "name": "Lili", "age": 18, "coins": 0 }));
    assert_eq!(shell.json(&["get", "users:lili", "age"])["fields"], json!({ "age": 18 }));
    assert_eq!(shell.json(&["incr", "users:lili", "coins", "5"])["value"], 5);
    assert_eq!(shell.json(&["incr", "users:lili", "coins", "-2"])["value"], 3);
    assert_eq!(shell.json(&["update", "users:lili", "age+=2", "name.=!"])["record"]["fields"]["name"], "Lili!");
    assert_eq!(shell.json(&["cas", "users:lili", "age", "20", "21"])["version"], 5);
    assert_eq!(shell.failure(&["cas", "users:lili", "age", "20", "21"]), (1, "cas_mismatch".into()));
    assert_eq!(shell.failure(&["insert", "users:lili", "age=1"]), (1, "exists".into()));
    assert_eq!(shell.failure(&["set", "users:lili", "age=1", "--if-version", "9"]), (1, "version_mismatch".into()));
    let replaced = shell.json(&["replace", "users:lili", "age=30", "--ack", "sql"]);
    assert_eq!((&replaced["version"], &replaced["sql_version"]), (&json!(6), &json!(6)));
    assert_eq!(shell.json(&["flush", "users"])["flushed"], true);
    // records 32: the version of a reply is the token to wait for SQL with.
    let version = shell.json(&["set", "users:lili", "age=30"])["version"].to_string();
    assert_eq!(shell.json(&["flush", "users:lili", "--version", &version])["flushed"], true);
    let held = shell.json(&["get", "users:lili"]);
    assert_eq!(held["version"], held["sql_version"]);
    assert_eq!(shell.failure(&["flush", "users:lili", "--version", "99"]), (1, "version_mismatch".into()));
    assert_eq!(shell.json(&["kick", "users:lili"])["kicked"], true);
    assert_eq!(shell.json(&["get", "users:lili", "age"])["fields"], json!({ "age": 30 }));
    let explained = shell.json(&["explain", "users:lili"]);
    assert_eq!((&explained["position"], &explained["residence"]), (&json!("83498e2ae7640940"), &json!("live")));
    assert_eq!(shell.json(&["explain", "--scan", "users"])["access"], "SHARD_MERGE");
    // redis-cluster A-51: braces around a key are no part of it, here and at the Redis door.
    assert_eq!(shell.json(&["set", "users:{42}", "age=42"])["version"], 1);
    assert_eq!(shell.json(&["get", "users:42", "age"])["key"], "42");
    assert_eq!(shell.json(&["set", "users:{{42}}", "age=43"])["version"], 1);
    let page = shell.text(&["scan", "users"]);
    assert!(page.contains("users:42 ") && page.contains("users:{{42}} "), "{page}");
    for key in ["users:42", "users:{{42}}"] {
        assert_eq!(shell.json(&["del", key])["existed"], true);
    }
    let deleted = shell.json(&["del", "users:lili", "--return-record"]);
    assert_eq!((&deleted["existed"], &deleted["record"]["fields"]["age"]), (&json!(true), &json!(30)));
    assert_eq!(shell.failure(&["get", "users:lili"]), (1, "not_found".into()));
    assert_eq!(shell.json(&["status"])["shards"].as_array().unwrap().len(), 4);
    assert!(shell.text(&["status"]).contains("HEALTHY"));
    assert_eq!(shell.json(&["shards"])["shards"][0]["lo"], "0000000000000000");
}

/// records 67: every door of a suspended shard says so, and after a resume it serves as before.
#[test]
fn records_67_a_shard_is_suspended_and_resumed() {
    let shell = Shell::start();
    shell.json(&["set", "kv:lili", "value=1"]);
    let shard = shell.json(&["explain", "kv:lili"])["shards"][0]["id"].to_string();

    let shards = shell.json(&["shards", "suspend", &shard])["shards"].clone();
    let suspended = shards.as_array().unwrap().iter().filter(|shard| shard["suspended"] == true).count();
    assert_eq!(suspended, 1);
    assert!(shell.text(&["shards"]).contains("SUSPENDED"));
    assert_eq!(shell.failure(&["get", "kv:lili"]), (1, "suspended".into()));
    assert_eq!(shell.failure(&["set", "kv:lili", "value=2"]), (1, "suspended".into()));
    assert_eq!(shell.failure(&["shards", "suspend", "77"]), (1, "not_found".into()));

    shell.json(&["shards", "resume"]);
    assert_eq!(shell.json(&["get", "kv:lili"])["version"], 1);
}

#[test]
fn rows_of_a_sorted_table_have_longer_addresses() {
    let shell = Shell::start();
    shell.json(&[
        "table",
        "create",
        "events",
        "--sort",
        "at:int64",
        "--sort",
        "who:string",
        "--field",
        "text:string",
        "--backing",
        "none",
    ]);
    for at in ["-1", "2", "3"] {
        shell.json(&["set", &format!("events:lili@{at},a%2Cb"), "text=x"]);
    }

    let page = shell.json(&["scan", "events:lili", "--from", "-1", "--limit", "2"]);
    assert_eq!(page["records"][0]["sort"], json!([-1, "a,b"]));
    let next = page["next"].as_str().unwrap();
    let page = shell.json(&["scan", "events:lili", "--from", "-1", "--limit", "2", "--cursor", next]);
    assert_eq!(page["records"][0]["sort"], json!([3, "a,b"]));
    let page = shell.json(&["scan", "events:lili", "--desc", "--limit", "1"]);
    assert_eq!(page["records"][0]["sort"][0], 3);
    assert!(shell.text(&["scan", "events"]).contains("events:lili@-1,a%2Cb"));
    assert_eq!(shell.failure(&["get", "events:lili"]), (2, "bad_request".into()));
}

#[test]
fn tables_are_listed_changed_and_dropped() {
    let shell = Shell::start();
    shell.json(&["table", "create", "users", "--field", "name:string"]);

    assert!(shell.text(&["table", "list"]).contains("users"));
    assert_eq!(shell.json(&["table", "add-field", "users", "height:float64=1.5"])["fields"][1]["default"], 1.5);
    assert_eq!(shell.json(&["table", "show", "users"])["definition_version"], 2);
    assert_eq!(shell.failure(&["table", "drop", "users"]), (2, "bad_request".into()));
    shell.json(&["table", "drop", "users", "--yes"]);
    assert_eq!(shell.failure(&["table", "show", "users"]), (1, "unknown_table".into()));
}

#[test]
fn slips_end_with_two_and_failures_with_one() {
    let shell = Shell::start();
    shell.json(&["table", "create", "users", "--field", "age:int64"]);

    assert_eq!(shell.failure(&["get", "lili"]), (2, "bad_request".into()));
    assert_eq!(shell.failure(&["set", "users:lili", "shoe=1"]), (2, "unknown_field".into()));
    assert_eq!(shell.failure(&["set", "users:lili", "age=ten"]), (2, "wrong_type".into()));
    assert_eq!(shell.failure(&["set", "users:lili", "age"]), (2, "bad_request".into()));
    assert_eq!(shell.run(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(shell.failure(&["get", "nobody:x"]), (1, "unknown_table".into()));
    assert_eq!(shell.failure(&["get", "users:x", "--server", "127.0.0.1:1"]), (1, "no_leader".into()));
    let output = shell.run(&["get", "users:nobody"]);
    let text = String::from_utf8(output.stderr).unwrap();
    for part in ["error[not_found]: users:nobody does not exist", "  cause: ", "  try:   ", "docs/errors.md#not_found"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_benchmark_puts_load_and_counts_it() {
    let shell = Shell::start();
    let redis = shell.server.redis().address().to_string();
    let line = ["bench", "--redis", &redis, "--connections", "4", "--pipeline", "8", "--keys", "100", "--seconds", "1"];

    let report = shell.json(&line);

    assert_eq!(report["errors"], 0);
    assert!(report["commands"]["get"]["count"].as_u64().unwrap() > 0);
    assert!(report["commands"]["set"]["latency_us"]["p99"].as_u64().unwrap() > 0);
    assert!(shell.text(&line).contains("P99.9"));
}

#[test]
fn the_doctor_finds_a_healthy_server_healthy() {
    let shell = Shell::start();
    let (redis, http) = (shell.server.redis().address().to_string(), shell.server.http().address().to_string());
    let data = shell.server.data();

    let report = shell.json(&["doctor", "--data", data.to_str().unwrap(), "--redis", &redis, "--http", &http]);

    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() >= 10, "{report}");
    assert!(findings.iter().all(|finding| finding["grade"] != "failed"), "{report}");
}

#[test]
fn up_says_where_it_is_and_refuses_what_it_cannot_do() {
    let shardine = |line: &[&str]| Command::new(env!("CARGO_BIN_EXE_shardine")).args(line).output().unwrap();

    let exposed = shardine(&["up", "--redis", "0.0.0.0:0", "--json"]);
    assert_eq!(exposed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&exposed.stderr).contains("--insecure"));
    assert_eq!(shardine(&["up", "--nodes", "10"]).status.code(), Some(2));
    assert_eq!(shardine(&["up", "--shards", "0"]).status.code(), Some(2));
    assert_eq!(shardine(&["up", "--shards", "16385"]).status.code(), Some(2));
    assert!(String::from_utf8_lossy(&shardine(&["completions", "bash"]).stdout).contains("shardine"));
}

#[test]
fn options_come_from_flag_then_environment_then_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shardine.toml");
    let data = dir.path().join("from-file");
    std::fs::write(&file, format!("data = {data:?}\nredsi = '127.0.0.1:1'\n")).unwrap();
    let check = || Command::new(env!("CARGO_BIN_EXE_shardine")).args(["config", "check"]).arg(&file).output().unwrap();

    let output = check();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("shardine.toml:2:1: unknown field `redsi`") && text.contains("did you mean redis?"),
        "{text}"
    );

    // Each source names a different broken address; the one that is complained about is the one that won.
    std::fs::write(&file, format!("data = {data:?}\nredis = '192.0.2.3:1'\nsql = 'none'\n")).unwrap();
    assert_eq!(check().status.code(), Some(0));
    let up = |flags: &[&str], environment: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
        command.arg("up").arg("--config").arg(&file).args(flags);
        if let Some(address) = environment {
            command.env("SHARDINE_REDIS", address);
        }
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(up(&[], None).contains("192.0.2.3:1"));
    assert!(up(&[], Some("192.0.2.2:1")).contains("192.0.2.2:1"));
    assert!(up(&["--redis", "192.0.2.1:1"], Some("192.0.2.2:1")).contains("192.0.2.1:1"));
}

#[test]
fn a_refused_batch_changes_nothing_on_a_real_server() {
    use shardine_proto::v1;
    use shardine_proto::v1::records_client::RecordsClient;
    let shell = Shell::start();
    shell.json(&["table", "create", "users", "--field", "age:int64"]);
    let row = || Some(v1::Row { table: "users".into(), key: b"lili".to_vec(), sort: vec![] });
    let age = v1::Value { kind: Some(v1::value::Kind::Int64(1)) };
    let fields = vec![v1::Field { name: "age".into(), value: Some(age), raw_name: vec![] }];
    let insert = || v1::InsertRequest { row: row(), fields: fields.clone(), ..Default::default() };
    let item = |insert| v1::BatchItem { item: Some(v1::batch_item::Item::Insert(insert)) };
    let items = vec![item(insert()), item(insert()), item(insert())];
    let address = format!("http://{}", shell.server.grpc().address());
    let runtime = tokio::runtime::Runtime::new().unwrap();

    let refused = runtime.block_on(async {
        let mut records = RecordsClient::connect(address).await.unwrap();
        records.batch(v1::BatchRequest { items, ..Default::default() }).await.unwrap_err()
    });

    assert_eq!(refused.metadata().get("shardine-code").unwrap(), "exists");
    assert_eq!(shell.failure(&["get", "users:lili"]), (1, "not_found".into()));
}

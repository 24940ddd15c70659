//! A node that is not to be started says why, by a code that scripts can compare; and one that is started keeps its door shut.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use shardine_testkit::sql_server::{Kind, SqlServer, Sync};
use shardine_testkit::{Dir, Options, Reply, Shardine};

fn shardine() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
    command.env_remove("SHARDINE_TOKEN");
    command
}

/// `up` in a directory, with its doors on any free port.
fn up(dir: &Dir) -> Command {
    let mut command = shardine();
    command.args(["up", "--json", "--data"]).arg(dir.join("data"));
    // Flags win over these.
    command.envs(["SHARDINE_REDIS", "SHARDINE_GRPC", "SHARDINE_HTTP"].map(|door| (door, "127.0.0.1:0")));
    command
}

/// The exit code and the error code of a command that does not do its work.
fn failure(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    let error: Json = serde_json::from_str(last).unwrap_or_else(|_| panic!("{said}"));
    let word = |name: &str| error["error"][name].as_str().unwrap().to_owned();
    (output.status.code().unwrap(), word("code"), word("message"))
}

fn start(args: &[&str]) -> Shardine {
    let args = args.iter().map(ToString::to_string).collect();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { args, binary, ..Options::default() }).unwrap()
}

#[test]
fn an_empty_token_is_none() {
    let dir = Dir::new().unwrap();
    let mut open = up(&dir);
    open.env("SHARDINE_TOKEN", "").args(["--redis", "0.0.0.0:0"]);
    let mut file = up(&dir);
    let config = dir.join("shardine.toml");
    std::fs::write(&config, "token = ''\n").unwrap();
    std::fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    file.arg("--grpc").arg("0.0.0.0:0").arg("--config").arg(&config);

    assert_eq!(failure(&mut open).1, "exposed");
    assert_eq!(failure(&mut file).1, "exposed");
}

#[test]
fn an_empty_password_never_gets_in() {
    let open = start(&["--token", ""]);
    let closed = start(&["--token", "hush"]);

    let without = open.client().unwrap().call(&["AUTH", ""]).unwrap();
    assert!(without.is_error("ERR"), "nothing to authenticate against: {without:?}");
    let wrong = closed.client().unwrap().call(&["AUTH", ""]).unwrap();
    assert!(wrong.is_error("WRONGPASS"), "{wrong:?}");
    let status = closed.command(&["status"]).env("SHARDINE_TOKEN", "").output().unwrap();
    assert!(!status.status.success());
}

/// reliability I95, S1.
#[test]
fn doors_that_others_reach_want_a_token() {
    let dir = Dir::new().unwrap();

    for door in ["--redis", "--grpc", "--http"] {
        let (exit, code, message) = failure(up(&dir).args([door, "0.0.0.0:0"]));
        assert_eq!((exit, code.as_str()), (1, "exposed"), "{message}");
        assert!(message.contains(door), "{message}");
    }
}

#[test]
fn another_number_of_shards_is_refused() {
    let mut server = start(&["--shards", "4"]);
    server.stop().unwrap();

    let mut again = shardine();
    again.args(["up", "--json", "--shards", "8", "--data"]).arg(server.data());
    let (exit, code, message) = failure(&mut again);

    assert_eq!((exit, code.as_str()), (1, "other_layout"));
    assert_eq!(message, "--shards 8: this data directory was made with 4, and what it holds stays where it is");
    // The same number, or none, is no contradiction.
    server.restart().unwrap();
    assert_eq!(server.client().unwrap().call(&["PING"]).unwrap().text(), Some("PONG".into()));
}

#[test]
fn what_another_version_wrote_is_called_so() {
    let mut server = start(&[]);
    server.stop().unwrap();
    let identity = server.data().join("IDENTITY");
    let text = std::fs::read_to_string(&identity).unwrap();

    for (format, code) in [("1", "other_form"), ("99", "other_form")] {
        std::fs::write(&identity, text.replacen("shardine data 2", &format!("shardine data {format}"), 1)).unwrap();
        let mut again = shardine();
        assert_eq!(failure(again.args(["up", "--json", "--data"]).arg(server.data())).1, code, "{format}");
    }
    std::fs::write(&identity, text.replacen("node 1", "node 2", 1)).unwrap();
    assert_eq!(failure(shardine().args(["up", "--json", "--data"]).arg(server.data())).1, "damaged");
}

#[test]
fn sql_that_does_not_let_us_in_is_called_so() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let maria = SqlServer::start(Kind::MariaDb, Sync::Off, &[]).unwrap();
    let (nowhere, stranger) = (postgres.database().unwrap().url(), maria.database().unwrap().url());
    let nowhere = format!("{}/nowhere", nowhere.rsplit_once('/').unwrap().0);
    let (scheme, rest) = stranger.split_once("://").unwrap();
    let stranger = format!("{scheme}://stranger:wrong@{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place));

    for url in [nowhere, stranger] {
        let dir = Dir::new().unwrap();
        let (exit, code, message) = failure(up(&dir).args(["--sql", &url]));
        assert_eq!((exit, code.as_str()), (1, "sql_unusable"), "{url}: {message}");
        assert!(!message.contains("wrong"), "passwords are not shown");
    }
    let dir = Dir::new().unwrap();
    assert_eq!(failure(up(&dir).args(["--sql", "oracle://x"])).1, "bad_request");
}

#[test]
fn an_address_that_is_taken_is_called_so() {
    let server = start(&[]);

    for (flag, taken) in [("--redis", server.redis()), ("--grpc", server.grpc()), ("--http", server.http())] {
        let dir = Dir::new().unwrap();
        let (_, code, message) = failure(up(&dir).args([flag, &taken.address().to_string()]));
        assert_eq!(code, "listen", "{message}");
    }
}

#[test]
fn doctor_fails_by_a_code_of_its_own() {
    let dir = Dir::new().unwrap();
    std::fs::write(dir.join("data"), "a file").unwrap();
    let output = shardine().args(["doctor", "--json", "--data"]).arg(dir.join("data")).output().unwrap();

    let error: Json = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((output.status.code(), error["error"]["code"].as_str()), (Some(1), Some("unfit")));
    let findings: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert!(findings["findings"].as_array().unwrap().iter().any(|found| found["grade"] == "failed"));
}

/// `status | head -0`: whoever reads has seen enough, and that is no fault.
#[test]
fn a_reader_who_leaves_is_no_panic() {
    let server = start(&[]);
    let lines: [&[&str]; 6] =
        [&["status"], &["status", "--json"], &["shards"], &["scan", "kv"], &["completions", "bash"], &["doctor"]];

    for line in lines {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = server.command(line).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{line:?}: {said}");
        assert_eq!(output.status.code(), Some(141), "{line:?}: {said}");
        // The same with nobody at stderr either.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = server.command(line).stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
        assert_eq!(ended.code(), Some(141), "{line:?}");
    }
}

/// One request over HTTP/1 with these headers; the status and the body.
fn ask(server: &Shardine, line: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.http().address()).unwrap();
    let length = body.len();
    write!(stream, "{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

/// DNS rebinding: a page whose own name was made to point here is told from a page of ours by the name alone.
#[test]
fn a_stranger_s_name_opens_nothing() {
    let server = start(&["--http-host", "cache.internal"]);
    let address = server.http().address();
    let patch = "PATCH /v1/tables/kv/records/lili";
    let status = |headers: &str| ask(&server, patch, headers, r#"{"value": "aGk="}"#).0;

    assert_eq!(status("host: evil.com\r\norigin: http://evil.com\r\n"), "403");
    assert_eq!(status("host: evil.com\r\n"), "403");
    assert_eq!(ask(&server, "GET /v1/status", "host: evil.com\r\n", "").0, "403");
    assert_eq!(ask(&server, "GET /v1/tables/kv/records/lili", &format!("host: {address}\r\n"), "").0, "404");
    assert_eq!(status(&format!("host: {address}\r\norigin: http://{address}\r\n")), "200");
    assert_eq!(status("host: localhost\r\n"), "200");
    assert_eq!(status("host: cache.internal:80\r\norigin: http://cache.internal:80\r\n"), "200");
    assert_eq!(ask(&server, "GET /healthz", "host: evil.com\r\n", "").0, "200", "probes come by any name");
}

#[test]
fn the_log_is_plain_in_a_file_and_json_if_asked() {
    let mut plain = start(&[]);
    let mut machine = start(&["--log-format", "json", "--json"]);
    for server in [&mut plain, &mut machine] {
        server.stop().unwrap();
    }
    let colours = |server: &mut Shardine| server.process().output().contains('\u{1b}');

    assert!(!colours(&mut plain) && !colours(&mut machine));
    for line in machine.process().output().lines() {
        let _: Json = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    }
}

#[test]
fn sizes_take_units() {
    let server = start(&["--memory-max", "20MB", "--snapshot-log-bytes", "1MiB"]);
    let wrong = shardine().args(["up", "--memory-max", "20 apples"]).output().unwrap();
    let info = server.client().unwrap().call(&["INFO", "memory"]).unwrap();
    let told = server.client().unwrap().call(&["CONFIG", "GET", "maxmemory"]).unwrap();

    assert!(info.text().is_some_and(|text| text.contains("\nmaxmemory:20000000\r\n")), "{info:?}");
    assert_eq!(told, Reply::bulks(&["maxmemory", "20000000"]));

    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("is not a size"), "{wrong:?}");
    let dir = Dir::new().unwrap();
    std::fs::write(dir.join("x.toml"), "memory_max = '2GiB'\nsnapshot_log_bytes = 1000\n").unwrap();
    let checked = server.command(&["config", "check", "--json"]).arg(dir.join("x.toml")).output().unwrap();
    let checked: Json = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["options"]["memory_max"], 2_147_483_648_u64);
}

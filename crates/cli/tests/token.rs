//! A real server that was started with `--token`: whoever does not know it gets nothing at any door, whoever does is served.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Output},
};

use shardine_testkit::{Options, Reply, Shardine, Sql};

const TOKEN: &str = "open sesame";

fn start() -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let args = ["--token", TOKEN].map(str::to_owned).to_vec();
    Shardine::start_with(Options { sql: Sql::Sqlite, args, binary, ..Options::default() }).unwrap()
}

/// The status line and the rest of the answer to one HTTP request.
fn http(server: &Shardine, path: &str, token: Option<&str>) -> (String, String) {
    let mut stream = TcpStream::connect(server.http().address()).unwrap();
    let bearer = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{bearer}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (line, rest) = answer.split_once("\r\n").unwrap();
    (line.to_owned(), rest.to_owned())
}

/// A command of the binary, which speaks gRPC and puts the token into the metadata `authorization`.
fn grpc(server: &Shardine, words: &[&str], token: Option<&str>) -> Output {
    let mut command = server.command(words);
    command.env_remove("SHARDINE_TOKEN");
    if let Some(token) = token {
        command.args(["--token", token]);
    }
    command.output().unwrap()
}

/// reliability F42, I83.
#[test]
fn the_redis_door_wants_the_token_first() {
    let server = start();
    let mut client = server.client().unwrap();

    for command in
        [&["SET", "greeting", "hello"][..], &["GET", "greeting"], &["PING"], &["AUTH", "wrong"], &["GET", "x"]]
    {
        let reply = client.call(command).unwrap();
        let refused = if command[0] == "AUTH" { "WRONGPASS" } else { "NOAUTH" };
        assert!(reply.is_error(refused), "{command:?}: {reply:?}");
    }

    assert_eq!(client.call(&["AUTH", TOKEN]).unwrap(), Reply::ok());
    assert_eq!(client.call(&["GET", "greeting"]).unwrap(), Reply::Nil, "what was refused was not done");
    assert_eq!(client.call(&["SET", "greeting", "hello"]).unwrap(), Reply::ok());
    // As clients since Redis 6 say it, and on a connection of its own: nobody is let in for another.
    let mut second = server.client().unwrap();
    assert!(second.call(&["GET", "greeting"]).unwrap().is_error("NOAUTH"));
    assert_eq!(second.call(&["AUTH", "default", TOKEN]).unwrap(), Reply::ok());
    assert_eq!(second.call(&["GET", "greeting"]).unwrap(), Reply::bulk("hello"));
}

#[test]
fn redis_cli_gives_the_token() {
    let server = start();
    let run = |token: Option<&str>| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &server.redis().number().to_string(), "--no-auth-warning"]);
        if let Some(token) = token {
            command.args(["-a", token]);
        }
        let output = command.args(["INCR", "visits"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(run(None).starts_with("NOAUTH"));
    assert!(run(Some("wrong")).contains("NOAUTH"));
    assert_eq!(run(Some(TOKEN)), "1\n");
}

/// reliability F42, I83.
#[test]
fn the_http_door_wants_a_bearer() {
    let server = start();

    for token in [None, Some("wrong"), Some("")] {
        let (line, rest) = http(&server, "/v1/tables", token);
        assert!(line.contains(" 401 "), "{token:?}: {line}");
        assert!(rest.contains("unauthenticated"), "{token:?}: {rest}");
        assert!(!rest.contains("kv"), "{rest}");
    }
    let (line, rest) = http(&server, "/v1/tables", Some(TOKEN));
    assert!(line.contains(" 200 "), "{line}");
    assert!(rest.contains("kv"), "{rest}");
}

/// reliability F42, I83.
#[test]
fn the_grpc_door_wants_the_token_in_its_metadata() {
    let server = start();

    for token in [None, Some("wrong")] {
        for words in [&["status"][..], &["get", "kv:greeting"], &["table", "create", "users", "--field", "age:int64"]] {
            let output = grpc(&server, words, token);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{words:?} with {token:?}");
            assert!(told.contains("error[unauthenticated]"), "{words:?} with {token:?}: {told}");
            assert_eq!(output.stdout, b"");
        }
    }
    assert!(grpc(&server, &["status"], Some(TOKEN)).status.success());
    let output = grpc(&server, &["table", "create", "users", "--field", "age:int64"], Some(TOKEN));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

//! What all doors of a real server have in common: they show one state, they survive a shortage of files, and no name that a
//! client gives becomes a name of a file.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use shardine_testkit::{Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start() -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::Sqlite, binary, ..Options::default() }).unwrap()
}

/// The body of the answer to one HTTP request, if there is an answer.
fn http(server: &Shardine, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(server.http().address()).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// A command of the binary, which speaks gRPC; what it prints.
fn grpc(server: &Shardine, words: &[&str]) -> Option<String> {
    let done = server.command(words).output().unwrap();
    done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
}

/// reliability I24.
#[test]
fn what_one_door_wrote_every_door_shows() {
    let server = start();
    let mut redis = server.client().unwrap();
    grpc(&server, &["table", "create", "users", "--field", "age:int64"]).unwrap();
    let all_show = |age: &str, redis: &mut shardine_testkit::Client| {
        assert_eq!(redis.call(&["HGET", "users:lili", "age"]).unwrap(), Reply::bulk(age));
        let shown = http(&server, "GET", "/v1/tables/users/records/lili", "").unwrap();
        assert!(shown.contains(&format!("\"age\":{age}")), "{shown}");
        let shown = grpc(&server, &["get", "users:lili", "--json"]).unwrap();
        assert!(shown.replace(' ', "").contains(&format!("\"age\":{age}")), "{shown}");
    };

    assert_eq!(redis.call(&["HSET", "users:lili", "age", "10"]).unwrap(), Reply::Int(1));
    all_show("10", &mut redis);
    http(&server, "PATCH", "/v1/tables/users/records/lili", r#"{"fields":{"age":11}}"#).unwrap();
    all_show("11", &mut redis);
    grpc(&server, &["set", "users:lili", "age=12"]).unwrap();
    all_show("12", &mut redis);
}

/// reliability F35, I78: while there is no file left nobody else comes in, and afterwards everybody does, at every door.
#[test]
fn every_door_comes_through_a_lack_of_files() {
    let mut server = start();
    let pid = Pid::from_raw(i32::try_from(server.process().pid()).unwrap()).unwrap();
    let open_files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap().count() as u64;
    // The server has our own highest limit, which nobody may raise.
    let few = Rlimit { current: Some(open_files + 6), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(Some(pid), Resource::Nofile, few).unwrap();
    let doors: [SocketAddr; 3] = [server.redis().address(), server.grpc().address(), server.http().address()];
    let crowd: Vec<TcpStream> =
        doors.iter().flat_map(|door| (0..20).filter_map(move |_| TcpStream::connect(door).ok())).collect();
    wait_for("all files to be taken", PATIENCE, || {
        let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?.count() as u64;
        Ok((open >= open_files + 6).then_some(()))
    })
    .unwrap();

    drop(crowd);
    prlimit(Some(pid), Resource::Nofile, before).unwrap();

    wait_for("the Redis door", PATIENCE, || {
        Ok((server.client()?.call(&["SET", "greeting", "hello"]).ok() == Some(Reply::ok())).then_some(()))
    })
    .unwrap();
    wait_for("the HTTP door", PATIENCE, || Ok(http(&server, "GET", "/healthz", ""))).unwrap();
    wait_for("the gRPC door", PATIENCE, || Ok(grpc(&server, &["status"]))).unwrap();
}

/// reliability I94: keys, fields, tables and paths of coordination that would lead elsewhere, or have a name of their own.
#[test]
fn no_name_of_a_client_is_a_name_of_a_file() {
    let server = start();
    let mut redis = server.client().unwrap();
    let parent = server.data().parent().unwrap().to_owned();
    for name in ["../escape", "/tmp/escape", "escape/../../escape", "escape\0", "..", "escape"] {
        redis.call(&["SET", name, "x"]).unwrap();
        redis.call(&["HSET", &format!("h{name}"), name, "x"]).unwrap();
        redis.call(&["CLIENT", "SETNAME", name]).unwrap();
        redis.call(&["CONFIG", "SET", "dir", name]).unwrap();
        // Some are refused, others are not; none may be a path.
        let name = name.replace('\0', "%00");
        grpc(&server, &["table", "create", &name, "--field", "age:int64"]);
        grpc(&server, &["coord", "node", "create", &format!("/local/{name}")]);
        http(
            &server,
            "PUT",
            &format!("/v1/tables/kv/records/{}", name.replace('/', "%2F")),
            r#"{"fields":{"a":"eA=="}}"#,
        );
    }

    let found = files_named(&parent, "escape");
    assert!(found.is_empty(), "{found:?}");
    assert!(!Path::new("/tmp/escape").exists());
}

fn files_named(folder: &Path, part: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            let below = if path.is_dir() { files_named(&path, part) } else { Vec::new() };
            let itself = path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
            below.into_iter().chain(itself.then_some(path))
        })
        .collect()
}

//! `shardine dialogs` as its description has it: two lines of curl, and a service that may be there before its cluster.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::Command;

use shardine_testkit::{Dir, Options, PATIENCE, Port, Process, Shardine, Sql, python, wait_for, workspace_root};

const TOKEN: &str = "SOME_SECRET_TOKEN";

fn server() -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::Sqlite, binary, ..Options::default() }).unwrap()
}

fn dialogs(dir: &Dir, server: &str, listen: &Port, words: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
    command.args(["dialogs", "--server", server, "--listen", &listen.address().to_string()]).args(words);
    command.env_remove("DIALOGS_TOKEN");
    Process::spawn("dialogs", &mut command, &dir.join("dialogs.log")).unwrap()
}

/// What a line of a shell prints, with another port than the one that it names.
fn shell(line: &str, listen: &Port) -> String {
    let line = line.replace("127.0.0.1:8009", &listen.address().to_string());
    let done = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let (_, rest) = json.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{name} in {json}"));
    rest.split('"').next().unwrap()
}

/// sharding B-1: the two lines of curl, word by word.
#[test]
fn sharding_b_1_the_lines_of_the_description_work() {
    let (server, dir, listen) = (server(), Dir::new().unwrap(), Port::free().unwrap());
    let mut service = dialogs(&dir, &server.grpc().address().to_string(), &listen, &["--token", TOKEN]);
    service.wait_for_line("listening on", PATIENCE).unwrap();

    let made = shell(
        r#"curl -s -f -XPOST http://127.0.0.1:8009/chats -d '{"users":[1, 2]}' -H "Authorization:Bearer SOME_SECRET_TOKEN""#,
        &listen,
    );
    let chat = field(&made, "chat_id");
    let post = r#"curl -s -f -XPOST http://127.0.0.1:8009/messages -d '{"user_id":2, "chat_id":"601ebca6a834d8abc568f3c7", "text":"Hi there!"}' -H "Authorization:Bearer SOME_SECRET_TOKEN""#;
    let written = shell(&post.replace("601ebca6a834d8abc568f3c7", chat), &listen);

    assert_eq!((chat.len(), field(&written, "message_id").len()), (24, 24));
    assert!(!service.output().contains(TOKEN), "a token that was given is not told");
    assert!(service.terminate(PATIENCE).unwrap().success());
}

/// sharding B-62: the service before its cluster; and a token of its own, which it tells.
#[test]
fn a_service_waits_for_its_cluster_and_makes_a_token() {
    let (dir, grpc, listen) = (Dir::new().unwrap(), Port::free().unwrap(), Port::free().unwrap());
    let address = grpc.address().to_string();
    let mut service = dialogs(&dir, &address, &listen, &[]);
    service.wait_for_line("waiting for Shardine", PATIENCE).unwrap();

    let mut up = Command::new(env!("CARGO_BIN_EXE_shardine"));
    let (redis, http) = (Port::free().unwrap(), Port::free().unwrap());
    up.args(["up", "--sql", "none", "--grpc", &address, "--redis", &redis.address().to_string()]);
    up.args(["--http", &http.address().to_string()]).arg("--data").arg(dir.join("data"));
    let _server = Process::spawn("shardine", &mut up, &dir.join("shardine.log")).unwrap();

    let line = service.wait_for_line("token ", PATIENCE).unwrap();
    service.wait_for_line("listening on", PATIENCE).unwrap();
    let token = line.trim().rsplit(' ').next().unwrap();
    let ask = format!(
        "curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:8009/chats?user_id=1 -H 'Authorization: Bearer {token}'"
    );
    assert_eq!((token.len(), shell(&ask, &listen).as_str()), (32, "200"));
    assert_eq!(shell(&ask.replace(token, "wrong"), &listen), "401");
}

/// `examples/dialogs.py` speaks of the same tables, so the service reads what it has written.
#[test]
fn the_python_example_and_the_service_share_their_tables() {
    let (server, dir, listen) = (server(), Dir::new().unwrap(), Port::free().unwrap());
    let mut example = Command::new(python::interpreter().unwrap());
    example.arg(workspace_root().join("examples/dialogs.py"));
    example.args([server.redis().address().to_string(), server.http().address().to_string()]);

    let done = example.output().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (chat, said) = printed.trim().split_once(' ').unwrap();
    assert_eq!(said, "True [(1, 'message 0'), (2, 'message 1'), (1, 'message 2')] [(1, 'message 2')]");

    let mut service = dialogs(&dir, &server.grpc().address().to_string(), &listen, &["--token", TOKEN]);
    service.wait_for_line("listening on", PATIENCE).unwrap();
    let list = r#"curl -s -f "http://127.0.0.1:8009/chats?user_id=2" -H "Authorization:Bearer SOME_SECRET_TOKEN""#;
    assert!(shell(list, &listen).contains(chat));
    wait_for("the page", PATIENCE, || {
        let page = format!(
            "curl -s -f 'http://127.0.0.1:8009/chats/{chat}/messages?user_id=1' -H 'Authorization:Bearer {TOKEN}'"
        );
        Ok(shell(&page, &listen).contains("message 2").then_some(()))
    })
    .unwrap();
}

//! Scripts that all want one key, against the real server: the next one runs on what those before it will have made of it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

const HERD: usize = 50;

fn start() -> Shardine {
    let args = ["--lanes", "1", "--shards", "1"].map(str::to_owned).to_vec();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::None, args, binary, ..Options::default() }).unwrap()
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("no text: {other:?}"),
    }
}

/// Entries of the log that the shard has applied.
fn applied(client: &mut Client) -> u64 {
    let info = text(client.call(&["INFO", "shards"]).unwrap());
    let line = info.lines().find(|line| line.starts_with("shard1:")).unwrap();
    let applied = line.split(',').find_map(|fact| fact.strip_prefix("applied=")).unwrap();
    applied.parse().unwrap()
}

/// Has every client say its command in one and the same turn of the lane: they wait in a pause, which then ends. Gives their answers.
fn all_at_once(server: &Shardine, commands: &[Vec<&str>]) -> Vec<Reply> {
    let mut admin = server.client().unwrap();
    let mut clients: Vec<Client> = commands.iter().map(|_| server.client().unwrap()).collect();
    assert_eq!(admin.call(&["CLIENT", "PAUSE", "600000"]).unwrap(), Reply::ok());
    for (client, command) in clients.iter_mut().zip(commands) {
        client.send(command).unwrap();
        client.flush().unwrap();
    }
    wait_for("all of them to wait", PATIENCE, || {
        let list = text(admin.call(&["CLIENT", "LIST"])?);
        Ok((list.matches(" flags=b ").count() == commands.len()).then_some(()))
    })
    .unwrap();
    assert_eq!(admin.call(&["CLIENT", "UNPAUSE"]).unwrap(), Reply::ok());
    clients.iter_mut().map(|client| client.receive().unwrap()).collect()
}

fn numbers(replies: &[Reply]) -> Vec<i64> {
    let mut numbers: Vec<i64> = replies
        .iter()
        .map(|reply| match reply {
            Reply::Int(number) => *number,
            other => panic!("no number: {other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn scripts_on_a_hot_key_share_an_entry() {
    let server = start();
    let mut client = server.client().unwrap();
    client.call(&["SET", "hot", "0"]).unwrap();
    let script =
        "redis.call('set', KEYS[1], redis.call('get', KEYS[1]) + 1) return tonumber(redis.call('get', KEYS[1]))";
    let before = applied(&mut client);

    let replies = all_at_once(&server, &vec![vec!["EVAL", script, "1", "hot"]; HERD]);

    assert_eq!(numbers(&replies), (1..=HERD as i64).collect::<Vec<_>>());
    let entries = applied(&mut client) - before;
    assert!(entries < HERD as u64 / 2, "{HERD} scripts took {entries} entries");
}

#[test]
fn rows_that_come_and_go_are_foreseen_too() {
    let server = start();
    let script =
        "local n = redis.call('hincrby', KEYS[1], 'n', 1) if n == 5 then redis.call('del', KEYS[1]) end return n";

    let replies = all_at_once(&server, &vec![vec!["EVAL", script, "1", "{hot}h"]; HERD]);

    let expected: Vec<i64> = (1..=5).flat_map(|number| vec![number; HERD / 5]).collect();
    assert_eq!(numbers(&replies), expected);
    assert_eq!(server.client().unwrap().call(&["EXISTS", "{hot}h"]).unwrap(), Reply::Int(0));
}

/// Others change the key between them, so that what was foreseen is not what is there.
#[test]
fn scripts_among_other_changes_lose_nothing() {
    let server = start();
    let script = "return redis.call('incrby', KEYS[1], 1)";
    let commands: Vec<Vec<&str>> = (0..HERD)
        .map(|number| match number % 3 {
            0 => vec!["INCR", "hot"],
            _ => vec!["EVAL", script, "1", "hot"],
        })
        .collect();

    for round in 0..4 {
        let replies = all_at_once(&server, &commands);
        let first = round * HERD as i64;
        assert_eq!(numbers(&replies), (first + 1..=first + HERD as i64).collect::<Vec<_>>());
    }
}

/// One that changes nothing is answered by what those before it have made of the rows.
#[test]
fn a_script_that_reads_waits_for_what_it_has_seen() {
    let server = start();
    let mut client = server.client().unwrap();
    client.call(&["SET", "hot", "0"]).unwrap();
    let (reads, writes) = ("return tonumber(redis.call('get', KEYS[1]))", "return redis.call('incr', KEYS[1])");
    let commands: Vec<Vec<&str>> =
        (0..HERD).map(|number| vec!["EVAL", if number % 2 == 0 { reads } else { writes }, "1", "hot"]).collect();

    let replies = all_at_once(&server, &commands);

    let (mut read, mut written) = (Vec::new(), Vec::new());
    replies.into_iter().enumerate().for_each(|(number, reply)| match number % 2 {
        0 => read.push(reply),
        _ => written.push(reply),
    });
    assert_eq!(numbers(&written), (1..=HERD as i64 / 2).collect::<Vec<_>>());
    assert!(numbers(&read).iter().all(|number| (0..=HERD as i64 / 2).contains(number)));
    assert_eq!(client.call(&["GET", "hot"]).unwrap(), Reply::bulk("25"));
}

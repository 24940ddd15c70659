//! A real process that is killed while real clients write: what was answered is there after the next start. Says nothing
//! about power cuts, after which unsynced pages are lost too; those are the simulator's and the store's.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use shardine_testkit::{Client, Options, PATIENCE, Port, Reply, Shardine, Sql, wait_for};

const WRITERS: usize = 4;
const ROUNDS: usize = 4;
/// Commands that a writer sends before it reads the first reply. All of them may be in flight when the process dies.
const DEPTH: usize = 24;
/// Rows that a writer writes over and over, of each kind.
const SLOTS: usize = 16;
/// Answers after which the process is killed: early enough for the log's first segment, late enough for several.
const KILL_AFTER: std::ops::Range<u64> = 50..6_000;

/// What one row may hold: at least what was answered, at most what was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    answered: i64,
    sent: i64,
}

/// How a row grows by one.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// `HSET` of the next number.
    Set,
    /// `INCR` or `HINCRBY`, whose reply is the new number.
    Count,
}

/// A row of one writer. Invariant: its numbers are sent in order, on one connection at a time.
#[derive(Debug)]
struct Row {
    key: String,
    growth: Growth,
    field: &'static str,
    bounds: Bounds,
}

impl Row {
    fn new(key: String, growth: Growth, field: &'static str) -> Row {
        Row { key, growth, field, bounds: Bounds::default() }
    }

    fn send(&mut self, client: &mut Client) -> anyhow::Result<()> {
        self.bounds.sent += 1;
        let number = self.bounds.sent.to_string();
        match self.growth {
            Growth::Set => client.send(&["HSET", &self.key, self.field, &number]),
            Growth::Count if self.field == "value" => client.send(&["INCR", &self.key]),
            Growth::Count => client.send(&["HINCRBY", &self.key, self.field, "1"]),
        }
    }

    fn answered(&mut self, reply: &Reply) {
        self.bounds.answered += 1;
        match (self.growth, reply) {
            (Growth::Set, Reply::Int(0 | 1)) => {}
            (Growth::Count, Reply::Int(number)) => assert_eq!(*number, self.bounds.answered, "{self:?}"),
            _ => panic!("{self:?} was answered {reply:?}"),
        }
    }

    /// Checks what the row holds after a crash, and takes it as the truth from here on.
    fn settle(&mut self, client: &mut Client) {
        // A counter of `kv` is a string.
        let reply = match self.field {
            "value" => client.call(&["GET", &self.key]),
            field => client.call(&["HGET", &self.key, field]),
        };
        let held = match reply.unwrap() {
            Reply::Nil => 0,
            reply => reply.text().unwrap().parse().unwrap(),
        };
        let Bounds { answered, sent } = self.bounds;
        assert!(held >= answered, "{}: {answered} were answered, {held} are there", self.key);
        assert!(held <= sent, "{}: {sent} were sent, {held} are there", self.key);
        self.bounds = Bounds { answered: held, sent: held };
    }
}

/// One client that writes until its connection breaks.
struct Writer {
    rows: Vec<Row>,
}

impl Writer {
    fn new(name: usize) -> Writer {
        let mut rows = Vec::new();
        for slot in 0..SLOTS {
            rows.push(Row::new(format!("set-{name}-{slot}"), Growth::Set, "number"));
            rows.push(Row::new(format!("count-{name}-{slot}"), Growth::Count, "value"));
            rows.push(Row::new(format!("users:set-{name}-{slot}"), Growth::Set, "age"));
            rows.push(Row::new(format!("users:count-{name}-{slot}"), Growth::Count, "age"));
        }
        Writer { rows }
    }

    /// Writes windows of commands. Ends with the error of the connection; an error reply is a failure of the test.
    fn write(&mut self, address: SocketAddr, answers: &AtomicU64) -> anyhow::Result<()> {
        let mut client = Client::connect(address)?;
        let mut next = 0;
        loop {
            // Seven and the number of rows share no factor: every row has its turn, in windows that begin everywhere.
            let window: [usize; DEPTH] = std::array::from_fn(|at| (next + at) * 7 % self.rows.len());
            next += DEPTH;
            for row in window {
                self.rows[row].send(&mut client)?;
            }
            for row in window {
                let reply = client.receive()?;
                self.rows[row].answered(&reply);
                answers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn options(args: &[&str]) -> Options {
    Options {
        sql: Sql::Sqlite,
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        binary: Some(env!("CARGO_BIN_EXE_shardine").into()),
        ..Options::default()
    }
}

fn start(args: &[&str]) -> Shardine {
    let server = Shardine::start_with(options(args)).unwrap();
    let create = ["table", "create", "users", "--field", "name:string=anonymous", "--field", "age:int64"];
    let output = server.command(&create).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server
}

/// Lets all writers write and kills the server once they have had `kill_after` answers together.
fn kill_under_load(server: &mut Shardine, writers: &mut [Writer], kill_after: u64) {
    let address = server.redis().address();
    let answers = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(|| writer.write(address, &answers).expect_err("writers end with the server")))
            .collect();
        // A writer that ends before the kill has met an error, which its own panic tells.
        let enough = wait_for("the writers", PATIENCE, || {
            let had = answers.load(Ordering::Relaxed) >= kill_after;
            Ok((had || threads.iter().any(|thread| thread.is_finished())).then_some(()))
        });
        server.kill9().unwrap();
        enough.unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(answers.into_inner() >= kill_after, "the server closed a connection before it was killed");
}

fn every_answered_write_survives(args: &[&str]) {
    let mut server = start(args);
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    for round in 0..ROUNDS {
        let kill_after = rand::random_range(KILL_AFTER);
        eprintln!("round {round}: kill -9 after {kill_after} answers");

        kill_under_load(&mut server, &mut writers, kill_after);
        server.restart().unwrap();

        let mut client = server.client().unwrap();
        for row in writers.iter_mut().flat_map(|writer| &mut writer.rows) {
            row.settle(&mut client);
        }
    }
}

#[test]
fn every_answered_write_survives_kill_9() {
    every_answered_write_survives(&["--lanes", "1"]);
}

#[test]
fn every_answered_write_survives_kill_9_with_two_lanes() {
    every_answered_write_survives(&["--lanes", "2"]);
}

#[test]
fn every_answered_write_survives_kill_9_between_snapshots() {
    // So small that snapshots are cut, and the log behind them is dropped, all the time.
    every_answered_write_survives(&["--lanes", "2", "--snapshot-log-bytes", "20000"]);
}

#[test]
fn a_clean_stop_keeps_everything() {
    let mut server = start(&[]);
    let mut client = server.client().unwrap();
    for number in 0..300 {
        let (key, number) = (format!("users:{number}"), number.to_string());
        client.call(&["HSET", &key, "age", &number]).unwrap();
    }
    assert_eq!(client.call(&["SET", "greeting", "hello"]).unwrap(), Reply::ok());

    server.stop().unwrap();
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    assert_eq!(client.call(&["GET", "greeting"]).unwrap(), Reply::bulk("hello"));
    for number in 0..300 {
        let held = client.call(&["HGET", &format!("users:{number}"), "age"]).unwrap();
        assert_eq!(held, Reply::bulk(number.to_string()));
    }
}

#[test]
fn a_clean_stop_under_load_loses_no_answer() {
    let mut server = start(&["--lanes", "2"]);
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let address = server.redis().address();
    let answers = AtomicU64::new(0);

    thread::scope(|scope| {
        for writer in &mut writers {
            scope.spawn(|| writer.write(address, &answers).expect_err("writers end with the server"));
        }
        let enough = || Ok((answers.load(Ordering::Relaxed) >= 1_000).then_some(()));
        wait_for("the writers", PATIENCE, enough).unwrap();
        server.stop().unwrap();
    });
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    for row in writers.iter_mut().flat_map(|writer| &mut writer.rows) {
        row.settle(&mut client);
    }
}

#[test]
fn a_snapshot_and_the_log_behind_it_give_the_state_back() {
    let mut server = start(&["--shards", "1", "--snapshot-log-bytes", "20000"]);
    let mut client = server.client().unwrap();
    let snapshots = server.data().join("snapshots");
    let mut rounds = 0;

    // Two snapshots: the second one is cut from a shard that already has one, and replaces it.
    let first =
        wait_for("a snapshot", PATIENCE, || Ok(newest_snapshot(&snapshots).or_else(|| grow(&mut client, &mut rounds))));
    let first = first.unwrap();
    let newer =
        || Ok(newest_snapshot(&snapshots).filter(|name| *name != first).or_else(|| grow(&mut client, &mut rounds)));
    wait_for("a second snapshot", PATIENCE, newer).unwrap();
    client.call(&["SET", "after", "the snapshot"]).unwrap();
    server.kill9().unwrap();
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    assert_eq!(client.call(&["GET", "after"]).unwrap(), Reply::bulk("the snapshot"));
    for slot in 0..SLOTS {
        let (plain, typed) = (format!("plain-{slot}"), format!("users:{slot}"));
        assert_eq!(client.call(&["GET", &plain]).unwrap(), Reply::bulk(rounds.to_string()));
        assert_eq!(client.call(&["HGET", &typed, "age"]).unwrap(), Reply::bulk(rounds.to_string()));
        assert_eq!(client.call(&["EXISTS", &format!("gone-{slot}")]).unwrap(), Reply::Int(0));
    }
    assert!(newest_snapshot(&snapshots).is_some(), "a start must not drop the snapshot it began from");
}

#[test]
fn a_log_of_several_segments_is_read_to_its_end() {
    const MIB: usize = 1 << 20;
    let mut server = start(&["--shards", "2", "--snapshot-log-bytes", "1000000000"]);
    let mut client = server.client().unwrap();
    let value = |number: usize| vec![b'a' + (number % 26) as u8; MIB + number];
    // A segment has 32 MiB.
    for number in 0..70 {
        let reply = client.call(&[b"SET".as_slice(), number.to_string().as_bytes(), &value(number)]).unwrap();
        assert_eq!(reply, Reply::ok());
    }
    let segments = fs::read_dir(server.data().join("log")).unwrap();
    let names = segments.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.filter(|name| name.ends_with(".seg")).count() > 2);

    server.kill9().unwrap();
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    for number in 0..70 {
        let held = client.call(&["GET", &number.to_string()]).unwrap();
        assert!(held == Reply::bulk(value(number)), "value {number} is not what was answered");
    }
}

/// One more round of changes, among them records that come and go. Gives nothing, so that a wait goes on.
fn grow(client: &mut Client, rounds: &mut i64) -> Option<String> {
    for slot in 0..SLOTS {
        client.call(&["INCR", &format!("plain-{slot}")]).unwrap();
        client.call(&["HINCRBY", &format!("users:{slot}"), "age", "1"]).unwrap();
        client.call(&["SET", &format!("gone-{slot}"), "soon"]).unwrap();
        client.call(&["DEL", &format!("gone-{slot}")]).unwrap();
    }
    *rounds += 1;
    None
}

/// The name of the snapshot with the highest index, of the only shard.
fn newest_snapshot(snapshots: &Path) -> Option<String> {
    let shards = fs::read_dir(snapshots).ok()?;
    let files = shards.filter_map(|shard| fs::read_dir(shard.ok()?.path()).ok()).flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".snap")).max()
}

#[test]
fn a_directory_in_use_is_refused_and_left_alone() {
    let server = start(&[]);
    let mut client = server.client().unwrap();
    client.call(&["SET", "greeting", "hello"]).unwrap();
    let ports = [Port::free().unwrap(), Port::free().unwrap(), Port::free().unwrap()];
    let mut second = Command::new(server.binary());
    second.arg("up").arg("--data").arg(server.data());
    for (flag, port) in ["--redis", "--grpc", "--http"].into_iter().zip(&ports) {
        second.arg(flag).arg(port.address().to_string());
    }

    let output = second.output().unwrap();

    let told = String::from_utf8_lossy(&output.stderr);
    let complaint = format!("error[busy]: data directory {} is in use by another process", server.data().display());
    assert!(!output.status.success(), "two processes on one directory");
    assert!(told.contains(&complaint), "{told}");
    assert!(told.contains("stop that process, or --data DIR"), "{told}");
    assert_eq!(client.call(&["GET", "greeting"]).unwrap(), Reply::bulk("hello"));
}

//! Shards are parted under load, on nodes that are real processes, which die at bad moments.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use serde_json::Value as Json;
use shardine_testkit::{Client, Cluster, PATIENCE, Reply, wait_for};

const KEYS: u64 = 200;
/// For those who count shards: none is split because a machine is slow or quick.
const BY_HAND: [&str; 6] = ["--split-requests", "0", "--split-cpu", "0", "--split-written", "0"];

fn run(cluster: &Cluster, place: usize, args: &[&str]) -> Result<Json, Json> {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    let read = |bytes: &[u8]| {
        serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(bytes)))
    };
    if output.status.success() { Ok(read(&output.stdout)) } else { Err(read(&output.stderr)) }
}

fn json(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    run(cluster, place, args).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", cluster.tails()))
}

/// Splits a shard; says what was parted off.
fn split(cluster: &Cluster, place: usize, shard: u64, more: &[&str]) -> u64 {
    let shard = shard.to_string();
    let args = [&["shard", "split", &shard][..], more].concat();
    json(cluster, place, &args)["child"].as_u64().unwrap()
}

/// Numbers of the shards in the order of their positions, as a node has them.
fn shards(cluster: &Cluster, place: usize) -> Vec<u64> {
    let shards = json(cluster, place, &["shards"]);
    shards["shards"].as_array().unwrap().iter().map(|shard| shard["id"].as_u64().unwrap()).collect()
}

/// How a key is counted up, and read: both replies are certain.
type Words = fn(&str) -> [Vec<String>; 2];

fn commands(key: &str) -> [Vec<String>; 2] {
    [owned(&["INCR", key]), owned(&["GET", key])]
}

fn scripts(key: &str) -> [Vec<String>; 2] {
    let run = |text| owned(&["EVAL", text, "1", key]);
    [run("return redis.call('INCR', KEYS[1])"), run("return redis.call('GET', KEYS[1])")]
}

fn fields(key: &str) -> [Vec<String>; 2] {
    let key = format!("users:{}", key.replace(':', "-"));
    [owned(&["HINCRBY", &key, "age", "1"]), owned(&["HGET", &key, "age"])]
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A client that counts keys up, in pipelines that go to all shards: so a write that was lost, made twice or overtaken shows.
struct Writer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(BTreeMap<String, i64>, Vec<String>)>,
}

impl Writer {
    fn begin(cluster: &Cluster, place: usize, name: &'static str) -> Self {
        Self::with(cluster, place, name, commands)
    }

    fn with(cluster: &Cluster, place: usize, name: &'static str, words: Words) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (client, over) = (cluster.client(place).unwrap(), Arc::clone(&is_over));
        Self { is_over, thread: std::thread::spawn(move || count_up(&over, client, name, words)) }
    }

    /// How often each key was written, and what was not as it should be.
    fn end(self) -> (BTreeMap<String, i64>, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn count_up(
    is_over: &AtomicBool,
    mut client: Client,
    name: &str,
    words: Words,
) -> (BTreeMap<String, i64>, Vec<String>) {
    let (mut counts, mut wrong): (BTreeMap<String, i64>, Vec<String>) = Default::default();
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) || wrong.len() > 10 {
            break;
        }
        let keys: Vec<String> = (0..8).map(|place_in| format!("{name}:{}", (turn * 8 + place_in) % KEYS)).collect();
        let commands: Vec<Vec<String>> = keys.iter().flat_map(|key| words(key)).collect();
        let commands: Vec<Vec<&str>> =
            commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        let replies = client.pipeline(&commands).unwrap();
        for (key, pair) in keys.into_iter().zip(replies.chunks(2)) {
            let count = counts.entry(key.clone()).or_default();
            *count += 1;
            let expected = [Reply::Int(*count), Reply::Bulk(count.to_string().into_bytes())];
            if pair != expected {
                wrong.push(format!("{key} after {count}: {pair:?}"));
            }
        }
    }
    (counts, wrong)
}

/// Every key has its count, a scan finds each once, and so does a count of all.
fn check(cluster: &Cluster, place: usize, written: &[BTreeMap<String, i64>]) {
    let mut client = cluster.client(place).unwrap();
    let mut keys = 0;
    for (key, count) in written.iter().flatten() {
        let found = client.call(&["GET", key]).unwrap();
        assert_eq!(found, Reply::Bulk(count.to_string().into_bytes()), "{key} at {place}\n{}", cluster.tails());
        keys += 1;
    }
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(keys), "at {place}");
    assert_eq!(scan(&mut client).len() as i64, keys, "at {place}");
}

fn scan(client: &mut Client) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Reply::Array(page) = client.call(&["SCAN", &cursor, "COUNT", "50"]).unwrap() else { panic!("no page") };
        let [Reply::Bulk(next), Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
        for key in keys {
            let Reply::Bulk(key) = key else { panic!("{key:?}") };
            found.push(String::from_utf8(key.clone()).unwrap());
        }
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            let mut once = found.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), found.len(), "a key came twice");
            return found;
        }
    }
}

/// What writers were told, if nothing was wrong.
fn told(cluster: &Cluster, writers: impl IntoIterator<Item = Writer>) -> Vec<BTreeMap<String, i64>> {
    let end = |writer: Writer| {
        let (counts, wrong) = writer.end();
        assert_eq!(wrong, Vec::<String>::new(), "{}", cluster.tails());
        counts
    };
    writers.into_iter().map(end).collect()
}

fn await_keys(cluster: &Cluster, least: i64) {
    let mut client = cluster.client(0).unwrap();
    let has_some = || Ok(matches!(client.call(&["DBSIZE"])?, Reply::Int(count) if count >= least).then_some(()));
    wait_for("some keys", PATIENCE, has_some).with_context(|| cluster.tails()).unwrap();
}

/// sharding B-23, B-26, B-50, P-1: on one node, with pipelines on their way: nobody is refused, overtaken or forgotten, and a process
/// that dies then has both halves when it comes back.
#[test]
fn sharding_b_23_26_50_p_1_a_shard_is_split_under_load_and_outlives_the_process() {
    let mut cluster = Cluster::form(1, &["--shards", "1"], &BY_HAND).unwrap();
    let writers = [Writer::begin(&cluster, 0, "a"), Writer::begin(&cluster, 0, "b")];
    await_keys(&cluster, 300);

    let child = split(&cluster, 0, 1, &[]);
    split(&cluster, 0, child, &[]);
    split(&cluster, 0, 1, &["--at", "kv:a:7"]);

    assert_eq!(shards(&cluster, 0).len(), 4);
    let written = told(&cluster, writers);
    check(&cluster, 0, &written);
    let error = run(&cluster, 0, &["shard", "split", "1", "--at", "kv:a:7"]).unwrap_err();
    assert_eq!(error["error"]["code"], "bad_request", "at its edge: {error}");
    for _ in 0..2 {
        cluster.kill9(0).unwrap();
        cluster.start(0).unwrap();
        cluster.wait_until_serving().unwrap();
        assert_eq!(shards(&cluster, 0).len(), 4);
        check(&cluster, 0, &written);
    }
    // Both halves go on taking writes, and are emptied as one.
    let writer = Writer::begin(&cluster, 0, "c");
    await_keys(&cluster, 500);
    told(&cluster, [writer]);
    let mut client = cluster.client(0).unwrap();
    client.call(&["FLUSHDB"]).unwrap();
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(0));
}

/// sharding P-2, reliability F28: on three nodes, each with writers of its own: all follow, and the halves outlive a node.
#[test]
fn sharding_p_2_three_nodes_split_under_load_and_lose_one() {
    let mut cluster = Cluster::form(3, &["--shards", "2"], &BY_HAND).unwrap();
    let writers = [(0, "a"), (1, "b"), (2, "c")].map(|(place, name)| Writer::begin(&cluster, place, name));
    await_keys(&cluster, 500);

    let third = split(&cluster, 1, 1, &[]);
    let fourth = split(&cluster, 2, 2, &[]);
    split(&cluster, 0, third, &[]);

    let written = told(&cluster, writers);
    for place in 0..3 {
        assert_eq!(shards(&cluster, place).len(), 5, "{fourth} at {place}");
        check(&cluster, place, &written);
    }
    cluster.kill9(1).unwrap();
    for place in [0, 2] {
        check(&cluster, place, &written);
    }
    // It was away while a shard was split, and gets the half by the log or by a snapshot.
    split(&cluster, 0, 2, &[]);
    cluster.start(1).unwrap();
    cluster.wait_until_serving().unwrap();
    check(&cluster, 1, &written);
    cluster.kill9(0).unwrap();
    check(&cluster, 1, &written);
    check(&cluster, 2, &written);
}

/// sharding B-22, B-24, B-29: shards that have become large are parted where their data has its middle, by themselves, until none is too large.
#[test]
fn sharding_b_22_24_29_large_shards_split_by_themselves() {
    let cluster = Cluster::form(1, &["--shards", "1"], &["--split-size", "64KiB"]).unwrap();
    let mut client = cluster.client(0).unwrap();
    let value = "v".repeat(500);
    for number in 0..1_000 {
        // One that grows faster than it is split takes nothing in (sharding B-25), and says that one should come again.
        wait_for("a key to be set", PATIENCE, || {
            let reply = client.call(&["SET", &format!("key:{number}"), &value])?;
            assert!(reply == Reply::ok() || format!("{reply:?}").contains("BUSY"), "{reply:?}");
            Ok((reply == Reply::ok()).then_some(()))
        })
        .unwrap();
    }

    let is_split = || {
        let shards = json(&cluster, 0, &["shards"]);
        let sizes: Vec<u64> = shards["shards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|shard| shard["bytes"].as_u64().unwrap_or(u64::MAX))
            .collect();
        Ok((sizes.len() >= 8 && sizes.iter().all(|bytes| *bytes <= 64 << 10)).then_some(()))
    };
    wait_for("no shard to be too large", PATIENCE * 3, is_split).with_context(|| cluster.tails()).unwrap();

    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(1_000));
    assert_eq!(scan(&mut client).len(), 1_000);
}

/// sharding P-2: scripts run where their partition is led, and are passed on when that has become the right half: none is refused, run
/// twice or forgotten.
#[test]
fn sharding_p_2_scripts_follow_their_partition_to_the_right_half() {
    let cluster = Cluster::form(3, &["--shards", "1"], &[]).unwrap();
    let writers = [(0, "a"), (1, "b"), (2, "c")].map(|(place, name)| Writer::with(&cluster, place, name, scripts));
    await_keys(&cluster, 200);

    let right = split(&cluster, 1, 1, &[]);
    split(&cluster, 2, right, &[]);
    split(&cluster, 0, 1, &["--at", "kv:b:7"]);

    let written = told(&cluster, writers);
    check(&cluster, 2, &written);
}

/// Everything that is written while a shard is split comes to SQL, from whichever half has it, in its last state; rows that SQL refuses are dead
/// letters of the half that has them, and can be tried again there. Scans by gRPC are whole meanwhile, and so is a comparison with SQL.
#[test]
fn sharding_r_9_rows_of_both_halves_reach_sqlite() {
    let rows = shardine_testkit::Dir::new().unwrap();
    let file = rows.join("rows.db");
    let url = format!("sqlite:{}", file.display());
    let cluster = Cluster::form(1, &["--shards", "1", "--sql", &url], &[]).unwrap();
    let sqlite = |statement: &str| {
        let mut command = std::process::Command::new("sqlite3");
        let output = command.args(["-cmd", ".timeout 10000"]).arg(&file).arg(statement).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    json(&cluster, 0, &["table", "create", "users", "--field", "age:int64"]);
    sqlite("CREATE TRIGGER strict BEFORE INSERT ON users WHEN NEW.age < 0 BEGIN SELECT RAISE(ABORT, 'too young'); END");
    let mut client = cluster.client(0).unwrap();
    for number in 0..8 {
        assert_eq!(client.call(&["HSET", &format!("users:bad{number}"), "age", "-1"]).unwrap(), Reply::Int(1));
    }
    let letters =
        || json(&cluster, 0, &["writeback", "dead-letters", "users"])["dead_letters"].as_array().unwrap().len();
    wait_for("dead letters", PATIENCE, || Ok((letters() == 8).then_some(()))).with_context(|| cluster.tails()).unwrap();
    let writer = Writer::with(&cluster, 0, "a", fields);
    wait_for("some rows", PATIENCE, || Ok((scanned(&cluster) >= 100).then_some(()))).unwrap();

    let right = split(&cluster, 0, 1, &[]);
    split(&cluster, 0, right, &[]);
    split(&cluster, 0, 1, &[]);

    let written = told(&cluster, [writer]).remove(0);
    assert_eq!(scanned(&cluster), written.len() + 8, "each row once");
    assert_eq!(letters(), 8, "they are known to the halves that have them");
    sqlite("DROP TRIGGER strict");
    json(&cluster, 0, &["writeback", "retry", "users"]);
    json(&cluster, 0, &["flush", "users"]);
    assert_eq!(letters(), 0);
    let verified = json(&cluster, 0, &["verify", "users"]);
    assert!(verified.to_string().contains("\"different\":0"), "{verified}");
    let found = sqlite("SELECT CAST(__key__ AS TEXT), age FROM users WHERE age >= 0");
    let expected: BTreeSet<String> =
        written.iter().map(|(key, count)| format!("{}|{count}", key.replace(':', "-"))).collect();
    assert_eq!(found.lines().map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}

/// Rows of the table, by as many pages as it takes.
fn scanned(cluster: &Cluster) -> usize {
    let output = cluster.command(0, &["scan", "users", "--json", "--limit", "1000"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).matches("\"table\":\"users\"").count()
}

/// A shard that is asked for too much is split where its requests have their middle, and both halves go on.
#[test]
fn a_shard_that_is_asked_for_too_much_is_split() {
    let cluster = Cluster::form(1, &["--shards", "1"], &["--split-requests", "50", "--split-cpu", "0"]).unwrap();
    let writer = Writer::begin(&cluster, 0, "a");

    let parted = || Ok((shards(&cluster, 0).len() > 1).then_some(()));
    wait_for("a split", PATIENCE * 3, parted).with_context(|| cluster.tails()).unwrap();

    let written = told(&cluster, [writer]);
    check(&cluster, 0, &written);
}

/// sharding B-28: where one key alone is hot a split does not help: the shard says so, and says it no longer when it is not asked for any
/// more.
#[test]
fn sharding_b_28_a_hot_key_is_shown_as_long_as_it_is_hot() {
    let cluster = Cluster::form(1, &["--shards", "1"], &["--split-requests", "50", "--split-cpu", "0"]).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut client, over) = (cluster.client(0).unwrap(), Arc::clone(&is_over));
    let hot = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            client.pipeline(&[&["INCR", "hot"][..]; 20]).unwrap();
        }
    });
    let marks = || -> Vec<String> {
        let shards = json(&cluster, 0, &["shards"])["shards"].as_array().unwrap().clone();
        shards.iter().filter_map(|shard| shard["unsplit"].as_str().map(str::to_owned)).collect()
    };

    let marked = wait_for("a mark", PATIENCE * 3, || Ok(marks().pop())).with_context(|| cluster.tails()).unwrap();
    assert_eq!(marked, "one partition has most of its requests");
    assert_eq!(shards(&cluster, 0).len(), 1);
    is_over.store(true, Ordering::Relaxed);
    hot.join().unwrap();
    wait_for("the mark to go", PATIENCE, || Ok(marks().is_empty().then_some(()))).unwrap();
}

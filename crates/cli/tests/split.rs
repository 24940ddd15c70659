//! Shards are parted under load, on nodes that are real processes, which die at bad moments.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use serde_json::Value as Json;
use shardine_testkit::{Client, Cluster, PATIENCE, Reply, wait_for};

const KEYS: u64 = 200;

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

/// A client that counts keys up, in pipelines that go to all shards: so a write that was lost, made twice or overtaken shows.
struct Writer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(BTreeMap<String, i64>, Vec<String>)>,
}

impl Writer {
    fn begin(cluster: &Cluster, place: usize, name: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (client, over) = (cluster.client(place).unwrap(), Arc::clone(&is_over));
        Self { is_over, thread: std::thread::spawn(move || count_up(&over, client, name)) }
    }

    /// How often each key was written, and what was not as it should be.
    fn end(self) -> (BTreeMap<String, i64>, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn count_up(is_over: &AtomicBool, mut client: Client, name: &str) -> (BTreeMap<String, i64>, Vec<String>) {
    let (mut counts, mut wrong): (BTreeMap<String, i64>, Vec<String>) = Default::default();
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) || wrong.len() > 10 {
            break;
        }
        let keys: Vec<String> = (0..8).map(|place_in| format!("{name}:{}", (turn * 8 + place_in) % KEYS)).collect();
        let commands: Vec<Vec<&str>> =
            keys.iter().flat_map(|key| [vec!["INCR", key.as_str()], vec!["GET", key.as_str()]]).collect();
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
    let mut cluster = Cluster::form(1, &["--shards", "1"], &[]).unwrap();
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
    let mut cluster = Cluster::form(3, &["--shards", "2"], &[]).unwrap();
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
        client.call(&["SET", &format!("key:{number}"), &value]).unwrap();
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

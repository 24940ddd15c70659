//! What tests of a cluster's members have in common: commands as they are typed, and clients that count keys up, so that a write which was
//! lost, or made twice, shows.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use serde_json::Value as Json;
use shardine_testkit::{Client, Cluster, PATIENCE, Reply, wait_for};

pub fn run(cluster: &Cluster, place: usize, args: &[&str]) -> Result<Json, Json> {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    let read = |bytes: &[u8]| {
        serde_json::from_slice(bytes).unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(bytes)))
    };
    if output.status.success() { Ok(read(&output.stdout)) } else { Err(read(&output.stderr)) }
}

pub fn json(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    run(cluster, place, args).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", cluster.tails()))
}

/// What is said of an order that is refused.
pub fn refusal(cluster: &Cluster, place: usize, args: &[&str]) -> String {
    let error = run(cluster, place, args).unwrap_err();
    format!("{}: {}", error["error"]["code"].as_str().unwrap(), error["error"]["message"].as_str().unwrap())
}

pub fn node(cluster: &Cluster, asked: usize, name: &str) -> Json {
    let nodes = json(cluster, asked, &["node", "list"]);
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).cloned().unwrap_or(Json::Null)
}

pub fn await_that(cluster: &Cluster, event: &str, holds: impl Fn() -> bool) {
    wait_for(event, PATIENCE, || Ok(holds().then_some(()))).with_context(|| cluster.tails()).unwrap();
}

/// Clients that write all the time, each its own keys at its own node.
pub struct Writers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Written>>,
}

/// What one of them was told: how often each key was written, and whatever was not an acknowledgement.
#[derive(Default)]
pub struct Written {
    pub counts: BTreeMap<String, i64>,
    pub refusals: BTreeMap<String, Vec<Reply>>,
}

impl Writers {
    pub fn begin(cluster: &Cluster, places: &[usize]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let write = |place: usize| {
            let (client, is_over) = (cluster.client(place).unwrap(), Arc::clone(&is_over));
            std::thread::spawn(move || write_until(&is_over, client, place))
        };
        let threads = places.iter().copied().map(write).collect();
        Self { is_over, threads }
    }

    pub fn end(self) -> Vec<Written> {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// Counts keys up, so that a write that was lost, or made twice, shows.
fn write_until(is_over: &AtomicBool, mut client: Client, place: usize) -> Written {
    let mut written = Written::default();
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("from{place}:{}", turn % 97);
        match client.call(&["INCR", &key]).unwrap() {
            Reply::Int(_) => *written.counts.entry(key).or_default() += 1,
            other => written.refusals.entry(key).or_default().push(other),
        }
    }
    written
}

/// Nothing that was acknowledged is missing, and nothing was made twice.
pub fn check(cluster: &Cluster, place: usize, written: &[Written]) {
    let mut client = cluster.client(place).unwrap();
    for written in written {
        for (key, count) in &written.counts {
            let doubts = written.refusals.get(key).map_or(0, Vec::len) as i64;
            let Reply::Bulk(found) = client.call(&["GET", key]).unwrap() else { panic!("{key} is lost at {place}") };
            let found: i64 = String::from_utf8(found).unwrap().parse().unwrap();
            assert!((*count..=count + doubts).contains(&found), "{key} at {place}: {found}, told {count} and {doubts}");
        }
    }
}

//! Three real processes that are one cluster: any of them answers any key, and the loss of one loses nothing.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use shardine_testkit::sql_server::{Kind, Shared};
use shardine_testkit::{Client, Cluster, Dir, PATIENCE, Reply, find_binary, wait_for};

/// reliability I24.
#[test]
fn any_node_answers_any_key() {
    let cluster = Cluster::form(3, &[], &[]).unwrap();

    for place in 0..3 {
        let mut client = cluster.client(place).unwrap();
        for key in 0..30 {
            let reply = client.call(&["HSET", &format!("k{place}-{key}"), "f", &key.to_string()]).unwrap();
            assert_eq!(reply, Reply::Int(1));
        }
    }
    for place in 0..3 {
        let mut client = cluster.client(place).unwrap();
        for from in 0..3 {
            for key in 0..30 {
                let reply = client.call(&["HGET", &format!("k{from}-{key}"), "f"]).unwrap();
                assert_eq!(reply, Reply::bulk(key.to_string()), "k{from}-{key} asked of node {place}");
            }
        }
        assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(90));
    }
}

/// A client that writes to one node and is not told about any other: each number once, in order.
struct Writer {
    answered: Arc<Mutex<Vec<(String, u64)>>>,
    failures: Arc<AtomicU64>,
    longest_gap: Arc<Mutex<Duration>>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Writer {
    fn start(address: SocketAddr, name: &str) -> Writer {
        let (answered, failures, stop) = (Arc::default(), Arc::default(), Arc::default());
        let longest_gap = Arc::default();
        let (keeps, counts, ends, gap) =
            (Arc::clone(&answered), Arc::clone(&failures), Arc::clone(&stop), Arc::clone(&longest_gap));
        let name = name.to_owned();
        let thread = thread::spawn(move || write(address, &name, &keeps, &counts, &ends, &gap));
        Writer { answered, failures, longest_gap, stop, thread }
    }

    fn count(&self) -> usize {
        self.answered.lock().unwrap().len()
    }

    /// Waits for so many further answers.
    fn await_more(&self, more: usize) {
        let wanted = self.count() + more;
        wait_for("further answers", PATIENCE, || Ok((self.count() >= wanted).then_some(()))).unwrap();
    }

    fn finish(self) -> (Vec<(String, u64)>, u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let answered = self.answered.lock().unwrap().clone();
        let gap = *self.longest_gap.lock().unwrap();
        (answered, self.failures.load(Ordering::Relaxed), gap)
    }
}

/// Keys of a writer: several, so that several shards are written to.
const KEYS: u64 = 16;

fn write(
    address: SocketAddr,
    name: &str,
    answered: &Mutex<Vec<(String, u64)>>,
    failures: &AtomicU64,
    stop: &AtomicBool,
    longest_gap: &Mutex<Duration>,
) {
    let mut client = Client::connect(address).unwrap();
    let mut last = Instant::now();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{name}-{}", number % KEYS);
        match client.call(&["SET", &key, &number.to_string()]) {
            Ok(reply) if reply == Reply::ok() => {
                let mut gap = longest_gap.lock().unwrap();
                *gap = gap.max(last.elapsed());
                last = Instant::now();
                answered.lock().unwrap().push((key, number));
            }
            Ok(_) => drop(failures.fetch_add(1, Ordering::Relaxed)),
            Err(_) => {
                failures.fetch_add(1, Ordering::Relaxed);
                let Ok(again) = Client::connect(address) else {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                };
                client = again;
            }
        }
    }
}

/// The newest answered number of each key is there, or a newer one of which the answer was lost.
fn check(cluster: &Cluster, place: usize, answered: &[(String, u64)]) {
    let mut client = cluster.client(place).unwrap();
    let newest: std::collections::BTreeMap<&String, u64> =
        answered.iter().map(|(key, number)| (key, *number)).collect();
    for (key, number) in newest {
        let reply = client.call(&["GET", key]).unwrap();
        let found = reply.text().and_then(|text| text.parse::<u64>().ok());
        assert!(found.is_some_and(|found| found >= number), "{key} was answered {number} and is {reply:?}");
    }
}

/// reliability F1: a node dies without a word, three times, each time another one; what was answered stays.
#[test]
fn reliability_f1_killed_nodes_lose_nothing() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    for victim in 0..3 {
        let survivor = (victim + 1) % 3;
        let writer = Writer::start(cluster.redis(survivor), &format!("round{victim}"));
        writer.await_more(200);

        cluster.kill9(victim).unwrap();
        writer.await_more(200);
        let (answered, ..) = writer.finish();
        for place in [survivor, (victim + 2) % 3] {
            check(&cluster, place, &answered);
        }

        cluster.start(victim).unwrap();
        cluster.wait_until_serving().unwrap();
        check(&cluster, victim, &answered);
    }
}

/// A node that is told to stop hands over what it leads: clients of the others notice nothing.
#[test]
fn a_stopping_node_hands_over() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    for victim in 0..3 {
        let survivor = (victim + 1) % 3;
        let writer = Writer::start(cluster.redis(survivor), &format!("round{victim}"));
        writer.await_more(200);

        cluster.stop(victim).unwrap();
        writer.await_more(200);
        let (answered, failures, _) = writer.finish();
        assert_eq!(failures, 0, "{}", cluster.output());
        check(&cluster, survivor, &answered);

        cluster.start(victim).unwrap();
        cluster.wait_until_serving().unwrap();
    }
}

/// A node that is paused is left, and comes back by itself.
#[test]
fn a_paused_node_is_left_and_comes_back() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let writer = Writer::start(cluster.redis(0), "writer");
    writer.await_more(200);

    cluster.process(1).unwrap().pause().unwrap();
    writer.await_more(200);
    cluster.process(1).unwrap().resume().unwrap();
    writer.await_more(200);
    let (answered, ..) = writer.finish();

    cluster.wait_until_serving().unwrap();
    for place in 0..3 {
        check(&cluster, place, &answered);
    }
}

/// A table made at any node is known at all of them, and its rows reach the one SQL database.
#[test]
fn tables_and_sql_belong_to_the_cluster() {
    let rows = shardine_testkit::Dir::new().unwrap();
    let file = rows.join("rows.db");
    let url = format!("sqlite:{}", file.display());
    let cluster = Cluster::form(3, &["--sql", &url], &[]).unwrap();

    let table = ["table", "create", "users", "--field", "name:string", "--field", "age:int64"];
    let made = cluster.command(1, &table).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    for place in 0..3 {
        let mut client = cluster.client(place).unwrap();
        for key in 0..10 {
            let reply = client.call(&["HSET", &format!("users:u{place}-{key}"), "age", "7"]).unwrap();
            assert_eq!(reply, Reply::Int(1), "users:u{place}-{key}");
        }
    }
    let flushed = cluster.command(2, &["flush", "users"]).output().unwrap();
    assert!(flushed.status.success(), "{}", String::from_utf8_lossy(&flushed.stderr));
    let scanned = cluster.command(0, &["scan", "users", "--json", "--limit", "100"]).output().unwrap();
    let text = String::from_utf8_lossy(&scanned.stdout);
    assert_eq!(text.matches("\"table\":\"users\"").count(), 30, "{text}");
}

/// A node that has just started lets nobody in before it knows the tables: it would take `users:1` for a key of `kv`.
#[test]
fn a_node_knows_the_tables_before_it_lets_anybody_in() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let table = ["table", "create", "users", "--field", "age:int64", "--backing", "none"];
    let made = cluster.command(1, &table).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut client = cluster.client(0).unwrap();
    assert_eq!(client.call(&["HSET", "users:1", "age", "7"]).unwrap(), Reply::Int(1));

    for victim in [2, 1, 2, 1] {
        cluster.kill9(victim).unwrap();
        cluster.start(victim).unwrap();
        let mut client = wait_for("the door", PATIENCE, || Ok(cluster.client(victim).ok())).unwrap();
        assert_eq!(client.call(&["HGET", "users:1", "age"]).unwrap(), Reply::bulk("7"));
    }
}

/// A node that was away for so long that the others no longer have what it lacks in their logs gets a snapshot, on a link of its
/// own, in pieces: the values together are larger than any message.
#[test]
fn a_node_that_missed_the_log_gets_a_snapshot() {
    let mut cluster = Cluster::form(3, &[], &["--snapshot-log-bytes", "1MiB"]).unwrap();
    cluster.kill9(2).unwrap();
    let value = "v".repeat(1 << 20);
    let mut client = cluster.client(0).unwrap();
    for key in 0..90 {
        assert_eq!(client.call(&["SET", &format!("large{key}"), &value]).unwrap(), Reply::ok());
    }
    // After their start the others have in memory what is behind their snapshots, and nothing else.
    for place in 0..2 {
        cluster.kill9(place).unwrap();
    }
    for place in 0..3 {
        cluster.start(place).unwrap();
    }
    cluster.wait_until_serving().unwrap();

    wait_for("the node to have its snapshots", PATIENCE, || {
        let sent = |place| Ok::<_, anyhow::Error>(cluster.process(place)?.output().contains("a snapshot of shard"));
        let mut sent = sent;
        Ok((sent(0)? || sent(1)?).then_some(()))
    })
    .unwrap();
    cluster.kill9(0).unwrap();
    let mut client = cluster.client(2).unwrap();
    for key in 0..90 {
        // Shards of which it has had no snapshot yet get theirs before they lead.
        let read = wait_for("the shard to lead", PATIENCE, || {
            let reply = client.call(&["GET", &format!("large{key}")])?;
            Ok((!matches!(reply, Reply::Error(_))).then_some(reply))
        });
        assert_eq!(read.unwrap(), Reply::bulk(&value), "large{key}");
    }
}

/// A lock is taken at any node and outlives the loss of any: its holder's command goes on, and nobody else gets in meanwhile.
#[test]
fn a_lock_outlives_the_node_that_led_it() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let made = cluster.command(0, &["coord", "node", "create", "/local/locks"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = cluster.dir().join("held");
    let script = format!("touch {0}; while [ -e {0} ]; do sleep 0.1; done", file.display());
    // Held by way of the first node, whoever leads; each of the others is lost for a while.
    let acquire =
        ["coord", "sem", "acquire", "job", "--ephemeral", "--node", "/local/locks", "--", "sh", "-c", &script];
    let mut holder = cluster.command(0, &acquire).spawn().unwrap();
    wait_for("the lock to be held", PATIENCE, || Ok(file.exists().then_some(()))).unwrap();

    for victim in [1, 2] {
        cluster.kill9(victim).unwrap();
        let owners = |cluster: &Cluster| {
            let describe = ["coord", "sem", "describe", "job", "--node", "/local/locks", "--json"];
            let output = cluster.command(0, &describe).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok((output.status.success() && text.contains("\"order_id\":1")).then_some(text))
        };
        wait_for("the lock to be seen again", PATIENCE, || owners(&cluster)).unwrap();
        assert_eq!(holder.try_wait().unwrap(), None, "the command was ended after node {victim} was lost");
        cluster.start(victim).unwrap();
        cluster.wait_until_serving().unwrap();
    }

    std::fs::remove_file(&file).unwrap();
    assert!(holder.wait().unwrap().success());
}

/// All nodes lose their power at once and start in any order.
#[test]
fn a_cluster_starts_again_in_any_order() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let mut client = cluster.client(0).unwrap();
    for key in 0..50 {
        assert_eq!(client.call(&["SET", &format!("k{key}"), "v"]).unwrap(), Reply::ok());
    }
    for place in 0..3 {
        cluster.kill9(place).unwrap();
    }

    for place in [2, 0, 1] {
        cluster.start(place).unwrap();
    }
    cluster.wait_until_serving().unwrap();

    let mut client = cluster.client(1).unwrap();
    for key in 0..50 {
        assert_eq!(client.call(&["GET", &format!("k{key}")]).unwrap(), Reply::bulk("v"));
    }
}

/// What a command prints for machines.
fn json(cluster: &Cluster, place: usize, args: &[&str]) -> serde_json::Value {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sum of a number over the items of a list.
fn sum(list: &serde_json::Value, number: &str) -> u64 {
    list.as_array().unwrap().iter().map(|item| item[number].as_u64().unwrap()).sum()
}

/// Every node says the same of the cluster, whatever it leads itself.
fn look(cluster: &Cluster, place: usize, rows: u64) {
    let name = format!("n{}", place + 1);
    // Nodes are ready before every coordination group has its first leader.
    let status = wait_for("a healthy cluster", PATIENCE, || {
        let status = json(cluster, place, &["status"]);
        Ok((status["health"] == "HEALTHY").then_some(status))
    })
    .unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| node["name"].as_str().unwrap()).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    for node in nodes {
        assert_eq!(node["state"], if node["name"] == *name { "here" } else { "up" }, "{node:#}");
        assert!(node["protocol"].as_u64().unwrap() > 0);
    }
    let shards = status["shards"].as_array().unwrap();
    let groups = shards.len() + status["coordination"].as_array().unwrap().len();
    assert_eq!(sum(&status["nodes"], "leads"), groups as u64, "{status:#}");
    assert_eq!(sum(&status["shards"], "records"), rows, "each record once");
    for shard in shards {
        assert_eq!(shard["replicas"].as_array().unwrap().len(), 3);
        assert!(shard["leader_name"].as_str().is_some_and(|name| name.starts_with('n')), "{shard:#}");
    }

    let writeback = json(cluster, place, &["writeback", "status"]);
    assert_eq!(writeback["database"]["dirty"], 0, "{writeback:#}");
    assert_eq!(writeback["unheard"], serde_json::json!([]));
    let verified = json(cluster, place, &["verify", "users"]);
    assert_eq!(sum(&verified["tables"], "equal"), rows, "{verified:#}");
    let explained = json(cluster, place, &["explain", "users:u1"]);
    assert_eq!(explained["node"], name);
    assert_eq!(explained["answered_here"], explained["answered_by"] == name, "{explained:#}");
    assert_eq!(explained["shards"][0]["replicas"].as_array().unwrap().len(), 3);
    let shown = json(cluster, place, &["node", "show", "n2"]);
    assert_eq!(shown["shards"].as_array().unwrap().len(), shards.len());
}

/// `status`, `shards`, `nodes`, `explain`, `verify` and `writeback status` speak of the cluster at every node of it, also at one that
/// leads nothing, and go on to do so when a node is lost.
#[test]
fn status_means_the_cluster() {
    let rows = shardine_testkit::Dir::new().unwrap();
    let url = format!("sqlite:{}", rows.join("rows.db").display());
    let mut cluster = Cluster::form(3, &["--sql", &url], &[]).unwrap();
    let made = cluster.command(1, &["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut client = cluster.client(0).unwrap();
    for key in 0..30 {
        assert_eq!(client.call(&["HSET", &format!("users:u{key}"), "age", "7"]).unwrap(), Reply::Int(1));
    }
    json(&cluster, 2, &["flush", "users"]);
    for place in 0..3 {
        look(&cluster, place, 30);
        let writeback = json(&cluster, place, &["writeback", "status"]);
        assert_eq!(sum(&writeback["tables"], "written_rows"), 30, "{writeback:#}");
    }

    cluster.kill9(2).unwrap();
    let status = wait_for("somebody to lead every shard", PATIENCE, || {
        let status = json(&cluster, 0, &["status"]);
        let led = status["shards"].as_array().unwrap().iter().all(|shard| shard["leader"].is_u64());
        Ok((led && status["nodes"][2]["state"] == "silent").then_some(status))
    })
    .unwrap();
    assert_eq!(status["health"], "DEGRADED");
    let troubles = status["trouble"].to_string();
    assert!(troubles.contains("node n3 has been silent") && troubles.contains("2 of 3 replicas"), "{troubles}");
    assert_eq!(status["shards"][0]["replicas"][2]["lives"], false);
    assert_eq!(sum(&status["shards"], "records"), 30);

    cluster.start(2).unwrap();
    cluster.wait_until_serving().unwrap();
    wait_for("the node to be up again", PATIENCE, || {
        Ok((json(&cluster, 0, &["status"])["health"] == "HEALTHY").then_some(()))
    })
    .unwrap();
    json(&cluster, 2, &["flush", "users"]);
    look(&cluster, 2, 30);
}

/// write-back 113: rows that SQL does not take are listed whole at every node, whichever of them lead their shards.
#[test]
fn dead_letters_of_all_nodes_are_listed_at_each() {
    const ROWS: usize = 8;
    let shared = Shared::database(Kind::Postgres).unwrap();
    let cluster = Cluster::form(3, &["--sql", &shared.database.url()], &[]).unwrap();
    let made = cluster.command(0, &["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    shared.database.sql("ALTER TABLE users ADD CONSTRAINT young CHECK (age < 100)").unwrap();
    let mut client = cluster.client(0).unwrap();
    for key in 0..ROWS {
        assert_eq!(client.call(&["HSET", &format!("users:u{key}"), "age", "200"]).unwrap(), Reply::Int(1));
    }

    for place in 0..3 {
        wait_for("all dead letters", PATIENCE, || {
            let letters = json(&cluster, place, &["writeback", "dead-letters", "users"]);
            Ok((letters["dead_letters"].as_array().unwrap().len() == ROWS).then_some(()))
        })
        .unwrap();
        let writeback = json(&cluster, place, &["writeback", "status"]);
        assert_eq!(sum(&writeback["tables"], "dead_letters"), ROWS as u64, "{writeback:#}");
        assert_eq!(writeback["database"]["dirty"], ROWS, "{writeback:#}");
    }
    shared.database.sql("ALTER TABLE users DROP CONSTRAINT young").unwrap();
    json(&cluster, 1, &["writeback", "retry", "users"]);
    let count = json(&cluster, 2, &["writeback", "dead-letters"]);
    assert_eq!(count["dead_letters"], serde_json::json!([]));
    assert_eq!(shared.database.sql("SELECT count(*) FROM users WHERE age = 200").unwrap(), format!("{ROWS}\n"));
}

/// Nodes may have different numbers of lanes: a link ends at a lane that need not have what is asked for on it.
#[test]
fn nodes_with_different_lanes_serve_each_other() {
    let mut cluster = Cluster::prepare(Dir::new().unwrap(), find_binary().unwrap(), 3, &[]).unwrap();
    for (place, lanes) in ["1", "2", "3"].into_iter().enumerate() {
        cluster.nodes[place].args = vec!["--lanes".to_owned(), lanes.to_owned()];
    }
    cluster.found(3, &["--shards", "6"]).unwrap();

    for place in 0..3 {
        let mut client = cluster.client(place).unwrap();
        for key in 0..60 {
            assert_eq!(client.call(&["SET", &format!("k{key}"), &place.to_string()]).unwrap(), Reply::ok(), "k{key}");
            assert_eq!(client.call(&["GET", &format!("k{key}")]).unwrap(), Reply::bulk(place.to_string()));
        }
        assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(60));
        let lock = ["coord", "sem", "acquire", "job", "--ephemeral", "--node", "/local/locks", "--", "true"];
        let made = cluster.command(place, &["coord", "node", "create", "/local/locks"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let output = cluster.command(place, &lock).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Requests of connections that go while they are asked, and nodes that go while they answer.
    for victim in 0..3 {
        let writer = Writer::start(cluster.redis((victim + 1) % 3), &format!("round{victim}"));
        writer.await_more(200);
        cluster.kill9(victim).unwrap();
        writer.await_more(200);
        let (answered, ..) = writer.finish();
        cluster.start(victim).unwrap();
        cluster.wait_until_serving().unwrap();
        check(&cluster, victim, &answered);
    }
}

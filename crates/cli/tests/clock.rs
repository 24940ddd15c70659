//! A real process on a machine whose clock is set to another day, and back: what has a time to live lives that long.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::PathBuf;
use std::{fs, thread};

use serde_json::Value as Json;
use shardine_testkit::{Client, Cluster, Dir, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

const DAY_MS: i64 = 86_400_000;
const KEYS: usize = 200;

/// A server that is told the time by a library in front of the system's.
struct Machine {
    server: Shardine,
    /// What the library adds to the true time. Lives as long as this value.
    setting: PathBuf,
    _dir: Dir,
}

impl Machine {
    fn start(clock: &str) -> Self {
        let dir = Dir::new().unwrap();
        let setting = dir.join("clock");
        fs::write(&setting, clock).unwrap();
        let library = library();
        let env = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", setting.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            // The clock that only counts goes on as it always does when somebody sets the other.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let options = Options {
            sql: Sql::None,
            args: vec!["--shards".into(), "4".into()],
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            binary: Some(env!("CARGO_BIN_EXE_shardine").into()),
            ..Options::default()
        };
        Self { server: Shardine::start_with(options).unwrap(), setting, _dir: dir }
    }

    fn set_clock(&self, clock: &str) {
        fs::write(&self.setting, clock).unwrap();
    }

    /// How far the machine's clock is ahead of the time that the server goes by, as `status` tells.
    fn wall_ahead_ms(&self) -> Option<i64> {
        let told = self.server.command(&["status", "--json"]).output().unwrap();
        let status: Json = serde_json::from_slice(&told.stdout).unwrap();
        status["wall_ahead_ms"].as_i64()
    }

    fn wait_for_doubt(&self, ahead_ms: i64) {
        let is_so = || Ok(self.wall_ahead_ms().filter(|told| (told - ahead_ms).abs() < 60_000));
        wait_for("status to tell of the clock", PATIENCE, is_so).unwrap();
    }
}

fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("libfaketime is installed by `cargo xtask setup`")
}

fn set_all(client: &mut Client, options: &[&str]) {
    for number in 0..KEYS {
        let (key, value) = (format!("key{number}"), number.to_string());
        let mut words = vec!["SET", &key, &value];
        words.extend(options);
        client.send(&words).unwrap();
    }
    for _ in 0..KEYS {
        assert_eq!(client.receive().unwrap(), Reply::ok());
    }
}

/// Every key is there, and ends within the hour.
fn assert_live(client: &mut Client) {
    for number in 0..KEYS {
        let key = format!("key{number}");
        assert_eq!(client.call(&["GET", &key]).unwrap(), Reply::bulk(number.to_string()), "{key}");
        let Reply::Int(left) = client.call(&["TTL", &key]).unwrap() else { panic!("{key} has no time to live") };
        assert!((3_000..=3_600).contains(&left), "{key} ends in {left} s");
    }
}

/// reliability F13.
#[test]
fn records_137_a_jump_of_the_clock_ends_nothing_before_its_time() {
    let mut machine = Machine::start("+0");
    let mut client = machine.server.client().unwrap();
    set_all(&mut client, &["EX", "3600"]);

    machine.set_clock("+1d");
    machine.wait_for_doubt(DAY_MS);
    assert_live(&mut client);
    for number in 0..KEYS {
        assert_eq!(client.call(&["SET", &format!("other{number}"), "x"]).unwrap(), Reply::ok());
    }
    machine.set_clock("+0");
    wait_for("the clock to be believed", PATIENCE, || Ok(machine.wall_ahead_ms().is_none().then_some(()))).unwrap();
    assert_live(&mut client);
    set_all(&mut client, &["EX", "3600"]);
    assert_live(&mut client);

    machine.server.kill9().unwrap();
    machine.server.restart().unwrap();
    assert_live(&mut machine.server.client().unwrap());
}

#[test]
fn records_138_time_goes_on_from_the_log_where_the_clock_is_behind_it() {
    let mut machine = Machine::start("+1d");
    set_all(&mut machine.server.client().unwrap(), &["EX", "3600"]);
    machine.server.stop().unwrap();

    machine.set_clock("+0");
    machine.server.restart().unwrap();
    let mut client = machine.server.client().unwrap();
    machine.wait_for_doubt(-DAY_MS);
    assert!(machine.server.process().output().contains("time goes on from that entry"));
    assert_live(&mut client);
    set_all(&mut client, &["EX", "3600"]);
    assert_eq!(client.call(&["SET", "soon", "x", "PX", "300"]).unwrap(), Reply::ok());
    assert_live(&mut client);
    let is_gone = || Ok((client.call(&["GET", "soon"])? == Reply::Nil).then_some(()));
    wait_for("a time to live to end", PATIENCE, is_gone).unwrap();

    machine.server.restart().unwrap();
    assert_live(&mut machine.server.client().unwrap());
}

/// The log cannot tell a wrong clock from a long rest or an old copy; whoever starts the node can, and is told in time.
#[test]
fn records_138_a_log_that_is_days_old_by_the_clock_is_told_of_at_the_start() {
    const WARNING: &str = "the newest entry of the log is days old";
    let mut machine = Machine::start("+0");
    set_all(&mut machine.server.client().unwrap(), &[]);
    machine.server.restart().unwrap();
    assert!(!machine.server.process().output().contains(WARNING));
    machine.server.stop().unwrap();

    machine.set_clock("+3d");
    machine.server.restart().unwrap();

    let output = machine.server.process().output();
    assert!(output.contains(WARNING) && output.contains("days=3"), "{output}");
    let mut client = machine.server.client().unwrap();
    assert_eq!(client.call(&["GET", "key7"]).unwrap(), Reply::bulk("7"));
}

/// Every time to live of a cluster, asked of every node that runs: neither too short nor without an end.
fn assert_live_everywhere(cluster: &Cluster, places: &[usize]) {
    for place in places {
        assert_live(&mut cluster.client(*place).unwrap());
    }
}

fn end_soon(cluster: &Cluster, place: usize) {
    let mut client = cluster.client(place).unwrap();
    for number in 0..20 {
        assert_eq!(client.call(&["SET", &format!("soon{number}"), "x", "PX", "300"]).unwrap(), Reply::ok());
    }
    for number in 0..20 {
        let is_gone = || Ok((client.call(&["GET", &format!("soon{number}")])? == Reply::Nil).then_some(()));
        wait_for("a time to live to end", PATIENCE, is_gone).unwrap();
    }
}

/// A node that starts a day ahead of the others goes by the time that a majority agrees on, also where it leads.
#[test]
fn records_137_a_node_of_a_cluster_that_is_a_day_ahead_ends_nothing_before_its_time() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    set_all(&mut cluster.client(0).unwrap(), &["EX", "3600"]);

    cluster.kill9(1).unwrap();
    let library = library().to_str().unwrap().to_owned();
    let env = [("LD_PRELOAD", library.as_str()), ("FAKETIME", "+1d"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    cluster.nodes[1].env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    cluster.start(1).unwrap();
    cluster.wait_until_serving().unwrap();
    let ahead_ms = || {
        let told = cluster.command(1, &["status", "--json"]).output()?;
        let status: Json = serde_json::from_slice(&told.stdout)?;
        Ok(status["wall_ahead_ms"].as_i64().filter(|ahead_ms| (ahead_ms - DAY_MS).abs() < 60_000))
    };
    wait_for("the others' time to be believed", PATIENCE, ahead_ms).unwrap();
    assert_live_everywhere(&cluster, &[0, 1, 2]);
    end_soon(&cluster, 1);

    // It leads now what the one that stops has led, or the third does: both are tried.
    for stopped in [0, 2] {
        cluster.stop(stopped).unwrap();
        cluster.wait_until_serving().unwrap();
        set_all(&mut cluster.client(1).unwrap(), &["EX", "3600"]);
        assert_live_everywhere(&cluster, &[1, 2 - stopped]);
        end_soon(&cluster, 1);
        cluster.start(stopped).unwrap();
        cluster.wait_until_serving().unwrap();
    }
    assert_live_everywhere(&cluster, &[0, 1, 2]);
}

/// Threads of the server share one idea of the time: no reader of another lane sees a jump.
#[test]
fn records_137_no_lane_believes_a_jump() {
    let machine = Machine::start("+0");
    let readers: Vec<_> = (0..4).map(|_| machine.server.client().unwrap()).collect();

    machine.set_clock("+1d");
    machine.wait_for_doubt(DAY_MS);

    let seconds = |mut client: Client| match client.call(&["TIME"]).unwrap() {
        Reply::Array(words) => words[0].text().unwrap().parse::<u64>().unwrap(),
        other => panic!("TIME answers {other:?}"),
    };
    let told = thread::scope(|scope| {
        let asked: Vec<_> = readers.into_iter().map(|client| scope.spawn(|| seconds(client))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
    });
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(told.iter().all(|told| told.abs_diff(now) < 600), "{told:?} at {now}");
}

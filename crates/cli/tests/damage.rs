//! A real server whose log was damaged between two runs (records 74): the shard whose entries were hit
//! refuses and says what to do, the others serve every record.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use shardine_model::{
    Position, ShardId,
    key::{Interval, partition_key},
};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

const SHARDS: u32 = 4;
const KEYS: usize = 120;

fn options() -> Options {
    Options {
        sql: Sql::Sqlite,
        args: ["--shards", "4", "--lanes", "2"].map(str::to_owned).to_vec(),
        binary: Some(env!("CARGO_BIN_EXE_shardine").into()),
        ..Options::default()
    }
}

fn text_of(server: &Shardine, words: &[&str]) -> String {
    let output = server.command(words).output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
}

fn shard_of(key: &str) -> ShardId {
    let position = Position::of_key(partition_key(key.as_bytes()));
    let intervals = Interval::cut_evenly(SHARDS);
    let place = intervals.iter().position(|interval| interval.contains(position)).unwrap();
    ShardId(u32::try_from(place).unwrap() + 1)
}

/// Writes a plain and a typed record per key; the number is what they hold.
fn write(client: &mut Client, number: usize, keep: impl Fn(ShardId) -> bool) {
    for key in (0..KEYS).map(|key| key.to_string()).filter(|key| keep(shard_of(key))) {
        let number = (number + key.parse::<usize>().unwrap()).to_string();
        assert_eq!(client.call(&["SET", &key, &number]).unwrap(), Reply::ok());
        assert!(matches!(client.call(&["HSET", &format!("users:{key}"), "age", &number]).unwrap(), Reply::Int(_)));
    }
}

/// Checks every record: what is kept is served, what is of the stopped shard is refused with its name.
fn check(client: &mut Client, number: impl Fn(ShardId) -> usize, stopped: Option<ShardId>) {
    for key in 0..KEYS {
        let shard = shard_of(&key.to_string());
        let commands =
            [vec!["GET".to_owned(), key.to_string()], vec!["HGET".into(), format!("users:{key}"), "age".into()]];
        for command in commands {
            let reply = client.call(&command).unwrap();
            if Some(shard) == stopped {
                let told = format!("{reply:?}");
                assert!(told.contains(&format!("no_leader: shard {shard} has stopped")), "{command:?}: {told}");
            } else {
                assert_eq!(reply, Reply::bulk((number(shard) + key).to_string()), "{command:?}");
            }
        }
    }
}

/// A frame of the log: where it begins, and whose sections lie where.
struct Frame {
    start: usize,
    sections: Vec<(ShardId, Range<usize>)>,
}

/// The frames of a segment: the form of the log, written down a second time.
fn frames(segment: &Path) -> Vec<Frame> {
    let bytes = fs::read(segment).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let nonce = &bytes[52..60];
    let mut frames = Vec::new();
    let mut at = 68 + 52 * u32_at(12) as usize + 12 * u32_at(16) as usize + 4;
    while &bytes[at + 8..at + 16] == nonce {
        let count = u32_at(at + 4) as usize;
        let mut frame = Frame { start: at, sections: Vec::new() };
        let mut start = at + 24 + 20 * count;
        for row in (0..count).map(|row| at + 24 + 20 * row) {
            let end = start + u32_at(row + 12) as usize;
            frame.sections.push((ShardId(u32_at(row)), start..end));
            start = end;
        }
        frames.push(frame);
        at = start;
    }
    frames
}

fn flip(file: &Path, byte: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[byte] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn segment(server: &Shardine) -> PathBuf {
    server.data().join("log").join("0000000000000001.seg")
}

fn start() -> Shardine {
    let server = Shardine::start_with(options()).unwrap();
    let told = text_of(&server, &["table", "create", "users", "--field", "age:int64"]);
    assert!(told.contains("users"), "{told}");
    write(&mut server.client().unwrap(), 1_000, |_| true);
    server
}

fn damage_stops(shard: ShardId) {
    let mut server = start();
    server.kill9().unwrap();
    let file = segment(&server);
    let sections: Vec<_> = frames(&file).into_iter().flat_map(|frame| frame.sections).collect();
    let ours: Vec<_> = sections.into_iter().filter(|(whose, _)| *whose == shard).collect();
    let hit = ours[ours.len() / 2].1.clone();
    let byte = hit.start + hit.len() / 2;
    flip(&file, byte);

    server.restart().unwrap();

    let mut client = server.client().unwrap();
    check(&mut client, |_| 1_000, Some(shard));
    let reason = format!("shard {shard}: log file {} is damaged at byte {}", file.display(), hit.start);
    for words in [vec!["shards"], vec!["status"], vec!["doctor", "--data", server.data().to_str().unwrap()]] {
        let told = text_of(&server, &words);
        assert!(told.contains(&reason), "{words:?}: {told}");
        assert!(told.contains("put this data directory back from a copy"), "{words:?}: {told}");
        assert!(told.contains("docs/damage.md"), "{words:?}: {told}");
    }
    assert!(server.process().output().contains(&reason));

    // The others are written and survive crashes meanwhile; the damage does not go away by itself.
    write(&mut client, 2_000, |other| other != shard);
    server.kill9().unwrap();
    server.restart().unwrap();
    let mut client = server.client().unwrap();
    check(&mut client, |_| 2_000, Some(shard));

    // With the file as it was, nothing is lost.
    server.stop().unwrap();
    flip(&file, byte);
    server.restart().unwrap();
    let mut client = server.client().unwrap();
    check(&mut client, |other| if other == shard { 1_000 } else { 2_000 }, None);
    write(&mut client, 3_000, |_| true);
    check(&mut client, |_| 3_000, None);
}

/// reliability F5.
#[test]
fn records_74_damage_in_the_log_stops_the_shard_it_hit() {
    damage_stops(ShardId(3));
}

#[test]
fn records_74_damage_to_the_shard_that_keeps_definitions_stops_it_alone() {
    damage_stops(ShardId(1));
}

/// An older copy of the log was put back behind newer snapshots: what lies between them cannot be made up.
#[test]
fn records_74_a_log_that_ends_below_its_snapshot_is_called_so() {
    let mut server = Shardine::start_with(Options {
        args: ["--shards", "1", "--snapshot-log-bytes", "64KiB"].map(str::to_owned).to_vec(),
        ..options()
    })
    .unwrap();
    server.client().unwrap().call(&["SET", "early", "1"]).unwrap();
    server.stop().unwrap();
    let (log, copy) = (server.data().join("log"), server.data().join("copy"));
    fs::create_dir(&copy).unwrap();
    fs::copy(segment(&server), copy.join("first")).unwrap();
    server.restart().unwrap();
    let mut client = server.client().unwrap();
    let large = "x".repeat(10_000);
    let snapshot = |server: &Shardine| {
        let status: serde_json::Value = serde_json::from_str(&text_of(server, &["status", "--json"])).unwrap();
        status["shards"][0]["snapshot"].as_u64().unwrap()
    };
    let before = snapshot(&server);
    wait_for("a newer snapshot", PATIENCE, || {
        assert_eq!(client.call(&["SET", "late", &large])?, Reply::ok());
        Ok((snapshot(&server) > before + 2).then_some(()))
    })
    .unwrap();
    server.kill9().unwrap();
    for file in fs::read_dir(&log).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    fs::rename(copy.join("first"), segment(&server)).unwrap();

    server.start_again().unwrap();

    let told = "a part of the log is gone; this shard is not started";
    let says = |server: &mut Shardine| Ok(server.process().output().contains(told).then_some(()));
    wait_for("the reason", PATIENCE, || says(&mut server)).unwrap();
    let doctor = text_of(&server, &["doctor", "--data", server.data().to_str().unwrap()]);
    assert!(doctor.contains(told) && doctor.contains("put this data directory back from a copy"), "{doctor}");
}

#[test]
fn records_74_damage_that_nobody_can_attribute_stops_the_node_with_a_message() {
    let mut server = start();
    server.kill9().unwrap();
    let file = segment(&server);
    let frames = frames(&file);
    let hit = frames[frames.len() / 2].start;
    flip(&file, hit + 24);

    server.start_again().unwrap();

    assert!(!server.process().wait(PATIENCE).unwrap().success());
    let told = server.process().output();
    assert!(told.contains(&format!("log file {} is damaged at byte {hit}: ", file.display())), "{told}");
    assert!(told.contains("so none is started; put this data directory back from a copy"), "{told}");
}

//! Writes the first inputs of every fuzz target into `fuzz/corpus`: one of each form that its reader accepts, so that
//! fuzzing begins behind the magic numbers and checksums. Run it again after a stored form has changed:
//! `cargo run -p shardine-fuzz-targets --example seeds`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use shardine_fuzz_targets::{begun, chunks, replica};
use shardine_meta::{Command as MapCommand, Joiner, OperationId};
use shardine_model::codec::put_bytes;
use shardine_model::command::{
    Attempt, Batch, BatchItem, BatchMode, Body, Existence, Give, Kind, Operation, Operator, Origin, Ttl,
};
use shardine_model::entry::{LoadedRow, RaisedRow, RefusedRow, SettledRow};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite, Membership, SnapshotMeta};
use shardine_model::{
    Action, Answer, ClientId, Command, ConfVersion, DoorAddresses, Entry, ErrorCode, Field, FieldId, FieldRef,
    FieldValue, NodeId, Outcome, ReplicaId, Reply, Request, RequestEpoch, RowImage, RowKey, ShardId, Table, TableId,
    Timestamp, Value, ValueRef, Version,
};
use shardine_records::Nobody;
use shardine_store::log::{Change, Start};
use shardine_store::{DataDir, Identity, Options, OsDisk, Owner, SegmentLog, Storage};
use shardine_transport::{
    self as transport, Begin, Forward, ForwardFlags, Heirs, Hello, Item, Lead, LeaderNews, Leads, LinkKind, MapDelta,
    Outbox, Piece, Pulse, Raft, Refusal, Subject, Taken, Welcome, Who,
};

type Seeds = Vec<(String, Vec<u8>)>;

fn main() -> Result<(), Box<dyn Error>> {
    write("commands", commands())?;
    write("log_entry", log_entries())?;
    write("map", maps())?;
    write("peer_link", links())?;
    write("peer_message", peer_messages())?;
    write("resp_request", conversations())?;
    write("resp_session", conversations())?;
    write("script", scripts())?;
    write("state_chunk", state_chunks())?;
    write("stored_answer", answers())?;
    let dir = tempfile::tempdir()?;
    write("log_segment", segments(dir.path())?)?;
    write("snapshot", snapshots(dir.path())?)
}

fn write(target: &str, seeds: Seeds) -> Result<(), Box<dyn Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    fs::create_dir_all(&dir)?;
    for (name, bytes) in seeds {
        fs::write(dir.join(name), bytes)?;
    }
    Ok(())
}

/// Values and scripts, behind the byte that says what is done with them.
fn scripts() -> Seeds {
    let of = |name: &str, kind: u8, bytes: &[u8]| (name.to_owned(), [&[kind], bytes].concat());
    vec![
        of("msgpack", 0, b"\x93\x01\xa1a\x82\xa1b\xc3\xa1c\xcb\x3f\xf8\0\0\0\0\0\0"),
        of("reply", 2, b"*3\r\n$1\r\na\r\n:5\r\n-ERR x\r\n"),
        of("reply3", 5, b"%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n"),
        of("json", 6, b"{\"a\":[1,2.5,null,true,\"\\u00e9\"]}"),
        of("struct", 8, b">I2h<i4!8ds>I2h<i4!8ds\0"),
        of("pattern", 10, b"(%a+)[%d_]-%s*()$%b()"),
        of("gsub", 12, b"(.)%1*"),
        of("both", 14, b"\x93\x01[1]"),
        of("text", 16, b"local t = {} for i = 1, 9 do t[i] = {ok = i .. ''} end return t"),
        of("map", 17, b"redis.setresp(3) return {map = {a = {set = {b = true}}, c = {double = 1.5}}}"),
    ]
}

const ROW: RowKey<'static> = RowKey { table: TableId(2), key: b"{lili}:1", sort: b"" };
const SORTED: RowKey<'static> = RowKey { table: TableId(3), key: b"chat", sort: b"\x80\0\0\0\0\0\0\x07" };

fn fields() -> [FieldValue<'static>; 3] {
    let name = FieldValue { field: FieldRef::Name(b"name"), value: ValueRef::Blob(b"bob") };
    let age = FieldValue { field: FieldRef::Id(FieldId(1)), value: ValueRef::Int(-7) };
    let height = FieldValue { field: FieldRef::Id(FieldId(2)), value: ValueRef::Float(1.5) };
    [name, age, height]
}

fn actions() -> Vec<Action<'static>> {
    let int = FieldRef::Id(FieldId(1));
    let seven = ValueRef::Int(7);
    vec![
        Action::Set(fields().into_iter().skip(1).collect()),
        Action::Replace(fields().into_iter().skip(1).collect()),
        Action::Update { create: true, operations: operations().into_iter().collect() },
        Action::Cas { create: false, field: int, old: ValueRef::Int(-7), new: seven },
        Action::Delete,
        Action::Touch,
    ]
}

/// Every operator, on a field of a type that it fits (`shardine_fuzz_targets::replica`).
fn operations() -> [Operation<'static>; 12] {
    let seven = ValueRef::Int(7);
    let operations = [
        (1, Operator::Assign(ValueRef::Int(40))),
        (5, Operator::AssignIfUnset(ValueRef::Blob(b"x"))),
        (1, Operator::Add(seven)),
        (3, Operator::Subtract(ValueRef::Uint(0))),
        (1, Operator::And(seven)),
        (1, Operator::Or(seven)),
        (1, Operator::Xor(seven)),
        (2, Operator::Min(ValueRef::Float(0.5))),
        (1, Operator::Max(seven)),
        (4, Operator::Append(b"tail")),
        (4, Operator::Splice { at: -2, cut: 1, paste: b"yy" }),
        (5, Operator::Unset),
    ];
    operations.map(|(id, operator)| Operation { field: FieldRef::Id(FieldId(id)), operator })
}

fn requests() -> Vec<Request<'static>> {
    let mut requests: Vec<Request<'static>> =
        actions().into_iter().map(|action| Request::one(Command::plain(ROW, action))).collect();
    let careful = Command {
        row: SORTED,
        if_version: Some(Version(-4)),
        existence: Existence::Live,
        ttl: Ttl::At(Timestamp(1_700_000_000_000)),
        give: Give::Touched,
        kind: Kind::Any,
        action: Action::Delete,
    };
    let conditions = [(ROW, Version(3)), (SORTED, Version(0))].into_iter().collect();
    let commands = [BatchItem::Change(careful), BatchItem::Read(ROW), BatchItem::Read(SORTED)].into_iter().collect();
    let batch = Batch { mode: BatchMode::AllOrNone, conditions, commands };
    let origin = Some(Origin { client: ClientId(99), sequence: 12, lowest: 9, attempt: Attempt::Again });
    requests.push(Request { origin, body: Body::Batch(batch) });
    requests
}

fn commands() -> Seeds {
    let each = requests().into_iter().enumerate().map(|(number, request)| {
        let mut bytes = Vec::new();
        // A row has to be there for most requests to do anything.
        Request::one(Command::plain(ROW, Action::Set(fields().into_iter().skip(1).collect()))).encode(&mut bytes);
        request.encode(&mut bytes);
        (format!("request_{number}"), bytes)
    });
    each.collect()
}

fn state_chunks() -> Seeds {
    let mut requests = Vec::new();
    commands().iter().for_each(|(_, bytes)| requests.extend_from_slice(bytes));
    let mut state = replica(1);
    let entry =
        Entry::Commands { proposed_at: Timestamp(1), epoch: RequestEpoch::FIRST, requests: &requests }.to_bytes();
    state.apply(&entry, &mut Nobody).expect("requests of our own can be applied");
    let chunks = chunks(&mut state);
    // The target makes the heads of chunks itself: format, machine and number.
    let [chunk] = chunks.as_slice() else { panic!("a small shard has one chunk") };
    vec![("head_and_rows".to_owned(), [&[100][..], &chunk[3..]].concat())]
}

/// What clients say to the Redis door, one conversation per family of commands.
fn conversations() -> Seeds {
    let spoken: [(&str, &[&str]); 10] = [
        (
            "hashes",
            &[
                "HSET u:1 name bob age 10",
                "HGET u:1 name",
                "HMGET u:1 name no",
                "HGETALL u:1",
                "HDEL u:1 age",
                "HLEN u:1",
            ],
        ),
        (
            "hash_numbers",
            &[
                "HINCRBY u:1 n 5",
                "HINCRBYFLOAT u:1 f 1.5",
                "HSETNX u:1 n 1",
                "HRANDFIELD u:1 2 WITHVALUES",
                "HSCAN u:1 0",
            ],
        ),
        (
            "strings",
            &[
                "SET k v EX 10 NX GET",
                "GET k",
                "APPEND k x",
                "STRLEN k",
                "INCRBY n 3",
                "GETDEL k",
                "MSET a 1 b 2",
                "MGET a b",
            ],
        ),
        (
            "typed",
            &[
                "HSET typed:1 f1 -5 f2 0.5 f4 text",
                "HGETALL typed:1",
                "HINCRBY typed:1 f1 9223372036854775807",
                "HSET typed:1 no 1",
            ],
        ),
        (
            "keys",
            &[
                "EXISTS k j",
                "TYPE k",
                "EXPIRE k 5 NX",
                "PTTL k",
                "PERSIST k",
                "SCAN 0 MATCH u* COUNT 5",
                "KEYS *",
                "DBSIZE",
                "DEL k j",
            ],
        ),
        (
            "transaction",
            &["WATCH {t}a", "MULTI", "SET {t}a 1", "INCR {t}a", "HGET {t}a value", "EXEC", "MULTI", "DISCARD", "EXEC"],
        ),
        (
            "connection",
            &[
                "HELLO 3 AUTH default x SETNAME me",
                "HELLO 3",
                "CLIENT ID",
                "CLIENT INFO",
                "INFO",
                "CONFIG GET *",
                "RESET",
                "QUIT",
            ],
        ),
        (
            "describe",
            &[
                "COMMAND COUNT",
                "COMMAND DOCS GET",
                "COMMAND INFO HSET",
                "TIME",
                "ECHO hi",
                "PING",
                "PING hi",
                "SELECT 1",
                "EVAL x 0",
            ],
        ),
        (
            "own",
            &[
                "REC.SET typed:1 f1 7 IFVERSION 0",
                "REC.GET typed:1 FIELDS 1 f1",
                "REC.CAS typed:1 f1 7 8",
                "REC.SCAN typed",
                "REC.DEL typed:1",
            ],
        ),
        (
            "own_updates",
            &[
                "REC.INSERT typed:2 f4 abc",
                "REC.UPDATE typed:2 f1 + 5",
                "REC.REPLACE typed:2 f1 1",
                "REC.KICK typed:2",
                "REC.FLUSH",
                "REC.EXPLAIN typed:2",
            ],
        ),
    ];
    let mut seeds: Seeds = spoken.iter().map(|(name, lines)| ((*name).to_owned(), arrays(lines))).collect();
    seeds.push(("inline".to_owned(), b"SET k 'a b'\r\nGET \"k\"\nset x \"\\x00\\n\"\r\n\r\nPING\r\n".to_vec()));
    seeds.push(("broken".to_owned(), b"*2\r\n$3\r\nGET\r\n$99999999999\r\n".to_vec()));
    seeds
}

fn arrays(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in lines.iter().map(|line| line.split(' ').collect::<Vec<_>>()) {
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words.iter().for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    }
    bytes
}

fn log_entries() -> Seeds {
    let mut run = Vec::new();
    requests().iter().for_each(|request| request.encode(&mut run));
    let image = RowImage::of(&fields());
    let mut packed = Vec::new();
    image.view().pack(&mut packed);
    let versions = vec![(ROW, Version(5)), (SORTED, Version(-6))];
    let settled =
        SettledRow { row: ROW, expected: Version(5), version: Version(6), sql_version: Version(-2), fields: &packed };
    let entries = [
        (
            "commands",
            Entry::Commands { proposed_at: Timestamp(1_700_000_000_000), epoch: RequestEpoch::FIRST, requests: &run },
        ),
        ("load", Entry::Load(vec![LoadedRow { row: ROW, version: Version(5), fields: &packed }])),
        ("kick", Entry::Kick(versions.clone())),
        ("lease", Entry::Lease { holder: ReplicaId(1), term: 7, length_ms: 5_000 }),
        ("written", Entry::Written(versions.clone())),
        ("schema", Entry::definition(Table::kv())),
        ("purge", Entry::Purge(versions)),
        ("expire", Entry::Expire { at: Timestamp(9), rows: vec![ROW, SORTED] }),
        ("clear", Entry::Clear { table: TableId(1) }),
        ("suspend", Entry::Suspend),
        ("resume", Entry::Resume),
        (
            "refused",
            Entry::Refused { at: Timestamp(9), rows: vec![RefusedRow { row: ROW, version: Version(5), error: "no" }] },
        ),
        ("settle", Entry::Settle(settled)),
        ("raise", Entry::Raise(vec![RaisedRow { row: SORTED, expected: Version(5), held: Version(9) }])),
        ("floor", Entry::Floor { table: TableId(1), floor: 7 }),
    ];
    entries.into_iter().map(|(name, entry)| (name.to_owned(), entry.to_bytes())).collect()
}

/// One of each kind to the replica that the target plays (`docs/encoding.md`, messages between replicas).
/// A whole map, entries and a snapshot, each behind the number of its reader.
fn maps() -> Seeds {
    let joiner = Joiner {
        name: "b".to_owned(),
        addresses: DoorAddresses::default(),
        zone: "west".to_owned(),
        labels: [("disk".to_owned(), "fast".to_owned())].into(),
        is_gateway: false,
        incarnation: 1,
        start: 7,
    };
    let (shard, node) = (ShardId(1), NodeId(2));
    let nodes = [
        MapCommand::Join { joiner: joiner.clone(), replaces: None },
        MapCommand::Announce { node, joiner: Joiner { incarnation: 2, ..joiner } },
        MapCommand::SetWeight { node, weight: 300 },
    ];
    let replace = [
        MapCommand::Replace { shard, replica: ReplicaId(1), node },
        MapCommand::ConfChanged {
            shard,
            conf: ConfVersion(5),
            voters: vec![ReplicaId(1)],
            learners: vec![ReplicaId(2)],
        },
        MapCommand::CaughtUp { operation: OperationId(1), replica: ReplicaId(2) },
        MapCommand::Cancel { operation: OperationId(1) },
    ];
    let keyspace = [
        MapCommand::AddField { table: "kv".to_owned(), field: Field::of(FieldId(0), "x", Value::Int(1)) },
        MapCommand::PlacePath { path: "/a".to_owned(), instead_of: 0, group: None },
        MapCommand::Set { name: "x".to_owned(), value: Some("y".to_owned()) },
        MapCommand::SetSql { sql: "sqlite".to_owned() },
    ];
    let entry = |lists: &[&[MapCommand]]| {
        let mut entry = shardine_meta::open_entry();
        lists.iter().copied().flatten().for_each(|command| command.encode(&mut entry));
        entry
    };
    let mut meta = begun();
    meta.apply(&entry(&[&nodes, &replace[..2]]), |_| ()).expect("an entry");
    meta.begin_cut();
    let seeds = [
        ("whole", 0, meta.map().whole().to_bytes()),
        ("nodes", 1, entry(&[&nodes])),
        ("replace", 1, entry(&[&nodes, &replace])),
        ("keyspace", 1, entry(&[&keyspace])),
        ("snapshot", 2, meta.next_chunk().expect("a chunk")),
    ];
    seeds.into_iter().map(|(name, reader, bytes)| (name.to_owned(), [&[reader], &bytes[..]].concat())).collect()
}

/// Frames without their heads, each behind the number of its reader.
fn links() -> Seeds {
    let who = Who { cluster: 9, node: NodeId(1), name: "lili".to_owned(), incarnation: 2, start: 3, features: 0 };
    let hello = Hello::new(who.clone(), LinkKind::Append, NodeId(2));
    let refusal = Refusal::OldCopy { node: NodeId(1), incarnation: 2 };
    let mut leads = Vec::new();
    let heirs = Heirs::of(&[ReplicaId(11), ReplicaId(12)]);
    Lead { shard: ShardId(7), term: 3, leader: ReplicaId(300), committed: 9, age_ms: Some(4), is_asleep: true, heirs }
        .encode(&mut leads);
    let leads = Some(Leads::new(&leads).expect("a list"));
    let pulse = Pulse { sent_ms: 1, echo_ms: 2, held_ms: 3, wall_ms: 300, map: 5, list: 6, list_heard: 7, leads };
    let forward = Forward {
        id: 300,
        stream: 4,
        generation: 5,
        shard: ShardId(7),
        epoch: RequestEpoch::FIRST,
        flags: ForwardFlags { is_read: false, is_numbered: true },
        within_ms: 9,
        body: transport::Body::Request(b"set"),
    };
    let refused = transport::Outcome::Refused { code: ErrorCode::Busy, message: "no" };
    let moved = transport::Outcome::Moved { leader: NodeId(2), term: 3, descriptors: b"d" };
    let subject = Subject::Snapshot { shard: ShardId(7), from: ReplicaId(1), to: ReplicaId(2), message: b"meta" };
    let frames = [
        ("hello", 0, hello.to_frame()),
        ("welcome", 1, Welcome::new(who, &hello).to_frame()),
        ("refusal", 1, refusal.to_frame()),
        (
            "control",
            2,
            batch(
                LinkKind::Control,
                &[
                    Item::Pulse(pulse),
                    Item::Leader(LeaderNews { shard: ShardId(7), term: 3, leader: ReplicaId(300), node: NodeId(2) }),
                    Item::MapDelta(MapDelta { from: 8, to: 9, change: b"xy" }),
                    Item::Raft(Raft { shard: ShardId(300), message: b"vote" }),
                ],
            ),
        ),
        (
            "append",
            3,
            batch(
                LinkKind::Append,
                &[
                    Item::Forward(forward),
                    Item::Answer(transport::Answer { id: 300, outcome: refused }),
                    Item::Answer(transport::Answer { id: 300, outcome: moved }),
                ],
            ),
        ),
        (
            "bulk",
            4,
            batch(
                LinkKind::Bulk,
                &[
                    Item::Begin(Begin { transfer: 4, bytes: 3, subject }),
                    Item::Piece(Piece { transfer: 4, offset: 0, bytes: b"abc" }),
                    Item::Taken(Taken { transfer: 4, bytes: 3, is_whole: true }),
                ],
            ),
        ),
    ];
    frames.into_iter().map(|(name, reader, frame)| (name.to_owned(), [&[reader], &frame[8..]].concat())).collect()
}

fn batch(kind: LinkKind, items: &[Item<'_>]) -> Vec<u8> {
    let mut outbox = Outbox::new(kind);
    items.iter().for_each(|item| outbox.push(item).expect("room"));
    outbox.bytes().to_vec()
}

fn peer_messages() -> Seeds {
    let of_raft = |kind: u8, from: u8, term: u8, rest: &[u8]| [&[1, kind, from, 2, term, 9, 7, 5][..], rest].concat();
    let context = [8, 0, 0, 0, 1, 0, 0, 0, 2];
    let kinds: [(&str, Vec<u8>); 13] = [
        ("append", of_raft(1, 1, 5, &[6, 4, 3, 7, 2, 0, 1, b'x', 3, 4, 1, 1, 2, 9])),
        ("append_response", of_raft(2, 1, 5, &[7, 6, 0])),
        ("append_rejected", of_raft(2, 3, 5, &[7, 6, 1, 3, 2])),
        ("vote", of_raft(3, 3, 5, &[7, 4, 6, 4, 1])),
        ("vote_response", of_raft(4, 1, 5, &[6, 4, 1])),
        ("pre_vote", of_raft(5, 3, 6, &[7, 4, 6, 4, 0])),
        ("pre_vote_response", of_raft(6, 1, 6, &[0, 0, 0])),
        ("heartbeat", of_raft(7, 1, 5, &[&[3, 7][..], &context].concat())),
        ("heartbeat_response", of_raft(8, 3, 5, &[&[3][..], &context].concat())),
        ("snapshot", of_raft(9, 1, 5, &[9, 4, 8, 9, 3, 1, 2, 3, 1, 9, 2, 2, 3, 0, 1, 1, b's'])),
        ("timeout_now", of_raft(10, 1, 4, &[])),
        ("inquiry", vec![1, 11, 9, 2, 1]),
        ("excluded", vec![1, 12, 1, 2, 8]),
    ];
    let one_behind_its_length = |(name, bytes): &(&str, Vec<u8>)| {
        let mut run = Vec::new();
        put_bytes(&mut run, bytes);
        ((*name).to_owned(), run)
    };
    let mut seeds: Seeds = kinds.iter().map(one_behind_its_length).collect();
    let all = seeds.iter().flat_map(|(_, run)| run.clone()).collect();
    seeds.push(("all".to_owned(), all));
    seeds
}

fn answers() -> Seeds {
    let row = Some(RowImage::of(&fields()));
    let reply = |outcome| Reply { version: Version(6), sql_version: Version(5), expires_at: None, outcome };
    let done = reply(Outcome::Done { changed: 2, row: row.clone() });
    let refused = reply(Outcome::Refused { code: ErrorCode::VersionMismatch, row });
    let answers = [
        ("one", Answer::One(done.clone())),
        ("many", Answer::Many(vec![done, refused])),
        ("condition_failed", Answer::ConditionFailed),
        ("failed", Answer::Failed(ErrorCode::TooLarge)),
    ];
    let encoded = answers.into_iter().map(|(name, answer)| {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        (name.to_owned(), bytes)
    });
    encoded.collect()
}

fn segments(dir: &Path) -> Result<Seeds, Box<dyn Error>> {
    let dir = dir.join("log");
    let options = Options { segment_bytes: 4_096, frame_bytes: 4_096, spares_max: 0, fill_ahead: false };
    let owner = Owner { cluster: 1, node: NodeId(1) };
    let log = SegmentLog::open(Arc::new(OsDisk), &dir, owner, Start::New, options)?;
    let entry =
        |index| LogEntry { index, term: 2, kind: LogEntryKind::Normal, data: Bytes::from_static(b"entry of the log") };
    for index in [1_u64, 3] {
        let hard_state = Some(HardState { term: 2, vote: ReplicaId(1), commit: index });
        let entries = vec![entry(index), entry(index + 1)];
        let other =
            LogWrite { shard: ShardId(2), replica: ReplicaId(1), entries: vec![entry(index)], hard_state: None };
        log.append(vec![Change::Write(LogWrite { shard: ShardId(1), replica: ReplicaId(1), entries, hard_state })])?;
        let again = LogWrite { shard: ShardId(1), replica: ReplicaId(1), entries: vec![entry(index + 1)], hard_state };
        log.append(vec![Change::Write(again), Change::Write(other)])?;
        log.append(vec![Change::Truncate { shard: ShardId(2), below: index + 1 }])?;
        let hard_state = HardState { term: 2, vote: ReplicaId(1), commit: index + 1 };
        log.append(vec![Change::Reset { shard: ShardId(2), replica: ReplicaId(1), hard_state, index: 2 }])?;
    }
    log.append(vec![Change::Remove { shard: ShardId(2), replica: ReplicaId(1) }])?;
    drop(log);
    let mut seeds = Vec::new();
    for path in files_below(&dir)?.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "seg")) {
        let bytes = fs::read(path)?;
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        seeds.push(("cut_behind_the_last_frame".to_owned(), bytes[..end].to_vec()));
        // The zeros behind are what a segment has before it is written; a few stand for all.
        seeds.push(("with_room_behind".to_owned(), bytes[..(end + 64).min(bytes.len())].to_vec()));
        // Behind the head of the segment and of its first frame: one shard is lost, the other is read on.
        let mut damaged = bytes[..end].to_vec();
        damaged[72 + 24 + 20 + 30] ^= 1;
        seeds.push(("one_section_damaged".to_owned(), damaged));
    }
    Ok(seeds)
}

fn snapshots(dir: &Path) -> Result<Seeds, Box<dyn Error>> {
    let data = DataDir::lock(&dir.join("data"))?;
    data.adopt(&Identity { cluster: 1, node: NodeId(1), name: String::new() })?;
    let storage = Storage::open(&data, Options { segment_bytes: 4_096, ..Options::default() })?;
    let membership = Membership { learners: vec![ReplicaId(4)], ..Membership::of([1, 2, 3].map(ReplicaId)) };
    let meta = SnapshotMeta { index: 9, term: 2, membership, conf_index: 3 };
    let mut writer = storage.cut_snapshot(ShardId(1), ReplicaId(1), &meta)?;
    writer.push(b"first chunk")?;
    writer.push(&[0; 40])?;
    let whole = fs::read(writer.finish()?)?;
    let empty = storage.cut_snapshot(ShardId(2), ReplicaId(1), &SnapshotMeta::default())?;
    let empty = fs::read(empty.finish()?)?;
    Ok(vec![("whole".to_owned(), whole), ("empty".to_owned(), empty)])
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

//! The bytes of entries and snapshots, written down: what they mean is frozen (`docs/encoding.md`).

use shardine_coord::{
    Asker, Command, Config, Consistency, Coord, CountersMode, CutStep, NodeNumber, OrderId, Pace, SemaphoreId,
    SessionId, Start, open_entry,
};
use shardine_model::codec::Reader;
use shardine_model::stream::SnapshotError;

const BY: Asker = Asker { node: NodeNumber(1), session: SessionId(300) };

fn bytes(command: &Command<'_>) -> String {
    let mut out = Vec::new();
    command.encode(&mut out);
    let mut reader = Reader::new(&out);
    assert_eq!(Command::decode(&mut reader).as_ref(), Ok(command), "it comes back as it went");
    assert!(reader.is_empty());
    hex(&out)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn commands_about_nodes() {
    let config = Config {
        self_check_period_ms: 1_000,
        session_grace_period_ms: 10_000,
        read_consistency: Consistency::Strict,
        attach_consistency: Consistency::Relaxed,
        rate_limiter_counters: CountersMode::Detailed,
    };

    assert_eq!(bytes(&Command::CreateNode { path: "/a", config, placed: 0 }), "01 02 2f 61 e8 07 90 4e 01 02 02");
    assert_eq!(bytes(&Command::AlterNode { path: "a", config: Config::default() }), "02 01 61 00 00 00 00 00");
    assert_eq!(bytes(&Command::DropNode { path: "a", placed: 0 }), "03 01 61");
    assert_eq!(bytes(&Command::DescribeNode { path: "a" }), "04 01 61");
}

/// Those of a cluster, whose map has given the path a place.
#[test]
fn commands_about_places() {
    let config = Config::default();

    assert_eq!(bytes(&Command::CreateNode { path: "a", config, placed: 300 }), "13 01 61 00 00 00 00 00 ac 02");
    assert_eq!(bytes(&Command::DropNode { path: "a", placed: 300 }), "14 01 61 ac 02");
    assert_eq!(bytes(&Command::GiveUp { placed: 300 }), "15 ac 02");
}

#[test]
fn the_head_of_a_snapshot_has_the_places_that_were_given_up() {
    let mut coord = Coord::new();
    let mut entry = Vec::new();
    open_entry(&mut entry);
    Command::GiveUp { placed: 300 }.encode(&mut entry);
    coord.apply(&entry, |_, _, _| {}).unwrap();

    coord.begin_cut();
    let CutStep::Chunk(chunk) = coord.cut_step() else { panic!("a chunk") };

    assert_eq!(hex(&chunk), "03 02 00 01 04 00 00 00 02 00 ac 02 00 00 00 00 00");
    assert_eq!(Coord::new().restored([chunk]).unwrap().given_up(), 300);
}

#[test]
fn commands_about_sessions() {
    let start =
        Start { path: "a", session: SessionId(2), timeout_ms: 5_000, description: "me", protection_key: &[1, 2] };

    assert_eq!(bytes(&Command::Attach(start)), "05 01 61 02 88 27 02 6d 65 02 01 02");
    assert_eq!(bytes(&Command::Stop(BY)), "06 01 ac 02");
    assert_eq!(bytes(&Command::Expire(BY)), "07 01 ac 02");
    assert_eq!(bytes(&Command::Mark), "0f");
}

#[test]
fn commands_about_semaphores() {
    let acquire = Command::Acquire { by: BY, name: "s", timeout_ms: u64::MAX, count: 2, data: b"d", ephemeral: true };
    let time_out = Command::TimeOut { node: NodeNumber(1), semaphore: SemaphoreId(2), order: OrderId(3), revision: 4 };

    assert_eq!(bytes(&Command::Create { by: BY, name: "s", limit: 5, data: b"d" }), "08 01 ac 02 01 73 05 01 64");
    assert_eq!(bytes(&Command::Update { by: BY, name: "s", data: b"d" }), "09 01 ac 02 01 73 01 64");
    assert_eq!(bytes(&Command::Delete { by: BY, name: "s", force: true }), "0a 01 ac 02 01 73 01");
    assert_eq!(bytes(&acquire), "0b 01 ac 02 01 73 ff ff ff ff ff ff ff ff ff 01 02 01 64 01");
    assert_eq!(bytes(&Command::Release { by: BY, name: "s" }), "0c 01 ac 02 01 73");
    assert_eq!(bytes(&Command::Describe { by: BY, name: "s" }), "0d 01 ac 02 01 73");
    assert_eq!(bytes(&time_out), "0e 01 02 03 04");
}

#[test]
fn commands_about_resources() {
    let pace = Pace {
        max_units_per_second: 1.0,
        max_burst_size_coefficient: 2.0,
        prefetch_coefficient: -1.0,
        prefetch_watermark: 0.5,
    };
    let bits = "00 00 00 00 00 00 f0 3f 00 00 00 00 00 00 00 40 00 00 00 00 00 00 f0 bf 00 00 00 00 00 00 e0 3f";

    assert_eq!(bytes(&Command::CreateResource { node: "a", path: "r", pace }), format!("10 01 61 01 72 {bits}"));
    assert_eq!(bytes(&Command::AlterResource { node: "a", path: "r", pace }), format!("11 01 61 01 72 {bits}"));
    assert_eq!(bytes(&Command::DropResource { node: "a", path: "r" }), "12 01 61 01 72");
}

fn entry(commands: &[Command<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    open_entry(&mut out);
    commands.iter().for_each(|command| command.encode(&mut out));
    out
}

#[test]
fn a_snapshot() {
    let start = |session, timeout_ms| {
        Command::Attach(Start {
            path: "a",
            session: SessionId(session),
            timeout_ms,
            description: "",
            protection_key: b"k",
        })
    };
    let by = |session| Asker { node: NodeNumber(1), session: SessionId(session) };
    let acquire = |session| Command::Acquire {
        by: by(session),
        name: "s",
        timeout_ms: 9,
        count: 1,
        data: b"d",
        ephemeral: false,
    };
    let mut coord = Coord::new();
    let commands = [
        Command::CreateNode { path: "a", config: Config::default(), placed: 0 },
        start(0, 5),
        start(0, 6),
        Command::Create { by: by(1), name: "s", limit: 1, data: b"x" },
        acquire(1),
        acquire(2),
        Command::CreateResource { node: "a", path: "r", pace: Pace { max_units_per_second: 1.0, ..Pace::default() } },
    ];
    coord.apply(&entry(&commands), |_, _, _| {}).unwrap();

    coord.begin_cut();
    let mut chunks = Vec::new();
    while let CutStep::Chunk(chunk) = coord.cut_step() {
        chunks.push(hex(&chunk));
    }

    let golden = [
        "03 02 00",
        "01 02 00 00 00 01 01",
        "02 0d 00 00 00 01 01 01 61 00 00 00 00 00 02 01 02 01",
        "03 0c 00 00 00 01 01 01 05 00 01 6b 02 06 00 01 6b",
        "04 09 00 00 00 01 01 01 01 73 01 00 01 78",
        "05 0b 00 00 00 01 01 01 00 01 01 01 09 00 01 64",
        "05 0b 00 00 00 01 01 01 01 02 02 01 09 00 01 64",
        "06 25 00 00 00 01 01 01 01 72 00 00 00 00 00 00 f0 3f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
        "00 00 00 00 00",
    ];
    assert_eq!(chunks, [golden.join(" ")]);
}

/// What a replica does not understand stops it; it does not guess.
#[test]
fn unknown_bytes_are_refused() {
    let mut coord = Coord::new();
    let refused = |coord: &mut Coord, entry: &[u8]| coord.apply(entry, |_, _, _| {}).is_err();

    assert!(refused(&mut coord, &[]));
    assert!(refused(&mut coord, &[2, 100]), "a format that is not ours");
    assert!(refused(&mut coord, &[1, 1]), "an entry of records");
    assert!(refused(&mut coord, &[1, 100, 99]), "a command that is not known");
    assert!(refused(&mut coord, &[1, 100, 3, 5, b'a']), "a path that is cut short");
}

/// A snapshot of these items behind the head and the node `a` with the number 1.
fn restored(items: &[&[u8]]) -> Result<Coord, SnapshotError> {
    let mut stream = vec![3, 2, 0];
    let node = [2, 13, 0, 0, 0, 1, 1, 1, b'a', 0, 0, 0, 0, 0, 2, 1, 2, 0];
    let end = [0; 5];
    for item in [&[1, 2, 0, 0, 0, 1, 1][..], &node].iter().chain(items).chain(&[&end[..]]) {
        stream.extend_from_slice(item);
    }
    Coord::new().restored([stream])
}

#[test]
fn unknown_items_of_a_snapshot_are_refused() {
    let refused = |items: &[&[u8]]| restored(items).unwrap_err().to_string();

    assert!(restored(&[]).is_ok());
    assert_eq!(
        refused(&[&[9, 1, 0, 0, 0, 1]]),
        "the snapshot has section 9 in version 1, which is not known here: upgrade this node"
    );
    assert_eq!(
        refused(&[&[3, 6, 0, 0, 0, 1, 7, 1, 5, 0, 0]]),
        "the snapshot contradicts itself: something of a node that is not there"
    );
}

/// More tokens than there are, and claims that nobody made, are damage, and not taken in.
#[test]
fn an_impossible_snapshot_is_refused() {
    let session: &[u8] = &[3, 6, 0, 0, 0, 1, 1, 1, 5, 0, 0];
    let semaphore: &[u8] = &[4, 8, 0, 0, 0, 1, 1, 1, 1, b's', 1, 0, 0];
    let owner = |session: u8, count: u8| [5, 10, 0, 0, 0, 1, 1, 1, 0, 1, session, count, 9, 0, 0];
    let refused = |items: &[&[u8]]| restored(items).unwrap_err().to_string();

    assert!(restored(&[session, semaphore, &owner(1, 1)]).is_ok());
    assert_eq!(
        refused(&[session, semaphore, &owner(1, 2)]),
        "the snapshot contradicts itself: more tokens are held than there are"
    );
    assert_eq!(
        refused(&[session, semaphore, &owner(2, 1)]),
        "the snapshot contradicts itself: a claim without its session"
    );
    assert_eq!(refused(&[session, &owner(1, 1)]), "the snapshot contradicts itself: a claim without its semaphore");
}

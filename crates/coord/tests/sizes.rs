//! Limits that are too large for a story, and what a full group costs.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_coord::{
    Asker, Command, Config, Coord, CutStep, NodeNumber, Outcome, STATE_BYTES_MAX, SessionId, Start, Status, open_entry,
};

const NODE: NodeNumber = NodeNumber(1);

fn by(session: u64) -> Asker {
    Asker { node: NODE, session: SessionId(session) }
}

fn apply(coord: &mut Coord, command: &Command<'_>) -> Outcome {
    let mut entry = Vec::new();
    open_entry(&mut entry);
    command.encode(&mut entry);
    let mut outcome = None;
    coord.apply(&entry, |_, _, came| outcome = Some(came)).unwrap();
    outcome.unwrap()
}

fn status(outcome: &Outcome) -> Option<Status> {
    match outcome {
        Outcome::Refused(refusal) => Some(refusal.status),
        _ => None,
    }
}

fn with_session() -> Coord {
    let mut coord = Coord::new();
    apply(&mut coord, &Command::CreateNode { path: "/local/locks", config: Config::default(), placed: 0 });
    attach(&mut coord);
    coord
}

fn attach(coord: &mut Coord) -> Outcome {
    let start =
        Start { path: "local/locks", session: SessionId(0), timeout_ms: 5_000, description: "", protection_key: b"" };
    apply(coord, &Command::Attach(start))
}

fn acquire<'a>(session: u64, name: &'a str, data: &'a [u8]) -> Command<'a> {
    Command::Acquire { by: by(session), name, timeout_ms: u64::MAX, count: 1, data, ephemeral: false }
}

/// coordination 91.
#[test]
fn data_is_any_bytes() {
    let mut coord = with_session();
    let all: Vec<u8> = (0..=255).collect();

    apply(&mut coord, &Command::Create { by: by(1), name: "s", limit: 1, data: &all });
    apply(&mut coord, &acquire(1, "s", &all));

    let found = coord.describe(NODE, "s", true, false).unwrap();
    assert_eq!((&found.data, &found.owners[0].data), (&all, &all));
}

/// coordination 44 and 93, with memory as the limit that a machine meets first.
#[test]
fn a_full_group_refuses_growth_and_nothing_else() {
    let mut coord = with_session();
    let megabyte = vec![b'x'; 1 << 20];
    let mut made = 0;

    let refused = loop {
        let name = format!("s{made}");
        let outcome = apply(&mut coord, &Command::Create { by: by(1), name: &name, limit: 1, data: &megabyte });
        if outcome != Outcome::Done {
            break outcome;
        }
        made += 1;
    };

    assert_eq!(status(&refused), Some(Status::Overloaded));
    assert!(coord.totals().bytes <= STATE_BYTES_MAX);
    assert_eq!(apply(&mut coord, &acquire(1, "s0", b"")), Outcome::Acquired, "a little room is left");
    assert_eq!(status(&apply(&mut coord, &acquire(1, "s1", &megabyte))), Some(Status::Overloaded));
    assert_eq!(apply(&mut coord, &Command::Release { by: by(1), name: "s0" }), Outcome::Released(true));
    assert_eq!(apply(&mut coord, &Command::Delete { by: by(1), name: "s0", force: false }), Outcome::Done);
    assert_eq!(apply(&mut coord, &acquire(1, "s1", &megabyte)), Outcome::Acquired);
}

/// Bytes of this process in memory.
#[allow(clippy::disallowed_methods, reason = "only the test asks the machine")]
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// 100,000 semaphores and 10,000 sessions that hold ten each and wait for one: far within 1 GiB, and the group's own
/// count of its bytes is not too low.
/// reliability F26: thousands wait for one semaphore and expire together, all but the last; who is left is next, and others went on.
#[test]
fn thousands_may_queue_and_expire_together() {
    const CROWD: u64 = 5_000;
    let mut coord = with_session();
    for _ in 1..=CROWD {
        attach(&mut coord);
    }
    apply(&mut coord, &Command::Create { by: by(1), name: "crowded", limit: 1, data: b"" });
    for session in 1..=CROWD {
        apply(&mut coord, &acquire(session, "crowded", b""));
    }
    let waiting = coord.describe(NODE, "crowded", true, true).unwrap().waiters;
    let order: Vec<u64> = waiting.iter().map(|claim| claim.session.0).collect();
    assert_eq!(order, (2..=CROWD).collect::<Vec<_>>(), "whoever asked first stands first");

    let mut entry = Vec::new();
    open_entry(&mut entry);
    for session in 1..CROWD {
        Command::Expire(by(session)).encode(&mut entry);
    }
    coord.apply(&entry, |_, _, _| {}).unwrap();
    apply(&mut coord, &Command::Create { by: by(CROWD + 1), name: "other", limit: 1, data: b"" });

    let left = coord.describe(NODE, "crowded", true, true).unwrap();
    let owners: Vec<u64> = left.owners.iter().map(|claim| claim.session.0).collect();
    assert_eq!((owners, left.waiters.len()), (vec![CROWD], 0));
    assert_eq!(apply(&mut coord, &acquire(CROWD + 1, "other", b"")), Outcome::Acquired);
}

#[test]
fn a_large_group_is_small() {
    let before = resident_bytes();
    let mut coord = with_session();
    for _ in 1..10_000 {
        attach(&mut coord);
    }
    for number in 0..100_000u64 {
        let name = format!("service/{number}/leader");
        let session = number % 10_000 + 1;
        apply(&mut coord, &Command::Create { by: by(session), name: &name, limit: 1, data: b"" });
        assert_eq!(apply(&mut coord, &acquire(session, &name, b"10.0.0.1:7400")), Outcome::Acquired);
        if number < 10_000 {
            apply(&mut coord, &acquire((session + 1) % 10_000 + 1, &name, b"10.0.0.2:7400"));
        }
    }

    let totals = coord.totals();
    let grown = resident_bytes() - before;
    assert_eq!((totals.sessions, totals.semaphores), (10_000, 100_000));
    assert!(grown < 256 << 20, "{grown} bytes");
    assert!(totals.bytes * 3 > grown, "{} bytes are counted, {grown} are used", totals.bytes);

    coord.begin_cut();
    let mut chunks = 0;
    while let CutStep::Chunk(chunk) = coord.cut_step() {
        assert!(chunk.len() < 128 << 10, "no step of a cut is long");
        chunks += 1;
    }
    assert!(chunks > 50, "{chunks}");
}

/// A semaphore with so many claims that it is larger than a chunk, and a claim that is as large as one.
#[test]
fn no_chunk_is_larger_than_its_limit() {
    let mut coord = with_session();
    for _ in 1..400 {
        attach(&mut coord);
    }
    apply(&mut coord, &Command::Create { by: by(1), name: "s", limit: 10, data: &[1; 1 << 20] });
    for session in 1..=400 {
        let data = vec![7; if session == 7 { 1 << 20 } else { 10_000 }];
        apply(&mut coord, &acquire(session, "s", &data));
    }

    coord.begin_cut();
    while let CutStep::Chunk(chunk) = coord.cut_step() {
        assert!(chunk.len() <= 1 << 20, "a chunk of {} bytes", chunk.len());
    }
}

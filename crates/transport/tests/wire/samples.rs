//! One of each item, with its bytes.

use shardine_model::{CatalogueVersion, ErrorCode, Generation, NodeId, RangeVersion, ReplicaId, RequestEpoch, ShardId};
use shardine_transport::{
    Answer, Begin, Body, End, Forward, ForwardFlags, Goodbye, Heirs, Item, Lead, LeaderNews, Leads, LinkKind, MapDelta,
    MapVersion, Outcome, Piece, Pulse, Raft, Subject, Suspicion, Taken, TransferRefusal, TransferRefused,
};

/// An item, the link that it goes on, its tag, and its content.
pub struct Sample {
    pub item: Item<'static>,
    pub kind: LinkKind,
    pub tag: u8,
    pub content: &'static [u8],
}

fn sample(kind: LinkKind, item: Item<'static>, tag: u8, content: &'static [u8]) -> Sample {
    Sample { item, kind, tag, content }
}

pub const LEADS: &[u8] = &[7, 3, 0xac, 2, 9, 5, 5, 11, 12, 8, 1, 2, 3, 0, 0];

pub fn leads() -> [Lead; 2] {
    let heirs = Heirs::of(&[ReplicaId(11), ReplicaId(12)]);
    [
        Lead {
            shard: ShardId(7),
            term: 3,
            leader: ReplicaId(300),
            committed: 9,
            age_ms: Some(4),
            is_asleep: true,
            heirs,
        },
        Lead {
            shard: ShardId(8),
            term: 1,
            leader: ReplicaId(2),
            committed: 3,
            age_ms: None,
            is_asleep: false,
            heirs: Heirs::default(),
        },
    ]
}

pub fn all() -> Vec<Sample> {
    [control(), append(), bulk()].into_iter().flatten().collect()
}

fn control() -> Vec<Sample> {
    let pulse = Pulse {
        sent_ms: 1,
        echo_ms: 2,
        held_ms: 3,
        wall_ms: 300,
        map: 5,
        list: 6,
        list_heard: 7,
        leads: Some(Leads::new(LEADS).expect("a list")),
    };
    let short = Pulse { leads: None, ..pulse.clone() };
    let news = LeaderNews { shard: ShardId(7), term: 3, leader: ReplicaId(300), node: NodeId(2) };
    let of = |item, tag, content| sample(LinkKind::Control, item, tag, content);
    vec![
        of(Item::Pulse(pulse), 1, &[1, 2, 3, 0xac, 2, 5, 6, 7, 1, 7, 3, 0xac, 2, 9, 5, 5, 11, 12, 8, 1, 2, 3, 0, 0]),
        of(Item::Pulse(short), 1, &[1, 2, 3, 0xac, 2, 5, 6, 7, 0]),
        of(Item::Leader(news), 2, &[7, 3, 0xac, 2, 2]),
        of(Item::Suspicion(Suspicion { node: NodeId(2), incarnation: 9, is_suspected: true }), 3, &[2, 9, 1]),
        of(Item::MapVersion(MapVersion { map: 9, catalogue: CatalogueVersion(4) }), 4, &[9, 4]),
        of(Item::MapDelta(MapDelta { from: 8, to: 9, change: b"xy" }), 5, &[8, 9, 2, b'x', b'y']),
        of(Item::Goodbye(Goodbye::Stopping), 6, &[1]),
        of(Item::Goodbye(Goodbye::Superseded), 6, &[2]),
        of(Item::Goodbye(Goodbye::Removed), 6, &[3]),
        of(Item::Goodbye(Goodbye::Overflown), 6, &[4]),
        of(Item::Raft(Raft { shard: ShardId(300), message: b"vote" }), 16, &[0xac, 2, b'v', b'o', b't', b'e']),
    ]
}

fn append() -> Vec<Sample> {
    let epoch = RequestEpoch { generation: Generation(1), range: RangeVersion(2), catalogue: CatalogueVersion(3) };
    let forward = Forward {
        id: 300,
        stream: 4,
        generation: 5,
        shard: ShardId(7),
        epoch,
        flags: ForwardFlags { is_read: false, is_numbered: true },
        within_ms: 9,
        body: Body::Request(b"set"),
    };
    let flags = ForwardFlags { is_read: true, is_numbered: false };
    let read = Forward { flags, body: Body::Call(b"read"), ..forward };
    let answer = |outcome| Item::Answer(Answer { id: 300, outcome });
    let moved = Outcome::Moved { leader: NodeId(2), term: 3, descriptors: b"d" };
    let refused = Outcome::Refused { code: ErrorCode::Busy, message: "no" };
    let of = |item, tag, content| sample(LinkKind::Append, item, tag, content);
    vec![
        of(Item::Raft(Raft { shard: ShardId(7), message: b"" }), 16, &[7]),
        of(Item::Forward(forward), 17, &[0xac, 2, 4, 5, 7, 1, 2, 3, 2, 9, 1, b's', b'e', b't']),
        of(Item::Forward(read), 17, &[0xac, 2, 4, 5, 7, 1, 2, 3, 1, 9, 2, b'r', b'e', b'a', b'd']),
        of(answer(Outcome::Done(b"ok")), 18, &[0xac, 2, 1, b'o', b'k']),
        of(answer(moved), 18, &[0xac, 2, 2, 2, 3, b'd']),
        of(answer(refused), 18, &[0xac, 2, 3, 15, 2, b'n', b'o']),
        of(answer(Outcome::OldGeneration), 18, &[0xac, 2, 4]),
        of(Item::Goodbye(Goodbye::Overflown), 6, &[4]),
    ]
}

fn bulk() -> Vec<Sample> {
    let subject = Subject::Snapshot { shard: ShardId(7), from: ReplicaId(1), to: ReplicaId(300), message: b"meta" };
    let refused = |reason| Item::TransferRefused(TransferRefused { transfer: 4, reason });
    let of = |item, tag, content| sample(LinkKind::Bulk, item, tag, content);
    vec![
        of(
            Item::Begin(Begin { transfer: 4, bytes: 300, subject }),
            32,
            &[4, 0xac, 2, 1, 7, 1, 0xac, 2, b'm', b'e', b't', b'a'],
        ),
        of(Item::Begin(Begin { transfer: 4, bytes: 3, subject: Subject::Map { version: 9 } }), 32, &[4, 3, 2, 9]),
        of(Item::Piece(Piece { transfer: 4, offset: 300, bytes: b"abc" }), 33, &[4, 0xac, 2, b'a', b'b', b'c']),
        of(Item::End(End { transfer: 4, sum: 0x0102_0304 }), 34, &[4, 4, 3, 2, 1]),
        of(refused(TransferRefusal::Busy), 35, &[4, 1]),
        of(refused(TransferRefusal::NoRoom), 35, &[4, 2]),
        of(refused(TransferRefusal::Stale), 35, &[4, 3]),
        of(refused(TransferRefusal::Damaged), 35, &[4, 4]),
        of(refused(TransferRefusal::NotHere), 35, &[4, 5]),
        of(refused(TransferRefusal::Aborted), 35, &[4, 6]),
        of(Item::Taken(Taken { transfer: 4, bytes: 300, is_whole: true }), 36, &[4, 0xac, 2, 1]),
        of(Item::Goodbye(Goodbye::Stopping), 6, &[1]),
    ]
}

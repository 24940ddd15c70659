//! A queue that is full: what is dropped, what is refused, and when the link ends.

use shardine_model::{NodeId, RequestEpoch, ShardId};
use shardine_transport::limits::{ANSWER_OUTBOX_BYTES_EXTRA, APPEND_FRAME_BYTES_MAX, BATCH_BYTES_SOFT};
use shardine_transport::{
    Answer, Body, Dropped, Forward, ForwardFlags, Full, Inbound, Item, LinkKind, Outbox, Outcome, Piece, Pulse,
    Suspicion,
};

const SHARD: ShardId = ShardId(7);

fn forward(body: &[u8]) -> Forward<'_> {
    Forward {
        id: 1,
        stream: 2,
        generation: 3,
        shard: SHARD,
        epoch: RequestEpoch::FIRST,
        flags: ForwardFlags::default(),
        within_ms: 0,
        body: Body::Request(body),
    }
}

fn answer(response: &[u8]) -> Answer<'_> {
    Answer { id: 1, outcome: Outcome::Done(response) }
}

/// An append link whose peer takes nothing.
fn full() -> Outbox {
    let mut outbox = Outbox::new(LinkKind::Append);
    let entries = vec![0; 1 << 20];
    while outbox.push_raft(SHARD, |out| out.extend_from_slice(&entries)).is_ok() {}
    outbox
}

/// reliability I76.
#[test]
fn a_full_queue_drops_raft_and_refuses_forwards() {
    let mut outbox = full();
    let waiting = outbox.waiting();

    assert_eq!(outbox.push_raft(SHARD, |out| out.resize(out.len() + (1 << 20), 0)), Err(Full::NoRoom));
    assert_eq!(outbox.push_forward(&forward(&vec![0; 1 << 20])), Err(Full::NoRoom));

    assert_eq!(outbox.dropped(), Dropped { raft: 2, forwards: 1, others: 0 });
    assert_eq!(outbox.waiting(), waiting, "nothing is left of them");
    assert!(waiting <= LinkKind::Append.outbox_bytes_max());
    assert!(!outbox.is_overflown());
}

#[test]
fn an_answer_has_more_room_and_ends_the_link_if_that_is_not_enough() {
    let mut outbox = full();
    let response = vec![0; ANSWER_OUTBOX_BYTES_EXTRA / 4];

    let taken = (0..9).take_while(|_| outbox.push_answer(&answer(&response)).is_ok()).count();

    assert!((3..=4).contains(&taken), "{taken}");
    assert!(outbox.is_overflown());
}

#[test]
fn an_empty_queue_takes_what_a_frame_takes_and_no_more() {
    let mut outbox = Outbox::new(LinkKind::Append);

    assert_eq!(outbox.push_answer(&answer(&vec![0; APPEND_FRAME_BYTES_MAX])), Err(Full::TooLarge));
    assert!(outbox.is_empty());
    assert_eq!(outbox.push_raft(SHARD, |out| out.resize(APPEND_FRAME_BYTES_MAX - 50, 0)), Ok(()));
    assert_eq!(outbox.push_raft(SHARD, |_| ()), Err(Full::NoRoom));
}

#[test]
fn what_was_sent_makes_room() {
    let mut outbox = full();

    let waiting = outbox.bytes().len();
    outbox.written(waiting / 3);
    assert_eq!(outbox.waiting(), waiting - waiting / 3);
    assert_eq!(outbox.push_forward(&forward(b"set")), Ok(()));

    let rest = outbox.bytes().len();
    outbox.written(rest);
    assert!(outbox.is_empty());
    assert!(outbox.bytes().is_empty());
}

#[test]
fn items_of_one_turn_share_a_frame_until_it_is_long() {
    let mut outbox = Outbox::new(LinkKind::Append);
    let small = vec![1; 1_000];
    for _ in 0..3 {
        outbox.push_raft(SHARD, |out| out.extend_from_slice(&small)).unwrap();
    }
    let bytes = outbox.bytes().to_vec();
    assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 8, "one frame");
    outbox.written(bytes.len());

    let count = 3 * BATCH_BYTES_SOFT / small.len();
    for _ in 0..count {
        outbox.push_raft(SHARD, |out| out.extend_from_slice(&small)).unwrap();
    }
    let bytes = outbox.bytes().to_vec();
    let (mut inbound, mut came) = (Inbound::new(LinkKind::Append), 0);
    inbound.receive(&bytes[..BATCH_BYTES_SOFT + 100], |_| came += 1).unwrap();
    assert!(came > 200, "the first frame can be worked on, {came}");
    inbound.receive(&bytes[BATCH_BYTES_SOFT + 100..], |_| came += 1).unwrap();
    assert_eq!(came, count);
}

#[test]
fn a_large_item_behind_small_ones_gets_a_frame_of_its_own() {
    let mut outbox = Outbox::new(LinkKind::Bulk);
    let piece = vec![1; shardine_transport::limits::PIECE_BYTES_MAX];

    for offset in 0..2 {
        outbox.push(&Item::Piece(Piece { transfer: 1, offset, bytes: &piece[..5] })).unwrap();
    }
    outbox.push(&Item::Piece(Piece { transfer: 1, offset: 2, bytes: &piece })).unwrap();

    let mut offsets = Vec::new();
    let take = |item: Item<'_>| match item {
        Item::Piece(piece) => offsets.push((piece.offset, piece.bytes.len())),
        other => panic!("{other:?}"),
    };
    Inbound::new(LinkKind::Bulk).receive(outbox.bytes(), take).unwrap();
    assert_eq!(offsets, [(0, 5), (1, 5), (2, piece.len())]);
}

#[test]
fn news_for_a_peer_that_does_not_listen_are_dropped() {
    let mut outbox = Outbox::new(LinkKind::Control);
    let suspicion = Item::Suspicion(Suspicion { node: NodeId(1), incarnation: 1, is_suspected: true });

    while outbox.push(&suspicion).is_ok() {}
    assert!(outbox.push(&Item::Pulse(Pulse::default())).is_err());

    assert_eq!(outbox.dropped().others, 2);
    assert!(outbox.waiting() <= LinkKind::Control.outbox_bytes_max());
}

//! Items come out as they went in, however the bytes are cut on their way.

use proptest::prelude::*;
use shardine_model::{CatalogueVersion, Generation, NodeId, RangeVersion, ReplicaId, RequestEpoch, ShardId};
use shardine_transport::{
    Answer, Begin, Body, Forward, ForwardFlags, Heirs, Item, Lead, LeaderNews, Leads, LinkKind, Outcome, Piece, Pulse,
    Raft, Subject, Taken,
};

use crate::{frame, received, samples, texts};

#[test]
fn one_of_each_comes_back_alone_and_together() {
    for kind in [LinkKind::Control, LinkKind::Append, LinkKind::Bulk] {
        let items: Vec<Item<'_>> =
            samples::all().into_iter().filter(|sample| sample.kind == kind).map(|sample| sample.item).collect();
        for item in &items {
            let bytes = frame(kind, std::slice::from_ref(item));
            assert_eq!(received(kind, &bytes, bytes.len()), Ok(texts(std::slice::from_ref(item))));
        }
        let bytes = [frame(kind, &items), frame(kind, &items[..1])].concat();
        let expected = [texts(&items), texts(&items[..1])].concat();
        for at_a_time in [1, 2, 7, 8, 9, 64, bytes.len()] {
            assert_eq!(received(kind, &bytes, at_a_time), Ok(expected.clone()), "{kind}, {at_a_time} at a time");
        }
    }
}

#[test]
fn leads_are_read_from_where_they_lie() {
    let mut list = Vec::new();
    samples::leads().iter().for_each(|lead| lead.encode(&mut list));

    assert_eq!(list, samples::LEADS);
    assert_eq!(Leads::new(&list).unwrap().iter().collect::<Vec<_>>(), samples::leads());
    let heirs = samples::leads()[0].heirs;
    assert_eq!(heirs.rank_of(ReplicaId(12)), Some(1));
    assert_eq!(heirs.rank_of(ReplicaId(13)), None);
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, any::<u64>()]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..600)
}

prop_compose! {
    fn lead()(
        shard in any::<u32>(), numbers in [number(), number(), number()], age_ms in proptest::option::of(0..1u64 << 40),
        is_asleep in any::<bool>(), heirs in proptest::collection::vec(number().prop_map(ReplicaId), 0..8),
    ) -> Lead {
        let [term, leader, committed] = numbers;
        let (shard, leader, heirs) = (ShardId(shard), ReplicaId(leader), Heirs::of(&heirs));
        Lead { shard, term, leader, committed, age_ms, is_asleep, heirs }
    }
}

proptest! {
    #[test]
    fn control_items_come_back(
        leads in proptest::option::of(proptest::collection::vec(lead(), 0..40)), n in proptest::array::uniform7(number()),
        shard in any::<u32>(), vote in bytes(), at_a_time in 1..200usize,
    ) {
        let mut list = Vec::new();
        leads.iter().flatten().for_each(|lead| lead.encode(&mut list));
        let pulse = Pulse {
            sent_ms: n[0], echo_ms: n[1], held_ms: n[2], wall_ms: n[3], map: n[4], list: n[5], list_heard: n[6],
            leads: leads.as_ref().map(|_| Leads::new(&list).unwrap()),
        };
        let shard = ShardId(shard);
        let news = LeaderNews { shard, term: n[0], leader: ReplicaId(n[1]), node: NodeId(n[2]) };
        let items = [Item::Pulse(pulse), Item::Leader(news), Item::Raft(Raft { shard, message: &vote })];

        let wire = frame(LinkKind::Control, &items);

        prop_assert_eq!(received(LinkKind::Control, &wire, at_a_time), Ok(texts(&items)));
        prop_assert_eq!(Leads::new(&list).unwrap().iter().collect::<Vec<_>>(), leads.unwrap_or_default());
    }

    #[test]
    fn append_items_come_back(
        n in proptest::array::uniform7(number()), shard in any::<u32>(), is_read in any::<bool>(),
        body in bytes(), response in bytes(), at_a_time in 1..200usize,
    ) {
        let epoch = RequestEpoch {
            generation: Generation(n[3]), range: RangeVersion(n[4]), catalogue: CatalogueVersion(n[5]),
        };
        let flags = ForwardFlags { is_read, is_numbered: !is_read };
        let (shard, body) = (ShardId(shard), if is_read { Body::Call(&body) } else { Body::Request(&body) });
        let forward =
            Forward { id: n[0], stream: n[1], generation: n[2], shard, epoch, flags, within_ms: n[6], body };
        let moved = Outcome::Moved { leader: NodeId(n[1]), term: n[2], descriptors: &response };
        let items = [
            Item::Forward(forward),
            Item::Answer(Answer { id: n[0], outcome: Outcome::Done(&response) }),
            Item::Answer(Answer { id: n[0], outcome: moved }),
        ];

        let wire = frame(LinkKind::Append, &items);

        prop_assert_eq!(received(LinkKind::Append, &wire, at_a_time), Ok(texts(&items)));
    }

    #[test]
    fn bulk_items_come_back(n in proptest::array::uniform7(number()), shard in any::<u32>(), data in bytes(), at_a_time in 1..200usize) {
        let (from, to) = (ReplicaId(n[2]), ReplicaId(n[3]));
        let subject = Subject::Snapshot { shard: ShardId(shard), from, to, message: &data };
        let items = [
            Item::Begin(Begin { transfer: n[0], bytes: n[1], subject }),
            Item::Piece(Piece { transfer: n[0], offset: n[4], bytes: &data }),
            Item::Taken(Taken { transfer: n[0], bytes: n[5], is_whole: shard % 2 == 0 }),
        ];

        let wire = frame(LinkKind::Bulk, &items);

        prop_assert_eq!(received(LinkKind::Bulk, &wire, at_a_time), Ok(texts(&items)));
    }
}

//! One node's side of forwarding, step by step. `tests/forward` has whole clusters under chance.

use std::sync::Arc;

use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Generation, NodeEntry, Placement, RangeVersion,
    ReplicaId, ShardState,
};

use super::*;

const SHARD: ShardId = ShardId(1);
const AT: Position = Position(5);

fn map() -> Arc<ClusterMap> {
    let entry = |number| NodeEntry {
        node: NodeId(number),
        name: format!("n{number}"),
        zone: String::new(),
        addresses: DoorAddresses::default(),
    };
    let at = |node| Placement { node: NodeId(node), replica: ReplicaId(node) };
    let group = Descriptor {
        shard: SHARD,
        epoch: Epoch { generation: Generation(1), range: RangeVersion(1), conf: ConfVersion(1) },
        state: ShardState::Serving,
        bounds: Bounds::default(),
        voters: vec![at(1), at(2), at(3)],
        learners: Vec::new(),
    };
    let nodes = vec![entry(1), entry(2), entry(3)];
    Arc::new(ClusterMap { cluster: 1, version: 1, nodes, groups: vec![group], sql: String::new() })
}

/// Node 1 with links to the others; node 2 leads in term 1.
struct Rig {
    routes: Routes,
    forwards: Forwards<u32>,
    now_ms: u64,
}

impl Rig {
    fn new(options: Options) -> Self {
        let mut rig = Self { routes: Routes::new(NodeId(1), map()), forwards: Forwards::new(options), now_ms: 0 };
        rig.routes.seat(SHARD, Some(0));
        rig.routes.hear(SHARD, 1, Some(ReplicaId(2)));
        for node in [2, 3] {
            rig.forwards.link_up(NodeId(node), 0, &rig.routes, &mut Vec::new());
        }
        rig
    }

    fn submit(&mut self, what: u32, nature: Nature) -> Vec<Action<u32>> {
        let request = Submission {
            connection: 9,
            position: AT,
            nature,
            catalogue: CatalogueVersion(1),
            bytes: 10,
            deadline_ms: None,
            what,
        };
        self.with(|forwards, now_ms, routes, out| forwards.submit(request, now_ms, routes, out))
    }

    fn with(
        &mut self,
        act: impl FnOnce(&mut Forwards<u32>, u64, &mut Routes, &mut Vec<Action<u32>>),
    ) -> Vec<Action<u32>> {
        let mut out = Vec::new();
        act(&mut self.forwards, self.now_ms, &mut self.routes, &mut out);
        out
    }

    fn refused(&mut self, attempt: u64, why: Refused) -> Vec<Action<u32>> {
        self.with(|forwards, now_ms, routes, out| forwards.refused(attempt, why, now_ms, routes, out))
    }

    fn answered(&mut self, attempt: u64) -> (Option<u32>, Vec<Action<u32>>) {
        let mut out = Vec::new();
        let answered = self.forwards.answered(attempt, self.now_ms, &self.routes, &mut out);
        (answered.map(|answered| answered.what), out)
    }

    fn tick_at(&mut self, now_ms: u64) -> Vec<Action<u32>> {
        self.now_ms = now_ms;
        self.with(|forwards, now_ms, routes, out| forwards.tick(now_ms, routes, out))
    }

    fn leader(&mut self, term: u64, node: u64) -> Vec<Action<u32>> {
        self.routes.hear(SHARD, term, Some(ReplicaId(node)));
        self.with(|forwards, now_ms, routes, out| forwards.news(now_ms, routes, out))
    }
}

/// What went where: (request's attempt, node, generation); node 0 is this one.
fn sent(actions: &[Action<u32>]) -> Vec<(u64, u64, u64)> {
    let attempts = actions.iter().filter_map(|action| match action {
        Action::Attempt(attempt) => Some(attempt),
        Action::Answer { .. } => None,
    });
    let node = |to| match to {
        Destination::Here { .. } => 0,
        Destination::Node(node) => node.0,
    };
    attempts.map(|attempt| (attempt.id, node(attempt.to), attempt.generation)).collect()
}

fn answers(actions: &[Action<u32>]) -> Vec<(u32, ErrorCode)> {
    let answers = actions.iter().filter_map(|action| match action {
        Action::Attempt(_) => None,
        Action::Answer { what, code } => Some((*what, *code)),
    });
    answers.collect()
}

fn moved(node: u64, term: u64) -> Refused {
    Refused::Moved(Moved { leader: Some(NodeId(node)), term, descriptors: Vec::new() })
}

#[test]
fn requests_of_a_line_travel_together() {
    let mut rig = Rig::new(Options::default());

    assert_eq!(sent(&rig.submit(1, Nature::Change)), [(1, 2, 1)]);
    assert_eq!(sent(&rig.submit(2, Nature::Change)), [(2, 2, 1)]);
    assert_eq!(rig.answered(1), (Some(1), Vec::new()));
    assert_eq!(rig.answered(1), (None, Vec::new()), "once");
    assert_eq!(rig.answered(2), (Some(2), Vec::new()));
    assert!(rig.forwards.is_clear());
}

#[test]
fn after_a_refusal_the_line_waits_for_all_of_it_and_goes_on_in_order() {
    let mut rig = Rig::new(Options::default());
    for what in 1..=3 {
        rig.submit(what, Nature::Change);
    }

    assert_eq!(rig.refused(2, moved(3, 2)), [], "the first and the third are under way");
    assert_eq!(rig.submit(4, Nature::Change), []);
    assert_eq!(rig.answered(1), (Some(1), Vec::new()));
    let again = rig.refused(3, Refused::OldGeneration);
    assert_eq!(sent(&again), [(4, 3, 2), (5, 3, 2), (6, 3, 2)]);
    let order: Vec<_> = (4..=6).map(|attempt| *rig.forwards.get(attempt).expect("it is under way")).collect();
    assert_eq!(order, [2, 3, 4]);
}

#[test]
fn a_broken_link_leaves_changes_in_doubt_and_asks_the_others_again() {
    let mut rig = Rig::new(Options::default());
    for (what, nature) in [(1, Nature::Change), (2, Nature::Read), (3, Nature::Numbered)] {
        rig.submit(what, nature);
    }

    let down = rig.with(|forwards, now_ms, routes, out| forwards.link_down(NodeId(2), now_ms, routes, out));
    assert_eq!((sent(&down), answers(&down)), (Vec::new(), vec![(1, ErrorCode::InDoubt)]));
    assert_eq!(rig.answered(2), (None, Vec::new()), "a late answer goes to nobody");
    let again = rig.leader(2, 3);
    assert_eq!(sent(&again), [(4, 3, 2), (5, 3, 2)]);
    assert!(again.iter().all(|action| matches!(action, Action::Attempt(attempt) if attempt.is_again)));
}

/// A shard that is suspended, or has no room, refuses a change that was asked for again, and knows nothing of the first try.
#[test]
fn a_refusal_of_what_was_asked_again_is_no_certain_failure() {
    let mut rig = Rig::new(Options::default());
    for (what, nature) in [(1, Nature::Numbered), (2, Nature::Read)] {
        rig.submit(what, nature);
    }
    assert!(!rig.forwards.doubts(1), "its first try");

    rig.with(|forwards, now_ms, routes, out| forwards.link_down(NodeId(2), now_ms, routes, out));
    assert_eq!(sent(&rig.leader(2, 3)), [(3, 3, 2), (4, 3, 2)]);

    assert!(rig.forwards.doubts(3));
    assert!(!rig.forwards.doubts(4), "a read does nothing");
}

#[test]
fn what_was_sent_again_is_counted_for_each_request() {
    let mut rig = Rig::new(Options::default());
    rig.submit(1, Nature::Read);
    assert_eq!(rig.forwards.retries(1), 0);

    assert_eq!(sent(&rig.refused(1, moved(3, 2))), [(2, 3, 2)]);
    rig.submit(2, Nature::Read);
    let down = rig.with(|forwards, now_ms, routes, out| forwards.link_down(NodeId(3), now_ms, routes, out));
    assert_eq!(sent(&down), []);
    // The one that refused is left alone for a moment.
    assert_eq!(rig.tick_at(60), []);
    assert_eq!(sent(&rig.leader(3, 2)), [(4, 2, 3), (5, 2, 3)]);

    assert_eq!([4, 5].map(|attempt| rig.forwards.retries(attempt)), [2, 1]);
    assert_eq!(rig.forwards.retries(1), 0, "it is under way no more");
}

/// Simulated: seeds 26112100273, 26112102210 and 26112103347 of records, where a change was executed, its answer was lost with the link, and the
/// leader had no room for it when it was asked again.
#[test]
fn a_number_that_is_refused_when_it_is_asked_again_may_have_happened() {
    let mut rig = Rig::new(Options::default());
    for (what, nature) in [(1, Nature::Numbered), (2, Nature::Read)] {
        rig.submit(what, nature);
    }
    rig.with(|forwards, now_ms, routes, out| forwards.link_down(NodeId(2), now_ms, routes, out));
    rig.leader(2, 3);
    rig.submit(3, Nature::Numbered);

    let mut answered = |attempt| rig.forwards.answered(attempt, 0, &rig.routes, &mut Vec::new());
    assert_eq!(answered(3), Some(Answered { what: 1, may_have_happened: true }));
    assert_eq!(answered(4), Some(Answered { what: 2, may_have_happened: false }), "a read has changed nothing");
    assert_eq!(answered(5), Some(Answered { what: 3, may_have_happened: false }), "it was asked once");
}

/// reliability F27.
#[test]
fn an_old_hint_is_not_followed_and_the_node_is_left_alone_for_a_moment() {
    let mut rig = Rig::new(Options::default());
    rig.leader(5, 3);
    assert_eq!(sent(&rig.submit(1, Nature::Change)), [(1, 3, 1)]);

    assert_eq!(rig.refused(1, moved(2, 4)), []);
    assert_eq!(rig.tick_at(49), []);
    assert_eq!(sent(&rig.tick_at(50)), [(2, 3, 2)]);
    assert_eq!(sent(&rig.refused(2, moved(2, 6))), [(3, 2, 3)], "a newer one is");
}

#[test]
fn without_a_leader_requests_are_held_for_a_while() {
    let mut rig = Rig::new(Options::default());
    rig.routes.forget(SHARD, 1);
    rig.submit(1, Nature::Change);
    rig.now_ms = 1_000;
    rig.submit(2, Nature::Change);

    assert_eq!(rig.tick_at(1_499), []);
    assert_eq!(answers(&rig.tick_at(1_500)), [(1, ErrorCode::NoLeader)]);
    assert_eq!(sent(&rig.leader(2, 1)), [(1, 0, 1)], "the second one's time is not over");
}

#[test]
fn a_numbered_request_that_may_have_been_executed_is_not_called_undone() {
    let mut rig = Rig::new(Options::default());
    rig.submit(1, Nature::Numbered);
    rig.with(|forwards, now_ms, routes, out| forwards.link_down(NodeId(2), now_ms, routes, out));

    assert_eq!(answers(&rig.tick_at(1_500)), [(1, ErrorCode::InDoubt)]);
}

#[test]
fn what_is_held_has_a_limit_a_deadline_and_an_owner() {
    let mut rig = Rig::new(Options { bytes_max: 25, ..Options::default() });
    rig.routes.forget(SHARD, 1);
    rig.submit(1, Nature::Change);
    let late = Submission {
        connection: 8,
        position: AT,
        nature: Nature::Change,
        catalogue: CatalogueVersion(1),
        bytes: 10,
        deadline_ms: Some(30),
        what: 2,
    };
    rig.with(|forwards, now_ms, routes, out| forwards.submit(late, now_ms, routes, out));

    assert_eq!(answers(&rig.submit(3, Nature::Change)), [(3, ErrorCode::Busy)]);
    assert_eq!(answers(&rig.tick_at(30)), [(2, ErrorCode::Expired)]);
    assert_eq!(rig.forwards.held(), 1);
    rig.forwards.closed(9);
    assert!(rig.forwards.is_clear());
    assert_eq!(answers(&rig.submit(4, Nature::Change)), [], "there is room again");
}

#[test]
fn requests_that_were_read_by_other_definitions_wait_for_each_other() {
    let mut rig = Rig::new(Options::default());
    rig.submit(1, Nature::Change);
    let newer = Submission {
        connection: 9,
        position: AT,
        nature: Nature::Change,
        catalogue: CatalogueVersion(2),
        bytes: 10,
        deadline_ms: None,
        what: 2,
    };

    let held = rig.with(|forwards, now_ms, routes, out| forwards.submit(newer, now_ms, routes, out));
    assert_eq!(held, [], "the first may yet be refused for its definitions");
    assert_eq!(sent(&rig.answered(1).1), [(2, 2, 1)]);
}

/// Simulated: seed 12 of records, where a change that was taken while nobody stood in line was given back in a hand-over, and went behind the
/// reads that had come after it.
#[test]
fn what_is_given_back_goes_before_those_who_came_since() {
    let mut rig = Rig::new(Options::default());
    rig.leader(2, 1);
    let under_way = sent(&rig.submit(7, Nature::Read));
    assert_eq!(under_way, [(1, 0, 1)], "to this node's own replica");
    let given_back = |what| Submission {
        connection: 9,
        position: AT,
        nature: Nature::Change,
        catalogue: CatalogueVersion(1),
        bytes: 10,
        deadline_ms: None,
        what,
    };

    let back = vec![given_back(5), given_back(6)];
    let actions = rig.with(|forwards, now_ms, routes, out| forwards.give_back(back, now_ms, routes, out));
    assert_eq!(sent(&actions), [], "what is under way must come back first");
    rig.refused(1, Refused::NoLeader);
    let actions = rig.leader(3, 2);

    assert_eq!(sent(&actions), [(2, 2, 2), (3, 2, 2), (4, 2, 2)]);
    let order: Vec<Option<u32>> = [2, 3, 4].iter().map(|attempt| rig.forwards.get(*attempt).copied()).collect();
    assert_eq!(order, [Some(5), Some(6), Some(7)]);
}

/// What is told by a node whose shard was split below the position: the upper half is shard 2, which node 3 leads.
fn halves() -> (Descriptor, Descriptor) {
    let (whole, middle) = (map().groups[0].clone(), shardine_model::Bound::at(Position(4)));
    let epoch = Epoch { range: RangeVersion(2), ..whole.epoch };
    let left =
        Descriptor { epoch, bounds: Bounds { lo: whole.bounds.lo.clone(), hi: Some(middle.clone()) }, ..whole.clone() };
    let right = Descriptor { shard: ShardId(2), epoch, bounds: Bounds { lo: middle, hi: None }, ..whole };
    (left, right)
}

/// sharding P-2: whoever is told of both halves asks the other one at once, and does not wait as after a refusal without a reason.
#[test]
fn sharding_p_2_a_request_for_the_other_half_goes_there_at_once() {
    let mut rig = Rig::new(Options::default());
    rig.submit(1, Nature::Change);
    let (left, right) = halves();
    rig.routes.hear(ShardId(2), 1, Some(ReplicaId(2)));

    let moved = Moved { leader: None, term: 0, descriptors: vec![left, right] };
    let again = rig.refused(1, Refused::Moved(moved));

    assert_eq!(sent(&again), [(2, 2, 2)], "the same node leads the other half");
    let Some(Action::Attempt(attempt)) = again.first() else { panic!("{again:?}") };
    assert_eq!((attempt.shard, attempt.epoch.range), (ShardId(2), RangeVersion(2)));
}

/// The same on the node itself, which knows already; where it knows nothing new it waits, or it would ask for ever.
#[test]
fn a_stale_route_is_tried_again_at_once_where_there_is_another() {
    let mut rig = Rig::new(Options::default());
    rig.submit(1, Nature::Change);

    assert_eq!(rig.refused(1, Refused::StaleRoute), [], "nothing is known that was not known before");
    let (left, right) = halves();
    let again = rig.tick_at(Options::default().retry_ms);
    assert_eq!(sent(&again), [(2, 2, 2)]);
    rig.routes.hear(ShardId(2), 1, Some(ReplicaId(3)));
    rig.routes.learn(vec![left, right]);

    assert_eq!(sent(&rig.refused(2, Refused::StaleRoute)), [(3, 3, 3)]);
}

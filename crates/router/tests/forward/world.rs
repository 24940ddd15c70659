//! Three nodes, the links between them, and the truth about who leads: everything moves only when chance says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shardine_model::{
    Bound, Bounds, CatalogueVersion, ConfVersion, Descriptor, Epoch, ErrorCode, Generation, NodeId, Placement,
    Position, RangeVersion, ReplicaId, ShardId, ShardState,
};
use shardine_router::forward::{Action, Answered, Attempt, Destination, Mutant, Options, Submission};
use shardine_router::{
    Admission, Arrival, ClusterMap, DoorAddresses, Forwards, Gate, Nature, NodeEntry, Refused, Routes,
};

use crate::chance::Chance;
use crate::check::{Story, Told, check};

const NODES: usize = 3;
const STEPS: usize = 600;
const HALF: u64 = 1 << 63;

/// How often things happened, over many runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub executed: u64,
    pub sent: u64,
    pub refused: u64,
    pub old_generation: u64,
    pub in_doubt: u64,
    pub no_leader: u64,
    pub again: u64,
    /// Requests that were refused for good when they were asked again.
    pub busy_again: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Self) {
        self.executed += other.executed;
        self.sent += other.sent;
        self.refused += other.refused;
        self.old_generation += other.old_generation;
        self.in_doubt += other.in_doubt;
        self.no_leader += other.no_leader;
        self.again += other.again;
        self.busy_again += other.busy_again;
    }
}

#[derive(Clone, Debug)]
enum Outcome {
    Done,
    InDoubt,
    /// The leader has no room for it: an answer, and nothing was done this time.
    Busy,
    Refused(Refused),
}

/// From one node to another: requests one way, outcomes back.
#[derive(Default)]
struct Link {
    number: u64,
    requests: VecDeque<(Attempt, usize)>,
    outcomes: VecDeque<(u64, Outcome)>,
}

struct Node {
    routes: Routes,
    forwards: Forwards<usize>,
    gate: Gate,
    /// Of attempts on the node itself.
    outcomes: VecDeque<(u64, Outcome)>,
    /// Of each shard, the highest term that it was told of, and whom that names.
    told: BTreeMap<ShardId, (u64, Option<usize>)>,
}

struct Shard {
    term: u64,
    leader: Option<usize>,
}

pub struct World {
    chance: Chance,
    mutant: Option<Mutant>,
    now_ms: u64,
    nodes: Vec<Node>,
    links: BTreeMap<(usize, usize), Link>,
    last_link: u64,
    shards: [Shard; 2],
    /// Who has not heard yet of whom.
    news: Vec<(usize, ShardId, u64, usize)>,
    stories: Vec<Story>,
    closed: BTreeSet<u64>,
    connections: u64,
    clock: usize,
    seen: Seen,
}

fn map() -> Arc<ClusterMap> {
    let entry = |number| NodeEntry {
        node: NodeId(number),
        name: format!("n{number}"),
        zone: String::new(),
        addresses: DoorAddresses::default(),
    };
    let shard = |number: u32, lo: Bound, hi: Option<Bound>| Descriptor {
        shard: ShardId(number),
        epoch: Epoch { generation: Generation(1), range: RangeVersion(1), conf: ConfVersion(1) },
        state: ShardState::Serving,
        bounds: Bounds { lo, hi },
        voters: (0..NODES).map(|node| Placement { node: id(node), replica: replica(ShardId(number), node) }).collect(),
        learners: Vec::new(),
    };
    let middle = Bound::at(Position(HALF));
    let groups = vec![shard(1, Bound::default(), Some(middle.clone())), shard(2, middle, None)];
    let nodes = (1..=NODES as u64).map(entry).collect();
    Arc::new(ClusterMap { cluster: 1, version: 1, nodes, groups, sql: String::new() })
}

fn id(node: usize) -> NodeId {
    NodeId(node as u64 + 1)
}

fn replica(shard: ShardId, node: usize) -> ReplicaId {
    ReplicaId(u64::from(shard.0) * 10 + node as u64)
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

fn shard_of(position: Position) -> ShardId {
    ShardId(if position.0 < HALF { 1 } else { 2 })
}

impl World {
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let node = |number| {
            let mut routes = Routes::new(id(number), map());
            routes.seat(ShardId(1), Some(0));
            routes.seat(ShardId(2), Some(0));
            let forwards = Forwards::new(Options { mutant, bytes_max: 200, ..Options::default() });
            Node { routes, forwards, gate: Gate::default(), outcomes: VecDeque::new(), told: BTreeMap::new() }
        };
        Self {
            chance: Chance::new(seed),
            mutant,
            now_ms: 0,
            nodes: (0..NODES).map(node).collect(),
            links: BTreeMap::new(),
            last_link: Gate::LOCAL,
            shards: [Shard { term: 0, leader: None }, Shard { term: 0, leader: None }],
            news: Vec::new(),
            stories: Vec::new(),
            closed: BTreeSet::new(),
            connections: 4,
            clock: 0,
            seen: Seen::default(),
        }
    }

    pub fn run(mut self) -> Result<Seen, String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.settle()?;
        check(&self.stories)?;
        Ok(self.seen)
    }

    fn step(&mut self) -> Result<(), String> {
        let (one, other) = (self.chance.below(NODES), self.chance.below(NODES));
        match self.chance.below(100) {
            0..26 => self.submit(),
            26..52 => self.deliver(one, other),
            52..76 => self.report(one, other),
            76..84 => self.spread(),
            84..86 => {
                self.elect(one % 2, other);
                Ok(())
            }
            86 => {
                self.shards[one % 2].leader = None;
                Ok(())
            }
            87..91 => self.connect(one, other),
            91..93 => self.cut(one, other),
            93 => {
                self.close();
                Ok(())
            }
            _ => {
                self.now_ms += [1, 20, 60, 400][self.chance.below(4)];
                self.tick()
            }
        }
    }

    /// No more trouble: everybody hears everything, and what is under way comes to its end.
    fn settle(&mut self) -> Result<(), String> {
        for shard in 0..2 {
            let node = self.chance.below(NODES);
            self.elect(shard, node);
        }
        for round in 0..2_000 {
            for one in 0..NODES {
                for other in 0..NODES {
                    self.connect(one, other)?;
                    self.deliver(one, other)?;
                    self.report(one, other)?;
                }
            }
            self.spread()?;
            if round % 20 == 0 {
                self.now_ms += 10;
                self.tick()?;
            }
            if self.news.is_empty() && self.nodes.iter().all(|node| node.forwards.is_clear()) {
                return Ok(());
            }
        }
        Err("something waits for ever".to_owned())
    }

    fn submit(&mut self) -> Result<(), String> {
        let connection = self.chance.below(self.connections as usize) as u64;
        if self.closed.contains(&connection) {
            return Ok(());
        }
        let position = Position([3, HALF + 3][self.chance.below(2)]);
        let nature = [Nature::Change, Nature::Change, Nature::Numbered, Nature::Read][self.chance.below(4)];
        let node = connection as usize % NODES;
        let (told, executed) = (Vec::new(), Vec::new());
        let (is_dropped, is_again, was_busy) = (false, false, false);
        let story = Story { node, connection, position, nature, told, executed, is_dropped, is_again, was_busy };
        self.stories.push(story);
        self.submit_at(node, connection, self.stories.len() - 1)
    }

    fn submit_at(&mut self, node: usize, connection: u64, what: usize) -> Result<(), String> {
        let deadline_ms = self.chance.percent(10).then_some(self.now_ms + 300);
        let Story { position, nature, .. } = self.stories[what];
        let catalogue = CatalogueVersion(1);
        let request = Submission { connection, position, nature, catalogue, bytes: 10, deadline_ms, what };
        self.at(node, |node, now_ms, out| node.forwards.submit(request, now_ms, &node.routes, out))
    }

    fn at(&mut self, node: usize, act: impl FnOnce(&mut Node, u64, &mut Vec<Action<usize>>)) -> Result<(), String> {
        let mut out = Vec::new();
        act(&mut self.nodes[node], self.now_ms, &mut out);
        out.into_iter().try_for_each(|action| self.perform(node, action))
    }

    fn perform(&mut self, node: usize, action: Action<usize>) -> Result<(), String> {
        match action {
            Action::Answer { what, code } => {
                self.seen.in_doubt += u64::from(code == ErrorCode::InDoubt);
                self.seen.no_leader += u64::from(code == ErrorCode::NoLeader);
                self.tell(what, Told::Code(code));
                Ok(())
            }
            Action::Attempt(attempt) => {
                let what = *self.nodes[node].forwards.get(attempt.id).ok_or("an attempt without a request")?;
                let to = match attempt.to {
                    Destination::Here { .. } => node,
                    Destination::Node(to) => index(to),
                };
                let named = self.nodes[node].told.get(&attempt.shard).and_then(|(_, named)| *named);
                if named != Some(to) {
                    return Err(format!("request {what} went to {to}, whom the highest term does not name: {named:?}"));
                }
                self.stories[what].is_again |= attempt.is_again;
                self.seen.again += u64::from(attempt.is_again);
                if to == node {
                    let outcome = self.execute(node, Gate::LOCAL, &attempt, what)?;
                    return self.push_local(node, attempt.id, outcome);
                }
                if self.stories[what].node != node {
                    return Err(format!("request {what} was sent on by {node}"));
                }
                self.seen.sent += 1;
                let link = self.links.get_mut(&(node, to)).ok_or("sent without a link")?;
                link.requests.push_back((attempt, what));
                Ok(())
            }
        }
    }

    fn push_local(&mut self, node: usize, attempt: u64, outcome: Option<Outcome>) -> Result<(), String> {
        self.nodes[node].outcomes.extend(outcome.map(|outcome| (attempt, outcome)));
        Ok(())
    }

    /// A request arrives where it is to be executed. `None`: it is passed on, which only a mutant does.
    fn execute(&mut self, node: usize, link: u64, attempt: &Attempt, what: usize) -> Result<Option<Outcome>, String> {
        let position = self.stories[what].position;
        let arrival = Arrival { link, stream: attempt.stream, generation: attempt.generation, position };
        let this = &mut self.nodes[node];
        match this.gate.admit(arrival, &this.routes) {
            Admission::Close => Err("too many streams for so few requests".to_owned()),
            Admission::Refuse(Refused::Moved(_))
                if self.mutant == Some(Mutant::ForwardOfForward) && link != Gate::LOCAL =>
            {
                self.submit_at(node, 1_000_000 + attempt.id, what).map(|()| None)
            }
            Admission::Refuse(why) => {
                self.seen.refused += 1;
                self.seen.old_generation += u64::from(why == Refused::OldGeneration);
                Ok(Some(Outcome::Refused(why)))
            }
            Admission::Run { .. }
                if self.shards[attempt.shard.0 as usize - 1].leader == Some(node) && self.chance.percent(10) =>
            {
                self.stories[what].was_busy = true;
                self.seen.busy_again += u64::from(attempt.is_again);
                Ok(Some(Outcome::Busy))
            }
            Admission::Run { .. } if self.shards[attempt.shard.0 as usize - 1].leader == Some(node) => {
                let story = &mut self.stories[what];
                self.clock += 1;
                self.seen.executed += 1;
                if story.nature != Nature::Numbered || story.executed.is_empty() {
                    story.executed.push(self.clock);
                }
                Ok(Some(Outcome::Done))
            }
            // It believes that it leads, and nobody follows: what it proposes is lost, or it knows in time.
            Admission::Run { .. } if self.chance.percent(30) => Ok(Some(Outcome::InDoubt)),
            Admission::Run { .. } => {
                assert!(self.nodes[node].gate.refuse(arrival));
                Ok(Some(Outcome::Refused(Refused::NoLeader)))
            }
        }
    }

    fn tell(&mut self, what: usize, told: Told) {
        self.stories[what].told.push(told);
    }

    /// A request comes to the end of its link.
    fn deliver(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&(from, to)) else { return Ok(()) };
        let Some((attempt, what)) = link.requests.pop_front() else { return Ok(()) };
        let number = link.number;
        let outcome = self.execute(to, number, &attempt, what)?;
        let link = self.links.get_mut(&(from, to)).ok_or("the link is still there")?;
        link.outcomes.extend(outcome.map(|outcome| (attempt.id, outcome)));
        Ok(())
    }

    /// An outcome comes back.
    fn report(&mut self, from: usize, to: usize) -> Result<(), String> {
        let outcomes = match self.links.get_mut(&(from, to)) {
            Some(link) => &mut link.outcomes,
            None if from == to => &mut self.nodes[from].outcomes,
            None => return Ok(()),
        };
        let Some((attempt, outcome)) = outcomes.pop_front() else { return Ok(()) };
        let why = match outcome {
            Outcome::Done => return self.answered(from, attempt, Told::Done),
            Outcome::InDoubt => return self.answered(from, attempt, Told::Code(ErrorCode::InDoubt)),
            Outcome::Busy => return self.answered(from, attempt, Told::Code(ErrorCode::Busy)),
            Outcome::Refused(why) => why,
        };
        if let Refused::Moved(moved) = &why
            && let (Some(leader), Some(what)) = (moved.leader, self.nodes[from].forwards.get(attempt))
        {
            let shard = shard_of(self.stories[*what].position);
            self.hear(from, shard, moved.term, index(leader));
        }
        self.at(from, |node, now_ms, out| node.forwards.refused(attempt, why, now_ms, &mut node.routes, out))
    }

    fn answered(&mut self, node: usize, attempt: u64, told: Told) -> Result<(), String> {
        let mut who = None;
        self.at(node, |node, now_ms, out| who = node.forwards.answered(attempt, now_ms, &node.routes, out))?;
        if let Some(Answered { what, may_have_happened }) = who {
            let told = match told {
                Told::Code(_) if may_have_happened => Told::Code(ErrorCode::InDoubt),
                told => told,
            };
            self.tell(what, told);
        }
        Ok(())
    }

    /// What the node has been told, by the test's own account.
    fn hear(&mut self, node: usize, shard: ShardId, term: u64, leader: usize) {
        let told = self.nodes[node].told.entry(shard).or_insert((0, None));
        if term > told.0 {
            *told = (term, Some(leader));
        }
    }

    fn spread(&mut self) -> Result<(), String> {
        if self.news.is_empty() {
            return Ok(());
        }
        let (node, shard, term, leader) = self.news.swap_remove(self.chance.below(self.news.len()));
        self.hear(node, shard, term, leader);
        self.at(node, |node, now_ms, out| {
            node.routes.hear(shard, term, Some(replica(shard, leader)));
            node.forwards.news(now_ms, &node.routes, out);
        })
    }

    fn elect(&mut self, shard: usize, leader: usize) {
        let term = self.shards[shard].term + 1;
        self.shards[shard] = Shard { term, leader: Some(leader) };
        let shard = ShardId(shard as u32 + 1);
        self.news.extend((0..NODES).map(|node| (node, shard, term, leader)));
    }

    fn connect(&mut self, from: usize, to: usize) -> Result<(), String> {
        if from == to || self.links.contains_key(&(from, to)) {
            return Ok(());
        }
        self.last_link += 1;
        self.links.insert((from, to), Link { number: self.last_link, ..Link::default() });
        self.at(from, |node, now_ms, out| node.forwards.link_up(id(to), now_ms, &node.routes, out))
    }

    /// Some of what was sent arrives all the same; no outcome does.
    fn cut(&mut self, from: usize, to: usize) -> Result<(), String> {
        while self.chance.percent(50) {
            self.deliver(from, to)?;
        }
        let Some(link) = self.links.remove(&(from, to)) else { return Ok(()) };
        self.nodes[to].gate.closed(link.number);
        self.at(from, |node, now_ms, out| node.forwards.link_down(id(to), now_ms, &node.routes, out))
    }

    fn close(&mut self) {
        let connection = self.chance.below(self.connections as usize) as u64;
        self.closed.insert(connection);
        self.connections += 1;
        self.nodes[connection as usize % NODES].forwards.closed(connection);
        let gone = self.stories.iter_mut().filter(|story| story.connection == connection);
        gone.for_each(|story| story.is_dropped = true);
    }

    fn tick(&mut self) -> Result<(), String> {
        (0..NODES).try_for_each(|node| self.at(node, |node, now_ms, out| node.forwards.tick(now_ms, &node.routes, out)))
    }
}

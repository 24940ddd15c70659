//! Units of the rate limiter: who gets them when. Grants are not entries: what a client was told it may do has happened, and a
//! new leader begins with nothing saved up, so that together they grant no more than one of them might.
//!
//! A request takes its units of the resource that it names and of all above it, when all of them have enough. Those who wait
//! are served in the order in which they came: whoever lacks units of a resource keeps all behind it from that resource, and
//! nobody else.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};

use self::bucket::Bucket;
use super::streams::busy;
use super::timers::Timer;
use super::{Leader, NodeReply, Origin, Out, Patience, ResourceCall, Ticket, Units};
use crate::command::Command;
use crate::ids::{NodeNumber, ResourceId};
use crate::limits::UNIT_WAITERS_MAX;
use crate::state::{Coord, Node};
use crate::status::{Refusal, Status};

/// The units of all nodes that anybody has asked for.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// When this leader began: nobody knows what was used before.
    since_ms: u64,
    nodes: BTreeMap<NodeNumber, Pool>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Counts requests that wait; the order in which they came.
    last_turn: u64,
}

/// One node's. Invariant: no queue is empty.
#[derive(Debug, Default)]
struct Pool {
    buckets: BTreeMap<ResourceId, Bucket>,
    /// Those who wait, by resource and turn.
    queues: BTreeMap<ResourceId, BTreeMap<u64, Ticket>>,
    /// When somebody can be served; a timer is set for it.
    serve_at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    node: NodeNumber,
    resource: ResourceId,
    turn: u64,
    units: f64,
    /// When it gives up, and what it is told then.
    until: Option<(u64, Status)>,
}

/// What becomes of the first in a queue.
enum Turn {
    Served,
    /// It is the first that this resource lacks units for.
    Lacks {
        resource: ResourceId,
        ready_ms: u64,
    },
    /// Somebody who came before waits for the same.
    Behind,
}

impl Pools {
    pub fn empty_since(since_ms: u64) -> Self {
        Self { since_ms, ..Self::default() }
    }

    pub fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.keys().copied()
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let gone = self.waiting.remove(&ticket)?;
        if let Some(pool) = self.nodes.get_mut(&gone.node)
            && let Some(queue) = pool.queues.get_mut(&gone.resource)
        {
            queue.remove(&gone.turn);
            if queue.is_empty() {
                pool.queues.remove(&gone.resource);
            }
        }
        Some(gone)
    }
}

impl Pool {
    /// The buckets of a resource and of all above it that have a limit, filled up to now.
    fn chain(&mut self, node: &Node, resource: ResourceId, since_ms: u64, now_ms: u64) -> Vec<ResourceId> {
        let limited = node.chain(resource).filter(|(_, pace)| pace.max_units_per_second > 0.0);
        let each = limited.map(|(id, pace)| {
            let bucket = self.buckets.entry(id).or_insert_with(|| Bucket::empty(pace, since_ms));
            bucket.refill(now_ms);
            id
        });
        each.collect()
    }

    fn take(&mut self, chain: &[ResourceId], units: f64) {
        for id in chain {
            self.buckets.get_mut(id).expect("a chain has buckets").take(units);
        }
    }

    /// Takes units of the whole chain if nobody before waits for any of it, and all of it has enough.
    fn turn(&mut self, chain: &[ResourceId], units: f64, blocked: &BTreeSet<ResourceId>) -> Turn {
        if chain.iter().any(|id| blocked.contains(id)) {
            return Turn::Behind;
        }
        // From the resource itself upwards: while it has too little itself, it must not keep others from what is above.
        if let Some(&resource) = chain.iter().find(|id| !self.buckets[id].has(units)) {
            let ready_ms = chain.iter().map(|id| self.buckets[id].ready_ms(units)).max().unwrap_or_default();
            return Turn::Lacks { resource, ready_ms };
        }
        self.take(chain, units);
        Turn::Served
    }
}

impl Leader {
    pub(super) fn call_resource(
        &mut self,
        coord: &Coord,
        ticket: Ticket,
        node: &str,
        path: &str,
        call: ResourceCall,
        out: &mut Out,
    ) {
        // A look takes its place among the changes, like that at a node.
        let mut look = |list| {
            let origin = Origin::Resources { ticket, node: node.into(), path: path.into(), list };
            out.propose(&Command::DescribeNode { path: node }, origin);
        };
        match call {
            ResourceCall::List { recursive } => look(Some(recursive)),
            ResourceCall::Describe => look(None),
            ResourceCall::Create(pace) => {
                out.propose(&Command::CreateResource { node, path, pace }, Origin::Node(ticket));
            }
            ResourceCall::Alter(pace) => {
                out.propose(&Command::AlterResource { node, path, pace }, Origin::Node(ticket));
            }
            ResourceCall::Drop => out.propose(&Command::DropResource { node, path }, Origin::Node(ticket)),
            ResourceCall::Acquire { units, patience } => match coord.known_resource(node, path) {
                Ok((node, resource)) => self.acquire_units(coord, ticket, (node, resource), units, patience, out),
                // For this call alone it is a bad request (coordination 210).
                Err(Refusal { status: Status::NotFound, message }) => {
                    out.replies.push((ticket, NodeReply::Refused(Refusal::new(Status::BadRequest, message))));
                }
                Err(refusal) => out.replies.push((ticket, NodeReply::Refused(refusal))),
            },
        }
    }

    /// Answered from this leader's memory, now or when the units are there.
    fn acquire_units(
        &mut self,
        coord: &Coord,
        ticket: Ticket,
        (number, resource): (NodeNumber, ResourceId),
        units: Units,
        patience: Option<Patience>,
        out: &mut Out,
    ) {
        let since_ms = self.pools.since_ms;
        let pool = self.pools.nodes.entry(number).or_default();
        let units = match units {
            Units::Required(units) => units as f64,
            Units::Used(units) => {
                let chain = pool.chain(&coord.nodes[&number], resource, since_ms, self.now_ms);
                pool.take(&chain, units as f64);
                return out.replies.push((ticket, NodeReply::Done));
            }
        };
        if self.pools.waiting.len() >= UNIT_WAITERS_MAX {
            return out.replies.push((ticket, NodeReply::Refused(busy())));
        }
        self.pools.last_turn += 1;
        let turn = self.pools.last_turn;
        pool.queues.entry(resource).or_default().insert(turn, ticket);
        let until = patience.map(|patience| (self.now_ms.saturating_add(patience.ms), patience.status));
        self.pools.waiting.insert(ticket, Waiting { node: number, resource, turn, units, until });
        if let Some((at_ms, _)) = until {
            self.timers.set(at_ms, Timer::Patience(ticket));
        }
        self.serve_units(coord, number, out);
    }

    /// Serves whoever can be served, in the order in which they came, and sets the timer for the next.
    pub(super) fn serve_units(&mut self, coord: &Coord, number: NodeNumber, out: &mut Out) {
        let (since_ms, now_ms) = (self.pools.since_ms, self.now_ms);
        let (Some(node), Some(pool)) = (coord.nodes.get(&number), self.pools.nodes.get_mut(&number)) else { return };
        let first = |queue: &BTreeMap<u64, Ticket>| queue.first_key_value().map(|(&turn, &ticket)| (turn, ticket));
        let mut heads: BTreeMap<u64, Ticket> = pool.queues.values().filter_map(first).collect();
        let mut blocked = BTreeSet::new();
        let mut next_ms: Option<u64> = None;
        while let Some((_, ticket)) = heads.pop_first() {
            let waiting = self.pools.waiting[&ticket];
            let pool = self.pools.nodes.get_mut(&number).expect("just looked");
            let chain = pool.chain(node, waiting.resource, since_ms, now_ms);
            match pool.turn(&chain, waiting.units, &blocked) {
                Turn::Served => {
                    self.end_patience(ticket);
                    out.replies.push((ticket, NodeReply::Done));
                    heads.extend(self.pools.nodes[&number].queues.get(&waiting.resource).and_then(first));
                }
                Turn::Lacks { resource, ready_ms } => {
                    blocked.insert(resource);
                    next_ms = Some(next_ms.map_or(ready_ms, |next_ms| next_ms.min(ready_ms)));
                }
                Turn::Behind => {}
            }
        }
        self.serve_next(number, next_ms);
    }

    fn serve_next(&mut self, number: NodeNumber, next_ms: Option<u64>) {
        let pool = self.pools.nodes.get_mut(&number).expect("the caller has it");
        let before_ms = std::mem::replace(&mut pool.serve_at_ms, next_ms);
        if let Some(at_ms) = before_ms {
            self.timers.clear(at_ms, Timer::Units(number));
        }
        if let Some(at_ms) = next_ms {
            self.timers.set(at_ms, Timer::Units(number));
        }
    }

    /// Takes a request out of its queue, and its deadline with it.
    fn end_patience(&mut self, ticket: Ticket) -> Option<Waiting> {
        let gone = self.pools.remove(ticket)?;
        if let Some((at_ms, _)) = gone.until {
            self.timers.clear(at_ms, Timer::Patience(ticket));
        }
        Some(gone)
    }

    /// It has waited long enough; those behind it may be served now.
    pub(super) fn lose_patience(&mut self, coord: &Coord, ticket: Ticket, out: &mut Out) {
        let Some(gone) = self.end_patience(ticket) else { return };
        let status = gone.until.map_or(Status::Timeout, |(_, status)| status);
        let refusal = Refusal::new(status, "the units did not come in time");
        out.replies.push((ticket, NodeReply::Refused(refusal)));
        self.serve_units(coord, gone.node, out);
    }

    /// Whoever called does not wait for the answer any longer: units are not spent on it.
    pub fn withdraw(&mut self, coord: &Coord, ticket: Ticket, out: &mut Out) {
        if let Some(gone) = self.end_patience(ticket) {
            self.serve_units(coord, gone.node, out);
        }
    }

    /// A new resource has all that may be used at once.
    pub(super) fn fill(&mut self, coord: &Coord, number: NodeNumber, resource: ResourceId) {
        let Some(pace) = pace_of(coord, number, resource) else { return };
        let pool = self.pools.nodes.entry(number).or_default();
        pool.buckets.insert(resource, Bucket::full(&pace, self.now_ms));
    }

    pub(super) fn repace(&mut self, coord: &Coord, number: NodeNumber, resource: ResourceId, out: &mut Out) {
        let Some(pace) = pace_of(coord, number, resource) else { return };
        let (since_ms, now_ms) = (self.pools.since_ms, self.now_ms);
        let pool = self.pools.nodes.entry(number).or_default();
        let bucket = pool.buckets.entry(resource).or_insert_with(|| Bucket::empty(&pace, since_ms));
        bucket.repace(&pace, now_ms);
        self.serve_units(coord, number, out);
    }

    /// Nobody is left above or below it; whoever waits for it waits for nothing.
    pub(super) fn forget_resource(&mut self, coord: &Coord, number: NodeNumber, resource: ResourceId, out: &mut Out) {
        let Some(pool) = self.pools.nodes.get_mut(&number) else { return };
        pool.buckets.remove(&resource);
        let queue = pool.queues.get(&resource).map(|queue| queue.values().copied().collect::<Vec<_>>());
        self.refuse_units(queue.unwrap_or_default(), out);
        self.serve_units(coord, number, out);
    }

    /// The node is gone.
    pub(super) fn drain_pool(&mut self, number: NodeNumber, out: &mut Out) {
        if !self.pools.nodes.contains_key(&number) {
            return;
        }
        let of_node = self.pools.waiting.iter().filter(|(_, waiting)| waiting.node == number);
        let tickets = of_node.map(|(&ticket, _)| ticket).collect();
        self.refuse_units(tickets, out);
        self.serve_next(number, None);
        self.pools.nodes.remove(&number);
    }

    fn refuse_units(&mut self, tickets: Vec<Ticket>, out: &mut Out) {
        for ticket in tickets {
            self.end_patience(ticket);
            let refusal = Refusal::new(Status::BadRequest, "the resource was dropped");
            out.replies.push((ticket, NodeReply::Refused(refusal)));
        }
    }
}

fn pace_of(coord: &Coord, number: NodeNumber, resource: ResourceId) -> Option<crate::resources::Pace> {
    Some(coord.nodes.get(&number)?.resources.get(&resource)?.pace)
}

impl Coord {
    /// The answer to a list or a describe.
    pub(super) fn see_resources(&self, node: &str, path: &str, list: Option<bool>) -> NodeReply {
        let seen = match list {
            Some(recursive) => self.list_resources(node, path, recursive).map(NodeReply::Resources),
            None => {
                let described = self.describe_resource(node, path);
                described.map(|pace| NodeReply::Resource { path: path.to_owned(), pace })
            }
        };
        seen.unwrap_or_else(NodeReply::Refused)
    }
}

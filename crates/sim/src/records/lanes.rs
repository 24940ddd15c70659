//! What a lane of the server does with requests: who executes them is decided by `shardine_router` ([`Forwards`], [`Gate`], [`Routes`]),
//! as there; here they meet the replicas of a node and its links. Clients may ask any node.
//!
//! A forwarded request is never forwarded again: what does not belong here is refused, with a hint at who leads.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use shardine_host::Parted;
use shardine_model::codec::Reader;
use shardine_model::command::Origin;
use shardine_model::{
    Ack, Answer, CatalogueVersion, ClusterMap, Descriptor, ErrorCode, NodeId, Position, Request, ShardId,
};
use shardine_router::forward::{Action, Answered, Attempt, Destination, Options, Submission};
use shardine_router::{
    Admission, Arrival, Forwards, Gate, Moved, Refused, RemoteCall, Response, Routes, RowCall, ShardAsk,
};
use shardine_shard::{Caller, Replica, Returned};
use shardine_transport as transport;

use crate::check::Violation;
use crate::event::{Event as AnyEvent, Input as AnyInput};
use crate::links::{Heard, LinkId, Told};
use crate::records::Records;
use crate::records::ask::{Ask, Job, with_request};
use crate::records::check::each_request_once;
use crate::records::clients::epoch_of;
use crate::records::event::Input;
use crate::records::history::Operation;
use crate::tenant::Tenant;
use crate::world::World;

/// This bit in its source tells a caller from outside the lane from a connection; its sequence is its number there.
pub const OUTSIDE: u64 = 1 << 63;
/// This one tells a call that comes alone, and has no order to keep, from a connection.
pub const ALONE: u64 = 1 << 62;
/// The lane stands in the lowest bits of what travels: all lanes of a node share a link here.
const LANE_BITS: u32 = 4;
/// Ticks between two times at which leaders are told again: news may be lost.
const TELL_TICKS: u64 = 3;

/// Who gets an answer that leaves the lane.
#[derive(Clone, Copy, Debug)]
enum Outside {
    /// Another node, under its own number for the request.
    Foreign { link: LinkId, id: u64, arrival: Arrival },
    /// A request of this node's own that was held.
    Held(Attempt),
}

/// A request that may be tried more than once, and who waits for its answer.
#[derive(Clone, Debug)]
struct Asked {
    caller: Caller,
    attempt: u64,
    body: Vec<u8>,
}

/// What is to be done before the turn ends.
#[derive(Debug)]
enum Todo {
    GiveBack(Vec<Returned>),
    /// Shards of a lane were parted. The lane that has them says so first, and tells the others.
    Parted(Vec<Descriptor>),
    Answered(u64, Response),
    NotSent(u64, Refused),
    NotTaken(u64),
}

/// One lane of a node.
pub struct Lane {
    routes: Routes,
    forwards: Forwards<Asked>,
    gate: Gate,
    outside: BTreeMap<u64, Outside>,
    last_outside: u64,
    todo: VecDeque<Todo>,
}

/// What is known of lanes from above.
#[derive(Default)]
pub struct Lanes {
    /// By node; none of one that is down.
    of: Vec<Vec<Lane>>,
    /// By the node that sent a request, its life and its number there: the attempt that it is about.
    sent: BTreeMap<(usize, u64, u64), u64>,
    /// By node and group: term and leader that the others were told of last.
    told: BTreeMap<(usize, usize), (u64, u64)>,
    next_alone: u64,
}

impl Lanes {
    pub fn new(nodes: usize) -> Self {
        Self { of: (0..nodes).map(|_| Vec::new()).collect(), ..Self::default() }
    }

    fn get(&mut self, node: usize, lane: usize) -> Option<&mut Lane> {
        self.of[node].get_mut(lane)
    }

    fn alone(&mut self) -> u64 {
        self.next_alone += 1;
        // Attempts have the other half of these numbers.
        ALONE | 1 << 61 | self.next_alone
    }
}

impl Lane {
    fn enter(&mut self, outside: Outside) -> Caller {
        self.last_outside += 1;
        self.outside.insert(self.last_outside, outside);
        Caller { source: OUTSIDE, sequence: self.last_outside }
    }
}

impl World<Records> {
    /// A process begins, with nothing but its map.
    pub fn open_lanes(&mut self, node: usize) {
        if !self.ground.has_links {
            return;
        }
        let map = self.map_of(node);
        let own = self.nodes[node].id;
        let options = Options { mutant: self.tenant.plan.mutant.and_then(of_router), ..Options::default() };
        let lanes = 0..self.ground.lanes;
        let lane = |_| Lane {
            routes: Routes::new(own, Arc::clone(&map)),
            forwards: Forwards::new(options),
            gate: Gate::default(),
            outside: BTreeMap::new(),
            last_outside: 0,
            todo: VecDeque::new(),
        };
        self.tenant.lanes.of[node] = lanes.map(lane).collect();
        (0..self.ground.groups).for_each(|group| self.seat_changed(node, group));
    }

    pub fn close_lanes(&mut self, node: usize) {
        self.tenant.lanes.of[node].clear();
        self.tenant.lanes.told.retain(|(of, _), _| *of != node);
    }

    fn map_of(&self, node: usize) -> Arc<ClusterMap> {
        match &self.nodes[node].chart {
            Some(chart) => Arc::new(chart.cluster.clone()),
            None => Arc::new(self.first_map()),
        }
    }

    /// A replica has a seat here now, or has left it.
    pub fn seat_changed(&mut self, node: usize, group: usize) {
        let seated = self.nodes[node].replicas.get(group).is_some();
        for lane in 0..self.tenant.lanes.of[node].len() {
            let is_here = seated && lane == self.nodes[node].replicas.lane_of(group);
            self.reroute(node, lane, |routes| {
                routes.seat(Records::shard(group), is_here.then_some(lane));
                true
            });
        }
    }

    pub fn map_changed(&mut self, node: usize) {
        let map = self.map_of(node);
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.reroute(node, lane, |routes| routes.adopt(Arc::clone(&map)));
        }
        self.settle_lanes(node);
    }

    /// Somebody says who leads a group.
    pub fn hear_leader(&mut self, node: usize, group: usize, term: u64, leader: u64) {
        let leader = shardine_model::ReplicaId(leader);
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.reroute(node, lane, |routes| routes.hear(Records::shard(group), term, Some(leader)));
        }
        self.settle_lanes(node);
    }

    /// A node is taken for dead, or no longer.
    pub fn life_changed(&mut self, node: usize, of: NodeId, is_suspected: bool) {
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.reroute(node, lane, |routes| if is_suspected { routes.suspect(of) } else { routes.trust(of) });
        }
        self.settle_lanes(node);
    }

    /// Tells everybody who leads a group, if that is news, or has not been said for a while.
    pub fn tell_leader(&mut self, node: usize, group: usize, again: bool) {
        if !self.ground.has_links {
            return;
        }
        let Some(replica) = self.nodes[node].replicas.get(group) else { return };
        let Some(leader) = replica.group().leader() else { return };
        let (now, is_own) = ((replica.term(), leader.0), leader == replica.id());
        if self.tenant.lanes.told.insert((node, group), now) == Some(now) && !(again && is_own) {
            return;
        }
        let (term, leader) = now;
        let life = self.nodes[node].life;
        let news = || AnyInput::Own(Input::Leader { group, term, leader });
        self.later(0, AnyEvent::Own { node, life, input: news() });
        for other in (0..self.nodes.len()).filter(|other| *other != node && is_own) {
            for at in self.net.send(node, other, self.now).arrivals.into_iter().flatten() {
                self.schedule.at(at, AnyEvent::Arrive { node: other, input: news() });
            }
        }
    }

    /// A request of a client's comes to a lane of the node that it is connected to.
    pub fn take_routed(&mut self, node: usize, attempt: u64, connection: u64) {
        let Operation { job, origin, .. } =
            self.tenant.history.operation(self.tenant.history.attempt(attempt).operation).clone();
        let universe = Rc::clone(&self.tenant.universe);
        let row = &universe.rows[job.row()];
        let (lane, position) = (row.home % self.ground.lanes, row.key.as_ref().position());
        let caller = Caller { source: connection, sequence: attempt };
        let is_change = matches!(&job, Job::One { ask, .. } if *ask != Ask::Get) || matches!(job, Job::Pair { .. });
        let here = self.holder_of(node, position);
        let here = here.filter(|group| self.nodes[node].replicas.get(*group).is_some_and(Replica::is_serving));
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        if let Some(group) = here
            && is_change
            && !this.forwards.has_line(connection, position)
        {
            self.drive(node, group, |replica, actions| {
                with_request(&universe.rows, &job, origin, |request| {
                    replica.submit(caller, request, epoch_of(replica), actions);
                });
            });
            return;
        }
        let place = this.routes.find(position).map(|place| (place.shard, place.bounds.lo.position));
        let (shard, begin) = place.unwrap_or((Records::shard(row.home), universe.intervals[row.home].lo));
        let call = call_of(&universe.rows, &job, origin, shard);
        let (source, position) = match &call {
            RemoteCall::Shard { .. } => (self.tenant.lanes.alone(), begin),
            _ => (connection, position),
        };
        if let Some(group) = self.group_of(shard) {
            self.tenant.history.is_for(attempt, group);
        }
        self.forward((node, lane), caller, attempt, source, position, &call);
        self.settle_lanes(node);
    }

    /// Gives a request to whoever leads its partition.
    fn forward(
        &mut self,
        (node, lane): (usize, usize),
        caller: Caller,
        attempt: u64,
        connection: u64,
        position: Position,
        call: &RemoteCall,
    ) {
        let submission = submission(caller, attempt, connection, position, call);
        self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
            forwards.submit(submission, now_ms, routes, actions);
        });
    }

    fn with_forwards(
        &mut self,
        node: usize,
        lane: usize,
        act: impl FnOnce(&mut Forwards<Asked>, &mut Routes, u64, &mut Vec<Action<Asked>>),
    ) {
        let now_ms = self.nodes[node].clock.read(self.now).monotonic_ms;
        let mut actions = Vec::new();
        if let Some(this) = self.tenant.lanes.get(node, lane) {
            act(&mut this.forwards, &mut this.routes, now_ms, &mut actions);
        }
        for action in actions {
            match action {
                Action::Answer { what, code } => {
                    self.tenant.counters.held_in_vain += u64::from(code == ErrorCode::NoLeader);
                    self.respond(node, lane, what.caller, Response::Answer(Answer::Failed(code)));
                }
                Action::Attempt(attempt) => self.attempt(node, lane, attempt),
            }
        }
    }

    fn reroute(&mut self, node: usize, lane: usize, change: impl FnOnce(&mut Routes) -> bool) {
        self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
            if change(routes) {
                forwards.news(now_ms, routes, actions);
            }
        });
    }

    /// One try at a request.
    fn attempt(&mut self, node: usize, lane: usize, attempt: Attempt) {
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        let Some(Asked { attempt: about, body, .. }) = this.forwards.get(attempt.id).cloned() else { return };
        let is_again = attempt.is_again && attempt.nature == shardine_router::Nature::Numbered;
        let body = if is_again { again(&body) } else { body };
        self.note(&[34, node as u64, about, attempt.id, attempt.generation], || {
            format!("node {} tries request {about} at {:?} as {}", node + 1, attempt.to, attempt.id)
        });
        if attempt.is_again {
            self.tenant.counters.asked_again += 1;
            self.tenant.history.ask_again(about);
        }
        match attempt.to {
            Destination::Here { .. } => self.attempt_here(node, lane, attempt, &body),
            Destination::Node(to) => self.send_request((node, lane), attempt, about, to, &body),
        }
    }

    fn send_request(&mut self, (node, lane): (usize, usize), attempt: Attempt, about: u64, to: NodeId, body: &[u8]) {
        let (life, own) = (self.nodes[node].life, self.tenant.history.attempt(about).node);
        if own != node {
            let detail = format!("request {about} came to node {} and was sent on by node {}", own + 1, node + 1);
            return self.demand(Err(Violation::new(each_request_once::NAME, detail)));
        }
        let id = abroad(attempt.id, lane);
        let forward = transport::Forward {
            id,
            stream: abroad(attempt.stream, lane),
            generation: attempt.generation,
            shard: attempt.shard,
            epoch: attempt.epoch,
            flags: transport::ForwardFlags {
                is_read: attempt.nature == shardine_router::Nature::Read,
                is_numbered: attempt.nature == shardine_router::Nature::Numbered,
            },
            within_ms: attempt.within_ms.unwrap_or(0),
            body: transport::Body::Call(body),
        };
        let todo = match self.links.outbox_to(node, life, to).map(|outbox| outbox.push_forward(&forward)) {
            None => Todo::NotSent(attempt.id, Refused::NoLeader),
            Some(Err(_)) => Todo::NotTaken(attempt.id),
            Some(Ok(())) => {
                self.tenant.counters.forwarded += 1;
                self.tenant.lanes.sent.insert((node, life, id), about);
                return;
            }
        };
        self.todo(node, lane, todo);
    }

    /// What was held for somebody else is this node's by now.
    fn attempt_here(&mut self, node: usize, lane: usize, attempt: Attempt, body: &[u8]) {
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        let number = this.enter(Outside::Held(attempt)).sequence;
        let call = RemoteCall::from_bytes(body).expect("written here");
        let Some(position) = self.position_of((node, lane), &call) else {
            return self.todo(node, lane, Todo::Answered(number, failed(ErrorCode::StaleRoute)));
        };
        let Attempt { stream, generation, .. } = attempt;
        let arrival = Arrival { link: Gate::LOCAL, stream, generation, position };
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        match this.gate.admit(arrival, &this.routes) {
            Admission::Run { .. } => self.run((node, lane), call, position, number),
            Admission::Refuse(_) | Admission::Close => {
                self.todo(node, lane, Todo::Answered(number, failed(ErrorCode::NotLeader)));
            }
        }
    }

    /// Where a call belongs, as far as the lane knows.
    fn position_of(&self, (node, lane): (usize, usize), call: &RemoteCall) -> Option<Position> {
        match call {
            RemoteCall::Row(call) => Some(call.position().expect("a call of one partition")),
            RemoteCall::Shard { shard, .. } => {
                let routes = &self.tenant.lanes.of[node].get(lane)?.routes;
                routes.group(*shard).map(|group| group.bounds.lo.position)
            }
            other => unreachable!("nobody asks {other:?}"),
        }
    }

    /// Executes what came from another node, or was held for one.
    fn run(&mut self, (node, lane): (usize, usize), call: RemoteCall, position: Position, number: u64) {
        let group = match &call {
            RemoteCall::Shard { shard, .. } => self.group_of(*shard),
            _ => self.holder_of(node, position),
        };
        let Some(group) = group.filter(|group| self.nodes[node].replicas.get(*group).is_some()) else {
            return self.todo(node, lane, Todo::Answered(number, failed(ErrorCode::StaleRoute)));
        };
        let caller = Caller { source: OUTSIDE, sequence: number };
        let (host, seat) = match self.nodes[node].place_of(group) {
            Some((lane, seat)) => (&mut self.nodes[node].replicas.hosts[lane], seat),
            None => return,
        };
        let is_read = matches!(call, RemoteCall::Row(RowCall::Read { .. }));
        host.act(seat, |replica, actions| match call {
            RemoteCall::Row(RowCall::Read { row }) => replica.read(caller, row.as_ref(), actions),
            RemoteCall::Row(RowCall::Submit { request, ack, .. }) => {
                let request = Request::decode(&mut Reader::new(&request)).expect("a node wrote it");
                replica.submit_with(caller, &request, epoch_of(replica), ack, actions);
            }
            RemoteCall::Row(RowCall::Kick { row, nowait }) => replica.kick(caller, row.as_ref(), nowait, actions),
            RemoteCall::Row(RowCall::Flush { row }) => replica.flush_rows(caller, Some(row.as_ref()), None, actions),
            RemoteCall::Shard { ask: ShardAsk::Flush { .. }, .. } => replica.flush_rows(caller, None, None, actions),
            other => unreachable!("nobody asks {other:?}"),
        });
        let is_serving = self.nodes[node].replicas.get(group).is_some_and(Replica::is_serving);
        if is_serving && is_read {
            self.tenant.counters.asked_deposed += u64::from(self.leader_of(group) != Some(node));
            self.spring(node);
        }
    }

    fn todo(&mut self, node: usize, lane: usize, todo: Todo) {
        if let Some(this) = self.tenant.lanes.get(node, lane) {
            this.todo.push_back(todo);
        }
    }

    /// A replica was given a request that it has not proposed, and leads no more: whoever leads now gets it.
    pub fn give_back(&mut self, node: usize, group: usize, returned: Vec<Returned>) {
        if !returned.is_empty() {
            let lane = self.lane_of(group);
            self.todo(node, lane, Todo::GiveBack(returned));
        }
    }

    fn lane_of(&self, group: usize) -> usize {
        self.kinship.roots[group] % self.ground.lanes
    }

    /// A replica of the node has parted its shard: the lane knows both halves before anybody is sent there.
    pub fn parted(&mut self, node: usize, parted: &Parted) {
        let Some(group) = self.group_of(parted.parent).filter(|_| self.ground.has_links) else { return };
        let (lane, child) = (self.lane_of(group), self.group_of(parted.split.child));
        let replicas = &self.nodes[node].replicas;
        let whole = self.tenant.lanes.of[node].get(lane).and_then(|this| this.routes.group(parted.parent));
        let halves = parted.halves(whole, replicas.get(group), child.and_then(|child| replicas.get(child)));
        for other in 0..self.tenant.lanes.of[node].len() {
            self.todo(node, other, Todo::Parted(halves.clone()));
        }
    }

    fn hear_parted(&mut self, node: usize, lane: usize, halves: Vec<Descriptor>) {
        let seated = halves.iter().filter_map(|half| self.group_of(half.shard));
        let seated: Vec<usize> = seated.filter(|group| self.nodes[node].replicas.get(*group).is_some()).collect();
        self.reroute(node, lane, |routes| routes.learn(halves));
        for group in seated {
            if self.lane_of(group) != lane {
                continue;
            }
            self.reroute(node, lane, |routes| {
                routes.seat(Records::shard(group), Some(lane));
                true
            });
        }
    }

    /// A replica of the node has answered.
    pub fn answer_routed(&mut self, node: usize, group: usize, caller: Caller, answer: Answer) {
        self.respond(node, self.lane_of(group), caller, response(answer));
    }

    fn respond(&mut self, node: usize, lane: usize, caller: Caller, response: Response) {
        if caller.source & OUTSIDE != 0 {
            return self.todo(node, lane, Todo::Answered(caller.sequence, response));
        }
        self.answer(node, caller.sequence, answer_of(response));
    }

    /// Everything that has to be done before the turn ends, on all lanes.
    pub fn settle_lanes(&mut self, node: usize) {
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.turn(node, lane, |_| {});
        }
    }

    /// Does some of what is to be done. Says whether there was anything.
    pub fn settle_lane(&mut self, node: usize, lane: usize) -> bool {
        let Some(todo) = self.tenant.lanes.get(node, lane).and_then(|this| this.todo.pop_front()) else { return false };
        match todo {
            Todo::Parted(halves) => self.hear_parted(node, lane, halves),
            Todo::GiveBack(returned) => self.forward_returned(node, lane, returned),
            Todo::Answered(number, response) => self.answer_outside((node, lane), number, response),
            Todo::NotSent(id, why) => self.refused(node, lane, id, why),
            Todo::NotTaken(id) => {
                self.tenant.counters.not_taken += 1;
                self.answered(node, lane, id, failed(ErrorCode::Busy));
            }
        }
        true
    }

    fn forward_returned(&mut self, node: usize, lane: usize, returned: Vec<Returned>) {
        let mut own = Vec::new();
        for Returned { caller, request, why, .. } in returned {
            let (catalogue, ack) = (CatalogueVersion::FIRST, Ack::default());
            let call = RowCall::Submit { request: request.into(), catalogue, ack };
            match call.position() {
                Ok(position) if caller.source & OUTSIDE == 0 => {
                    self.tenant.counters.given_back += 1;
                    let call = RemoteCall::Row(call);
                    own.push(submission(caller, caller.sequence, caller.source, position, &call));
                }
                // Whoever asked for another node, or holds a line, keeps the request itself.
                _ => self.respond(node, lane, caller, failed(why)),
            }
        }
        self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
            forwards.give_back(own, now_ms, routes, actions);
        });
    }

    fn answer_outside(&mut self, (node, lane): (usize, usize), number: u64, response: Response) {
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        let Some(outside) = this.outside.remove(&number) else { return };
        let (is_misdirected, is_stale) = (is_misdirected(&response), is_stale(&response));
        match outside {
            Outside::Held(attempt) if is_misdirected => {
                let Attempt { stream, generation, .. } = attempt;
                this.gate.refuse(Arrival { link: Gate::LOCAL, stream, generation, position: Position(0) });
                let why = if is_stale { Refused::StaleRoute } else { Refused::NoLeader };
                self.refused(node, lane, attempt.id, why);
            }
            Outside::Held(attempt) => self.answered(node, lane, attempt.id, response),
            Outside::Foreign { link, id, arrival } if is_misdirected => {
                // Where bounds have changed whoever asked is told who has the rows now (sharding P-2).
                let moved = || Refused::Moved(this.routes.moved(arrival.position));
                let why = if is_stale { moved() } else { Refused::NoLeader };
                match this.gate.refuse(arrival) {
                    true => self.send_refusal(node, link, id, why),
                    false => self.close_link(node, link),
                }
            }
            Outside::Foreign { link, id, .. } => {
                let bytes = response.to_bytes().expect("rows and refusals can be told");
                self.send_answer(node, link, id, transport::Outcome::Done(&bytes));
            }
        }
    }

    fn answered(&mut self, node: usize, lane: usize, id: u64, mut response: Response) {
        let mut asked = None;
        let is_doubted = self.tenant.lanes.get(node, lane).is_some_and(|this| this.forwards.doubts(id));
        if is_doubted && matches!(response, Response::Answer(Answer::Failed(_))) {
            response = failed(ErrorCode::InDoubt);
        }
        self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
            asked = forwards.answered(id, now_ms, routes, actions);
        });
        if let Some(Answered { what: Asked { caller, .. }, may_have_happened }) = asked {
            let response = if may_have_happened { response.of_later_try() } else { response };
            self.respond(node, lane, caller, response);
        }
    }

    fn refused(&mut self, node: usize, lane: usize, id: u64, why: Refused) {
        self.tenant.counters.sent_back += 1;
        self.note(&[35, node as u64, id], || format!("node {} is refused attempt {id}: {why:?}", node + 1));
        self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
            forwards.refused(id, why, now_ms, routes, actions);
        });
    }

    fn send_refusal(&mut self, node: usize, link: LinkId, id: u64, why: Refused) {
        let mut descriptors = Vec::new();
        let outcome = match why {
            Refused::OldGeneration => transport::Outcome::OldGeneration,
            Refused::NoLeader | Refused::StaleRoute => {
                transport::Outcome::Moved { leader: NodeId(0), term: 0, descriptors: &[] }
            }
            Refused::Moved(Moved { leader, term, descriptors: known }) => {
                known.iter().for_each(|descriptor| descriptor.encode(&mut descriptors));
                transport::Outcome::Moved { leader: leader.unwrap_or_default(), term, descriptors: &descriptors }
            }
        };
        self.send_answer(node, link, id, outcome);
    }

    fn send_answer(&mut self, node: usize, link: LinkId, id: u64, outcome: transport::Outcome<'_>) {
        let life = self.nodes[node].life;
        if let Some(outbox) = self.links.outbox_of(link, node, life) {
            // One that has no room for an answer is given up when it is looked at next.
            let _ = outbox.push_answer(&transport::Answer { id, outcome });
        }
    }

    /// Something came on a link: a request of another node, or its answer.
    pub fn hear_routed(&mut self, node: usize, link: LinkId, heard: Heard) {
        match heard {
            Heard::Forward { id, stream, generation, body, .. } => {
                let call = RemoteCall::from_bytes(&body).expect("a node wrote it");
                match self.position_of((node, 0), &call) {
                    Some(position) => {
                        let arrival = Arrival { link, stream, generation, position };
                        self.receive(node, arrival, id, call);
                    }
                    None => self.send_refusal(node, link, id, Refused::StaleRoute),
                }
            }
            Heard::Answer { id, outcome } => {
                let (id, lane) = (id >> LANE_BITS, (id & ((1 << LANE_BITS) - 1)) as usize);
                match outcome {
                    Told::Done(bytes) => {
                        let response = Response::from_bytes(&bytes).expect("a node wrote it");
                        self.answered(node, lane, id, response);
                    }
                    Told::Refused(code) => self.answered(node, lane, id, failed(code)),
                    Told::Moved { leader, term, descriptors } => {
                        let why = moved(leader, term, &descriptors).map_or(Refused::NoLeader, Refused::Moved);
                        self.refused(node, lane, id, why);
                    }
                    Told::OldGeneration => self.refused(node, lane, id, Refused::OldGeneration),
                }
            }
            Heard::Raft(..) => unreachable!("it is every tenant's"),
        }
        self.settle_lanes(node);
    }

    fn receive(&mut self, node: usize, arrival: Arrival, id: u64, call: RemoteCall) {
        let intervals = &self.tenant.universe.intervals;
        let home = intervals.iter().position(|interval| interval.contains(arrival.position));
        let lane = home.expect("all positions are owned") % self.ground.lanes;
        let attempt = self.attempt_of(node, arrival.link, id);
        let Some(this) = self.tenant.lanes.get(node, lane) else { return };
        match this.gate.admit(arrival, &this.routes) {
            Admission::Run { .. } => {
                let number = this.enter(Outside::Foreign { link: arrival.link, id, arrival }).sequence;
                self.run((node, lane), call, arrival.position, number);
            }
            #[allow(clippy::wildcard_enum_match_arm, reason = "only a planted bug")]
            Admission::Refuse(Refused::Moved(_))
                if self.tenant.plan.mutant == Some(shardine_shard::Mutant::ForwardOfForward) =>
            {
                let caller = this.enter(Outside::Foreign { link: arrival.link, id, arrival });
                let source = self.tenant.lanes.alone();
                self.forward((node, lane), caller, attempt, source, arrival.position, &call);
            }
            Admission::Refuse(why) => self.send_refusal(node, arrival.link, id, why),
            Admission::Close => self.close_link(node, arrival.link),
        }
    }

    /// The attempt that a forwarded request is about: known from above only.
    fn attempt_of(&self, node: usize, link: LinkId, id: u64) -> u64 {
        let other = self.links.other_end(link, node);
        other.and_then(|(from, life)| self.tenant.lanes.sent.get(&(from, life, id))).copied().unwrap_or_default()
    }

    pub fn lanes_link_up(&mut self, node: usize, peer: NodeId) {
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
                forwards.link_up(peer, now_ms, routes, actions);
            });
        }
        self.settle_lanes(node);
    }

    /// A link is gone. `asked` is the node that was asked on it, if this end dialled.
    pub fn lanes_link_lost(&mut self, node: usize, link: LinkId, asked: Option<NodeId>) {
        for lane in 0..self.tenant.lanes.of[node].len() {
            if let Some(this) = self.tenant.lanes.get(node, lane) {
                this.gate.closed(link);
            }
            if let Some(peer) = asked {
                self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
                    forwards.link_down(peer, now_ms, routes, actions);
                });
            }
        }
        self.settle_lanes(node);
    }

    /// A connection of a client's is gone, and nobody waits for what it asked.
    pub fn forget_connection(&mut self, node: usize, connection: u64) {
        for lane in &mut self.tenant.lanes.of[node] {
            lane.forwards.closed(connection);
        }
    }

    pub fn lanes_tick(&mut self, node: usize) {
        let ticks = self.nodes[node].ticks;
        for lane in 0..self.tenant.lanes.of[node].len() {
            self.with_forwards(node, lane, |forwards, routes, now_ms, actions| {
                forwards.tick(now_ms, routes, actions);
            });
        }
        if ticks.is_multiple_of(TELL_TICKS) {
            (0..self.ground.groups).for_each(|group| self.tell_leader(node, group, true));
        }
        self.settle_lanes(node);
    }
}

fn submission(
    caller: Caller,
    attempt: u64,
    connection: u64,
    position: Position,
    call: &RemoteCall,
) -> Submission<Asked> {
    let body = call.to_bytes();
    Submission {
        connection,
        position,
        nature: call.nature(),
        catalogue: CatalogueVersion::FIRST,
        bytes: body.len(),
        deadline_ms: None,
        what: Asked { caller, attempt, body },
    }
}

fn abroad(number: u64, lane: usize) -> u64 {
    number << LANE_BITS | lane as u64
}

fn failed(code: ErrorCode) -> Response {
    Response::Answer(Answer::Failed(code))
}

/// A kick or a flush has no reply of its own: it is done.
fn response(answer: Answer) -> Response {
    match answer {
        Answer::Many(replies) if replies.is_empty() => Response::Done,
        answer => Response::Answer(answer),
    }
}

fn answer_of(response: Response) -> Answer {
    match response {
        Response::Answer(answer) => answer,
        Response::Done => Answer::Many(Vec::new()),
        Response::Refused(refusal) => Answer::Failed(refusal.code),
        other => unreachable!("nobody answers {other:?}"),
    }
}

/// Whether a response says that this node does not lead, and has done nothing.
fn is_misdirected(response: &Response) -> bool {
    let code = match response {
        Response::Answer(Answer::Failed(code)) => *code,
        Response::Refused(refusal) => refusal.code,
        _ => return false,
    };
    matches!(code, ErrorCode::NotLeader | ErrorCode::NoLeader | ErrorCode::StaleRoute)
}

/// Whether it says that the shard has other bounds than it was asked by.
fn is_stale(response: &Response) -> bool {
    matches!(response, Response::Answer(Answer::Failed(ErrorCode::StaleRoute)))
}

/// A request whose first try may have been executed.
fn again(body: &[u8]) -> Vec<u8> {
    RemoteCall::from_bytes(body).map_or_else(|_| body.to_vec(), |call| call.again().to_bytes())
}

/// What a refusal tells about who leads. `None` if it tells nothing.
fn moved(leader: NodeId, term: u64, mut descriptors: &[u8]) -> Option<Moved> {
    let mut found = Vec::new();
    while !descriptors.is_empty() {
        let mut reader = Reader::new(descriptors);
        found.push(Descriptor::decode(&mut reader).expect("a node wrote it"));
        descriptors = reader.rest();
    }
    let leader = Some(leader).filter(|leader| *leader != NodeId(0));
    (leader.is_some() || !found.is_empty()).then_some(Moved { leader, term, descriptors: found })
}

fn call_of(rows: &[crate::records::universe::Row], job: &Job, origin: Option<Origin>, shard: ShardId) -> RemoteCall {
    let key = rows[job.row()].key.clone();
    RemoteCall::Row(match job {
        Job::One { ask: Ask::Get, .. } | Job::Stale { .. } => RowCall::Read { row: key },
        Job::Kick { nowait, .. } => RowCall::Kick { row: key, nowait: *nowait },
        Job::Flush { whole_shard: false, .. } => RowCall::Flush { row: key },
        Job::Flush { whole_shard: true, .. } => {
            return RemoteCall::Shard { shard, ask: ShardAsk::Flush { table: None } };
        }
        Job::One { .. } | Job::Pair { .. } => {
            let mut request = Vec::new();
            with_request(rows, job, origin, |known| known.encode(&mut request));
            RowCall::Submit { request: request.into(), catalogue: CatalogueVersion::FIRST, ack: Ack::default() }
        }
    })
}

/// Bugs of the list that are planted in the router.
fn of_router(mutant: shardine_shard::Mutant) -> Option<shardine_router::forward::Mutant> {
    use shardine_router::forward::Mutant;
    match mutant {
        shardine_shard::Mutant::GivenBackLast => Some(Mutant::GivenBackLast),
        shardine_shard::Mutant::RetryInDoubt => Some(Mutant::RetryInDoubt),
        _ => None,
    }
}

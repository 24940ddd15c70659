//! The links of a lane to other nodes: what its groups tell theirs goes straight from here to the wire, and what comes is given to
//! the group it is for, whichever lane has it. One packet per node and turn, for all groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Registry, Token};
use shardine_host::Speakers;
use shardine_model::{ErrorCode, NodeId, ReplicaId, RequestEpoch, ShardId};
use shardine_router::forward::Attempt;
use shardine_router::{Nature, Refused};
use shardine_shard::Message;
use shardine_transport::{Answer, Body, Change, Forward, ForwardFlags, Item, LinkKind, Outcome};

use super::core::Core;
use super::forward::Departure;
use super::parted::Kin;
use super::questions::PATIENCE_MS;
use super::visits::Foreign;
use crate::atlas::Sheet;
use crate::peers::{Book, BulkSender, Closed, Content, Link, Parcel};

/// This bit in a token tells a link from a client's connection.
const LINK: usize = 1 << 63;

/// Where a token has the number of its lane: what is asked on the link of one lane may be done by another.
const LANE_SHIFT: u32 = 40;

/// Milliseconds between two dials of a node that does not answer.
const DIAL_EVERY_MS: u64 = 50;

/// What a lane needs to know of the cluster.
#[derive(Clone)]
pub(crate) struct Neighbours {
    pub book: Arc<Book>,
    pub sheet: Arc<Sheet>,
    /// Where snapshots go.
    pub bulk: BulkSender,
}

pub(crate) struct Links {
    lane: usize,
    neighbours: Neighbours,
    links: BTreeMap<usize, Link>,
    dialled: BTreeMap<NodeId, Dialled>,
    next_token: usize,
    lost: Vec<Lost>,
    buffer: Vec<u8>,
    /// Who has spoken on the links of this lane.
    speakers: Speakers,
}

/// A link that is gone.
pub(crate) struct Lost {
    link: usize,
    /// Whom this lane has asked on it.
    asked: Option<NodeId>,
}

#[derive(Default)]
struct Dialled {
    token: Option<usize>,
    again_ms: u64,
}

/// Whether a token is that of a link.
pub(super) fn is_link(token: usize) -> bool {
    token & LINK != 0
}

/// The lane that has a link.
pub(super) fn lane_of(link: u64) -> usize {
    (link as usize & !LINK) >> LANE_SHIFT
}

impl Links {
    pub fn new(lane: usize, neighbours: Neighbours) -> Self {
        let dialled = neighbours.book.peers().into_iter().map(|node| (node, Dialled::default())).collect();
        Self {
            lane,
            neighbours,
            links: BTreeMap::new(),
            dialled,
            next_token: LINK | lane << LANE_SHIFT,
            lost: Vec::new(),
            buffer: Vec::new(),
            speakers: Speakers::default(),
        }
    }

    fn token(&mut self) -> usize {
        self.next_token += 1;
        self.next_token
    }

    /// Sends a message to the replica that it is for. What cannot be sent now is lost, and Raft says it again.
    pub fn send(&mut self, shard: ShardId, message: Message) {
        let Neighbours { book, sheet, .. } = &self.neighbours;
        let Some(node) = book.node_of(&sheet.cluster, shard, message.to()) else { return };
        if message.is_snapshot() {
            return self
                .neighbours
                .bulk
                .send(Parcel { node, content: Content::Snapshot { shard, message: Box::new(message) } });
        }
        let token = self.dialled.get(&node).and_then(|dialled| dialled.token);
        if let Some(link) = token.and_then(|token| self.links.get_mut(&token)).filter(|link| link.is_open()) {
            let _ = link.outbox().push_raft(shard, |out| message.encode(out));
        }
    }

    /// There is a new map: nodes that have come are dialled, and those that were sent away are let go.
    pub fn turn_to(&mut self, sheet: &Arc<Sheet>, registry: &Registry) {
        self.neighbours.sheet = Arc::clone(sheet);
        self.speakers.turn_to(&sheet.cluster);
        let peers = self.neighbours.book.peers();
        for node in &peers {
            self.dialled.entry(*node).or_default();
        }
        let gone: Vec<NodeId> = self.dialled.keys().filter(|node| !peers.contains(node)).copied().collect();
        for node in gone {
            self.close_all_to(node, "the node has left the cluster", registry);
            self.dialled.remove(&node);
        }
    }

    fn close_all_to(&mut self, node: NodeId, why: &str, registry: &Registry) {
        let of_node = self.links.iter().filter(|(_, link)| link.peer() == node);
        let tokens: Vec<usize> = of_node.map(|(token, _)| *token).collect();
        let closed = Closed::Broken(why.to_owned());
        tokens.into_iter().for_each(|token| self.lost(token, &closed, registry));
    }

    /// Dials those that there is no link to.
    pub fn dial_missing(&mut self, now_ms: u64, registry: &Registry) {
        let due = self.dialled.iter().filter(|(_, dialled)| dialled.token.is_none() && dialled.again_ms <= now_ms);
        let due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
        for node in due {
            let again_ms = now_ms + DIAL_EVERY_MS;
            let dialled = self.neighbours.book.address(node).and_then(|address| {
                let token = self.token();
                let hello = self.neighbours.book.hello(LinkKind::Append, node, self.lane);
                let link = Link::dial(address, hello, registry, Token(token)).ok()?;
                self.links.insert(token, link);
                Some(token)
            });
            self.dialled.insert(node, Dialled { token: dialled, again_ms });
        }
    }

    /// Takes over a link that a peer has dialled.
    pub fn add(&mut self, peer: NodeId, stream: TcpStream, rest: &[u8], registry: &Registry, core: &mut Core) {
        let token = self.token();
        let Ok(mut link) = Link::accepted(stream, peer, LinkKind::Append, (registry, Token(token))) else { return };
        let hear = hearer(&mut self.speakers, &self.neighbours.book, (token, peer), core);
        if link.receive(rest, hear).is_ok() {
            self.links.insert(token, link);
            self.read(token, registry, core);
        }
    }

    /// The kernel has news of a link.
    pub fn ready(&mut self, token: usize, event: &Event, registry: &Registry, core: &mut Core) {
        let Some(link) = self.links.get_mut(&token) else { return };
        if let Some(closed) = event.is_error().then(|| link.failure()).flatten() {
            return self.lost(token, &closed, registry);
        }
        if event.is_readable() || event.is_read_closed() {
            link.note_readable(event.is_read_closed());
            self.read(token, registry, core);
        }
    }

    fn read(&mut self, token: usize, registry: &Registry, core: &mut Core) {
        let Some(mut link) = self.links.remove(&token) else { return };
        let was_open = link.is_open();
        let hear = hearer(&mut self.speakers, &self.neighbours.book, (token, link.peer()), core);
        let read = link.read(&self.neighbours.book, &mut self.buffer, hear);
        if !was_open && link.is_open() {
            core.link_up(link.peer());
        }
        self.links.insert(token, link);
        if let Err(closed) = read {
            self.lost(token, &closed, registry);
        }
    }

    /// Links that had more than one turn takes.
    pub fn resume(&mut self, registry: &Registry, core: &mut Core) {
        let more: Vec<usize> = self.links.iter().filter(|(_, link)| link.may_read()).map(|(token, _)| *token).collect();
        more.into_iter().for_each(|token| self.read(token, registry, core));
    }

    pub fn has_ready(&self) -> bool {
        self.links.values().any(Link::may_read)
    }

    /// Everything that was said in this turn leaves.
    pub fn flush(&mut self, registry: &Registry) {
        let flush = |(token, link): (&usize, &mut Link)| link.flush().err().map(|closed| (*token, closed));
        let lost: Vec<(usize, Closed)> = self.links.iter_mut().filter_map(flush).collect();
        lost.into_iter().for_each(|(token, closed)| self.lost(token, &closed, registry));
    }

    /// What the control links say of a node. A link to one that is silent is given up: what waits on it would wait as long as the
    /// silence does.
    pub fn change(&mut self, change: Change, registry: &Registry) {
        match change {
            Change::Suspected(node) => self.close_all_to(node, "the node is silent", registry),
            Change::Cleared(_) => {}
        }
    }

    /// What has become of links since it was last asked.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    fn lost(&mut self, token: usize, closed: &Closed, registry: &Registry) {
        let Some(link) = self.links.remove(&token) else { return };
        let (peer, was_open) = (link.peer(), link.is_open());
        let dialled = self.dialled.get_mut(&peer).filter(|dialled| dialled.token == Some(token));
        let asked = dialled.map(|dialled| {
            dialled.token = None;
            peer
        });
        if was_open {
            tracing::debug!(node = self.neighbours.book.name(peer), ?closed, "an append link is gone");
        }
        self.lost.push(Lost { link: token, asked });
        link.close(registry);
    }

    /// Where members of groups live that the map does not have yet.
    pub fn know(&mut self, (shard, replica, node): Kin) {
        if self.speakers.hear(shard, replica, node) {
            self.neighbours.book.heard(shard, replica, node);
        }
    }

    /// A link that has no room for an answer is given up, which leaves whoever asked in doubt.
    fn answer(&mut self, to: Foreign, outcome: Outcome<'_>) {
        if let Some(link) = self.links.get_mut(&(to.arrival.link as usize)) {
            let _ = link.outbox().push_answer(&Answer { id: to.id, outcome });
        }
    }

    /// Sends a request or an answer. What cannot be sent was certainly not executed, or is in doubt for whoever asked.
    pub fn depart(&mut self, departure: Departure, registry: &Registry, core: &mut Core) {
        match departure {
            Departure::Request { node, attempt, body } => {
                let Attempt { id, stream, generation, shard, epoch, nature, within_ms, .. } = attempt;
                let token = self.dialled.get(&node).and_then(|dialled| dialled.token);
                let link = token.and_then(|token| self.links.get_mut(&token)).filter(|link| link.is_open());
                let Some(link) = link else { return core.refused(id, Refused::NoLeader) };
                let forward = Forward {
                    id,
                    stream,
                    generation,
                    shard,
                    epoch,
                    flags: ForwardFlags { is_read: nature == Nature::Read, is_numbered: nature == Nature::Numbered },
                    within_ms: within_ms.unwrap_or(0),
                    body: Body::Call(&body),
                };
                if link.outbox().push_forward(&forward).is_err() {
                    core.not_taken(id);
                }
            }
            Departure::Question { node, id, body } => {
                let token = self.dialled.get(&node).and_then(|dialled| dialled.token);
                let link = token.and_then(|token| self.links.get_mut(&token)).filter(|link| link.is_open());
                let question = Forward {
                    id,
                    stream: 0,
                    generation: 0,
                    shard: ShardId(0),
                    epoch: RequestEpoch::FIRST,
                    flags: ForwardFlags { is_read: true, is_numbered: false },
                    within_ms: PATIENCE_MS,
                    body: Body::Call(&body),
                };
                if link.is_none_or(|link| link.outbox().push_forward(&question).is_err()) {
                    core.hear_reply(id, None);
                }
            }
            Departure::Answer { to, response } => {
                let bytes = response.to_bytes();
                self.answer(
                    to,
                    match &bytes {
                        Some(bytes) => Outcome::Done(bytes),
                        None => {
                            Outcome::Refused { code: ErrorCode::Unsupported, message: "only the node itself knows" }
                        }
                    },
                );
            }
            Departure::Refusal { to, why } => match why {
                Refused::OldGeneration => self.answer(to, Outcome::OldGeneration),
                Refused::NoLeader | Refused::StaleRoute => {
                    self.answer(to, Outcome::Moved { leader: NodeId(0), term: 0, descriptors: &[] })
                }
                Refused::Moved(moved) => {
                    let mut descriptors = Vec::new();
                    moved.descriptors.iter().for_each(|descriptor| descriptor.encode(&mut descriptors));
                    let leader = moved.leader.unwrap_or_default();
                    self.answer(to, Outcome::Moved { leader, term: moved.term, descriptors: &descriptors });
                }
            },
            Departure::Close { link } => {
                let closed = Closed::Broken("too many of its requests were refused".to_owned());
                self.lost(link as usize, &closed, registry);
            }
        }
    }
}

/// Gives what a peer says on a link to the lane, and keeps in mind who spoke.
fn hearer<'a>(
    speakers: &'a mut Speakers,
    book: &'a Book,
    (link, peer): (usize, NodeId),
    core: &'a mut Core,
) -> impl FnMut(Item<'_>) + 'a {
    move |item| {
        if let Some((shard, replica)) = core.hear(link, item)
            && speakers.hear(shard, replica, peer)
        {
            book.heard(shard, replica, peer);
        }
    }
}

impl Core {
    /// What a peer has said on a link of this lane. Gives the replica that spoke, if one did.
    fn hear(&mut self, link: usize, item: Item<'_>) -> Option<(ShardId, ReplicaId)> {
        match item {
            Item::Raft(raft) => match Message::decode(raft.message) {
                Ok(message) => {
                    let from = (raft.shard, message.from());
                    self.step(raft.shard, message);
                    return Some(from);
                }
                Err(error) => tracing::warn!(shard = %raft.shard, %error, "a message of a peer cannot be read"),
            },
            Item::Forward(forward) => self.hear_forward(link as u64, &forward),
            Item::Answer(answer) => self.hear_answer(&answer),
            Item::Goodbye(_)
            | Item::Pulse(_)
            | Item::Leader(_)
            | Item::Suspicion(_)
            | Item::MapVersion(_)
            | Item::MapDelta(_)
            | Item::Begin(_)
            | Item::Piece(_)
            | Item::End(_)
            | Item::TransferRefused(_)
            | Item::Taken(_) => {}
        }
        None
    }

    /// What the groups of this lane and its connections want of other nodes.
    pub fn take_departures(&mut self) -> Vec<Departure> {
        std::mem::take(&mut self.departures)
    }

    /// A link is gone.
    pub(super) fn lost(&mut self, lost: Lost) {
        self.forget_own_link(lost.link as u64);
        if let Some(node) = lost.asked {
            self.link_down(node);
        }
    }

    /// Gives a message to the group that it is for.
    pub fn step(&mut self, shard: ShardId, message: Message) {
        if self.host.seat_of(shard).is_some() {
            self.host.step(shard, message);
        } else {
            self.exchange.step_elsewhere(shard, message, self.number);
        }
    }
}

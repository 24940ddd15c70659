//! Links between nodes, on which the server's own sessions speak (`shardine-transport`): a greeting, then batches of items, in order,
//! until one side closes or the wire breaks with some of it on its way. Raft's messages and whatever tenants tell each other go over
//! them in runs that have links; snapshots, pulses and maps go beside them, as on links of other kinds.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::{NodeId, ShardId};
use shardine_shard::Message;
use shardine_transport::{
    Admission, Forward, Greeting, Hello, Inbound, Item, LinkKind, Local, Opening, Outbox, Outcome, Refusal, Standing,
    Welcome, Who,
};

use crate::disk::CLUSTER;
use crate::event::{Event, Input};
use crate::ground::MS;
use crate::tenant::Tenant;
use crate::world::World;

/// The number of a link. Never used again.
pub type LinkId = u64;

/// Bytes that the wire takes in one go: few, so that items are parted, and break in the middle.
const WIRE_BYTES: u64 = 1_400;
/// How long it takes until the other end of a link knows that it is gone.
const NOTICED_SOON: (u64, u64) = (100, 3 * MS);
const NOTICED_LATE: (u64, u64) = (300 * MS, 3_000 * MS);

/// All links of a run. Invariant: a link that both ends know to be gone is not there any more.
#[derive(Debug, Default)]
pub struct Links {
    all: BTreeMap<LinkId, [End; 2]>,
    last: LinkId,
}

/// Which end of a link.
const DIALLED: usize = 0;
const ACCEPTED: usize = 1;

#[derive(Debug)]
struct End {
    machine: usize,
    life: u64,
    /// Who is at the other end, once both have greeted.
    peer: Option<NodeId>,
    stage: Stage,
    outbox: Outbox,
    /// Of the greeting.
    unsent: Vec<u8>,
    /// What is on its way to this end, and when each piece arrives.
    wire: VecDeque<(u64, Vec<u8>)>,
    last_at: u64,
}

#[derive(Debug)]
enum Stage {
    Dialled(Opening, Box<Hello>),
    Accepted(Opening),
    Open(Inbound),
    /// This end knows that the link is gone.
    Gone,
}

/// What came on a link, in its own memory.
#[derive(Debug)]
pub enum Heard {
    Raft(ShardId, Message),
    Forward { id: u64, stream: u64, generation: u64, shard: ShardId, body: Vec<u8> },
    Answer { id: u64, outcome: Told },
}

/// [`Outcome`], in its own memory.
#[derive(Debug)]
pub enum Told {
    Done(Vec<u8>),
    Moved { leader: NodeId, term: u64, descriptors: Vec<u8> },
    Refused(shardine_model::ErrorCode),
    OldGeneration,
}

impl Heard {
    fn of(item: &Item<'_>) -> Option<Self> {
        Some(match item {
            Item::Raft(raft) => Self::Raft(raft.shard, Message::decode(raft.message).expect("a peer wrote it")),
            Item::Forward(Forward { id, stream, generation, shard, body, .. }) => {
                let (shardine_transport::Body::Call(body) | shardine_transport::Body::Request(body)) = body;
                let body = body.to_vec();
                Self::Forward { id: *id, stream: *stream, generation: *generation, shard: *shard, body }
            }
            Item::Answer(answer) => {
                let outcome = match answer.outcome {
                    Outcome::Done(bytes) => Told::Done(bytes.to_vec()),
                    Outcome::Moved { leader, term, descriptors } => {
                        Told::Moved { leader, term, descriptors: descriptors.to_vec() }
                    }
                    Outcome::Refused { code, .. } => Told::Refused(code),
                    Outcome::OldGeneration => Told::OldGeneration,
                };
                Self::Answer { id: answer.id, outcome }
            }
            _ => return None,
        })
    }
}

impl End {
    fn new(machine: usize, life: u64, stage: Stage, room: Option<usize>) -> Self {
        let outbox = Outbox::new(LinkKind::Append);
        let outbox = match room {
            Some(bytes) => outbox.with_room(bytes),
            None => outbox,
        };
        Self { machine, life, peer: None, stage, outbox, unsent: Vec::new(), wire: VecDeque::new(), last_at: 0 }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }

    fn take_unsent(&mut self, room: usize) -> Vec<u8> {
        if !self.unsent.is_empty() {
            return std::mem::take(&mut self.unsent);
        }
        if !self.is_open() {
            return Vec::new();
        }
        let waiting = self.outbox.bytes();
        let bytes = waiting[..waiting.len().min(room)].to_vec();
        self.outbox.written(bytes.len());
        bytes
    }
}

impl Links {
    fn end(&mut self, link: LinkId, side: usize) -> Option<&mut End> {
        self.all.get_mut(&link).map(|ends| &mut ends[side])
    }

    /// The end of a link that a process has, if it knows of no end to it.
    fn side_of(&self, link: LinkId, machine: usize, life: u64) -> Option<usize> {
        let ends = self.all.get(&link)?;
        ends.iter().position(|end| end.machine == machine && end.life == life && !end.is_gone())
    }

    /// Links of a process, and its ends of them.
    fn of(&self, machine: usize, life: u64) -> Vec<(LinkId, usize)> {
        let links = self.all.keys().filter_map(|link| Some((*link, self.side_of(*link, machine, life)?)));
        links.collect()
    }

    /// The link that a process has dialled to a node.
    fn to(&mut self, machine: usize, life: u64, node: NodeId) -> Option<(LinkId, &mut End)> {
        let (link, ends) = self.all.iter_mut().find(|(_, ends)| {
            let end = &ends[DIALLED];
            end.machine == machine && end.life == life && end.peer == Some(node) && end.is_open()
        })?;
        Some((*link, &mut ends[DIALLED]))
    }

    fn is_dialling(&self, machine: usize, life: u64, node: NodeId) -> bool {
        self.all.values().any(|[end, _]| {
            let is_meant = match &end.stage {
                Stage::Dialled(_, hello) => hello.expects == node,
                Stage::Open(_) => end.peer == Some(node),
                Stage::Accepted(_) | Stage::Gone => false,
            };
            end.machine == machine && end.life == life && is_meant
        })
    }

    /// What waits to be sent on the link that a process has dialled to a node, if it is open.
    pub fn outbox_to(&mut self, machine: usize, life: u64, node: NodeId) -> Option<&mut Outbox> {
        self.to(machine, life, node).map(|(_, end)| &mut end.outbox)
    }

    /// Bytes on their way to an end.
    fn on_wire(&mut self, link: LinkId, side: usize) -> usize {
        self.end(link, side).map_or(0, |end| end.wire.iter().map(|(_, piece)| piece.len()).sum())
    }

    /// Who is at the other end of a link of this machine, and in which life.
    pub fn other_end(&self, link: LinkId, machine: usize) -> Option<(usize, u64)> {
        let ends = self.all.get(&link)?;
        ends.iter().find(|end| end.machine != machine).map(|end| (end.machine, end.life))
    }

    /// The same of any link, by its number.
    pub fn outbox_of(&mut self, link: LinkId, machine: usize, life: u64) -> Option<&mut Outbox> {
        let side = self.side_of(link, machine, life)?;
        self.end(link, side).filter(|end| end.is_open()).map(|end| &mut end.outbox)
    }
}

impl<T: Tenant> World<T> {
    fn who(&self, machine: usize) -> Who {
        let node = &self.nodes[machine];
        Who {
            cluster: CLUSTER,
            node: node.id,
            name: format!("n{}", machine + 1),
            incarnation: node.life,
            start: self.ground.seed ^ node.life << 32 ^ machine as u64,
            features: 0,
        }
    }

    /// A process dials those to whom it has no link, at every tick.
    pub fn dial_missing(&mut self, machine: usize) {
        if !self.ground.has_links {
            return;
        }
        let life = self.nodes[machine].life;
        for node in self.peers(machine) {
            let Some(other) = self.machine(node) else { continue };
            let is_reachable = self.nodes[other].is_up()
                && !self.net.is_cut(machine, other, self.now)
                && !self.net.is_cut(other, machine, self.now);
            if !is_reachable || self.links.is_dialling(machine, life, node) {
                continue;
            }
            let hello = Hello::new(self.who(machine), LinkKind::Append, node);
            let (there, room) = (self.nodes[other].life, self.ground.outbox_bytes);
            let mut dialler =
                End::new(machine, life, Stage::Dialled(Opening::dialled(), Box::new(hello.clone())), room);
            dialler.unsent = hello.to_frame();
            let acceptor = End::new(other, there, Stage::Accepted(Opening::accepted()), room);
            self.links.last += 1;
            self.links.all.insert(self.links.last, [dialler, acceptor]);
            self.counters.links_dialled += 1;
        }
        self.flush_links(machine);
    }

    fn peers(&self, machine: usize) -> Vec<NodeId> {
        let own = self.nodes[machine].id;
        let nodes = match &self.nodes[machine].chart {
            Some(chart) => chart.full.members().map(|node| node.node).collect(),
            None => self.nodes.iter().map(|node| node.id).collect::<Vec<_>>(),
        };
        nodes.into_iter().filter(|node| *node != own).collect()
    }

    /// Sends a message on the link to a node. What cannot be sent now is lost, and Raft says it again.
    pub fn push_raft(&mut self, machine: usize, to: NodeId, shard: ShardId, message: &Message) {
        let life = self.nodes[machine].life;
        let pushed = self.links.outbox_to(machine, life, to);
        let pushed = pushed.is_some_and(|outbox| outbox.push_raft(shard, |out| message.encode(out)).is_ok());
        self.counters.messages_lost += u64::from(!pushed);
    }

    /// Everything that was said in a turn leaves.
    pub fn flush_links(&mut self, machine: usize) {
        if !self.ground.has_links {
            return;
        }
        let life = self.nodes[machine].life;
        for (link, side) in self.links.of(machine, life) {
            let Some(end) = self.links.end(link, side) else { continue };
            if end.outbox.is_overflown() {
                self.close_link(machine, link);
                continue;
            }
            // Where the wire is full, the rest waits.
            let room =
                self.ground.outbox_bytes.unwrap_or(usize::MAX).saturating_sub(self.links.on_wire(link, 1 - side));
            let Some(end) = self.links.end(link, side).filter(|_| room > 0) else { continue };
            let bytes = end.take_unsent(room);
            if !bytes.is_empty() {
                self.put_on_wire(machine, (link, side), bytes);
            }
        }
    }

    fn put_on_wire(&mut self, from: usize, (link, side): (LinkId, usize), mut bytes: Vec<u8>) {
        let other = 1 - side;
        while !bytes.is_empty() {
            let count = (1 + self.chance.below(WIRE_BYTES) as usize).min(bytes.len());
            let rest = bytes.split_off(count);
            // Nobody reads any more what is written into a wire that is broken.
            let Some(end) = self.links.end(link, other).filter(|end| end.last_at != u64::MAX) else { return };
            let (to, life) = (end.machine, end.life);
            let at = self.net.flow(from, to, self.now).max(end.last_at);
            end.last_at = at;
            end.wire.push_back((at, std::mem::replace(&mut bytes, rest)));
            self.schedule.at(at, Event::Own { node: to, life, input: Input::Link { link } });
        }
    }

    /// There is something to read on a link.
    pub fn read_link(&mut self, machine: usize, link: LinkId) {
        let life = self.nodes[machine].life;
        let Some(side) = self.links.side_of(link, machine, life) else { return };
        while let Some(end) = self.links.end(link, side)
            && !end.is_gone()
            && end.wire.front().is_some_and(|(at, _)| *at <= self.now)
        {
            let (_, bytes) = end.wire.pop_front().expect("just looked");
            let mut heard = Vec::new();
            if end.is_open() {
                let Stage::Open(inbound) = &mut end.stage else { return };
                let read = inbound.receive(&bytes, |item| heard.extend(Heard::of(&item)));
                read.expect("a whole wire brings what was sent");
            } else if let Err(why) = self.greet_on(machine, (link, side), &bytes, &mut heard) {
                self.note(&[31, machine as u64, link], || format!("node {} ends link {link}: {why}", machine + 1));
                self.flush_links(machine);
                return self.close_link(machine, link);
            }
            for heard in heard {
                if self.lives(machine, life) {
                    self.hear_on(machine, link, heard);
                }
            }
        }
        self.flush_links(machine);
    }

    fn hear_on(&mut self, machine: usize, link: LinkId, heard: Heard) {
        let life = self.nodes[machine].life;
        let Some(side) = self.links.side_of(link, machine, life) else { return };
        let Some(peer) = self.links.end(link, side).and_then(|end| end.peer) else { return };
        match heard {
            Heard::Raft(shard, message) => {
                if let Some(group) = self.group_of(shard) {
                    self.take_in(machine, Input::Message { group, sender: peer, message });
                }
            }
            heard @ (Heard::Forward { .. } | Heard::Answer { .. }) => T::hear(self, machine, link, heard),
        }
    }

    /// The first words on a link. What is wrong with them ends it.
    fn greet_on(
        &mut self,
        machine: usize,
        (link, side): (LinkId, usize),
        bytes: &[u8],
        heard: &mut Vec<Heard>,
    ) -> Result<(), String> {
        let who = self.who(machine);
        let Some(end) = self.links.end(link, side) else { return Ok(()) };
        let greeting = match &mut end.stage {
            Stage::Dialled(opening, _) | Stage::Accepted(opening) => opening.receive(bytes),
            Stage::Open(_) | Stage::Gone => return Ok(()),
        };
        let Some(greeting) = greeting.map_err(|broken| broken.to_string())? else { return Ok(()) };
        let (shown, admitted) = match (&end.stage, greeting) {
            (Stage::Accepted(_), Greeting::Hello(hello)) => {
                let admitted = self.admit(machine, &hello);
                let answer = match &admitted {
                    Ok(_) => Welcome::new(who, &hello).to_frame(),
                    Err(refusal) => refusal.to_frame(),
                };
                if let Some(end) = self.links.end(link, side) {
                    end.unsent = answer;
                }
                (hello.who.node, admitted)
            }
            (Stage::Dialled(_, hello), Greeting::Welcome(welcome)) => {
                let hello = hello.clone();
                (welcome.who.node, self.admit_acceptor(machine, &hello, &welcome))
            }
            (_, Greeting::Refused(refusal)) => return Err(refusal.to_string()),
            (_, greeting) => return Err(format!("{greeting:?} is out of place")),
        };
        if let Admission::Remember(node, sighting) = admitted.map_err(|refusal| refusal.to_string())? {
            // On its disk, like everything else of the node's that is not of a group.
            self.nodes[machine].sightings.note(node, sighting);
        }
        let Some(end) = self.links.end(link, side) else { return Ok(()) };
        end.peer = Some(shown);
        let mut inbound = Inbound::new(LinkKind::Append);
        let stage = std::mem::replace(&mut end.stage, Stage::Gone);
        let (Stage::Dialled(opening, _) | Stage::Accepted(opening)) = stage else { return Ok(()) };
        inbound.receive(&opening.into_rest(), |item| heard.extend(Heard::of(&item))).map_err(|why| why.to_string())?;
        end.stage = Stage::Open(inbound);
        self.note(&[30, machine as u64, link], || format!("node {} has link {link} with node {shown}", machine + 1));
        if side == DIALLED {
            T::link_up(self, machine, shown);
        }
        Ok(())
    }

    fn standing(&self, machine: usize, node: NodeId) -> Standing {
        let chart = self.nodes[machine].chart.as_ref();
        let known = chart.and_then(|chart| chart.full.nodes.get(&node));
        let is_removed = known.is_some_and(|node| !node.is_member());
        if is_removed { Standing::Removed } else { Standing::Fine }
    }

    fn admit(&self, machine: usize, hello: &Hello) -> Result<Admission, Refusal> {
        let (who, sightings) = (self.who(machine), &self.nodes[machine].sightings);
        Local { who: &who, sightings }.admit(hello, self.standing(machine, hello.who.node))
    }

    fn admit_acceptor(&self, machine: usize, hello: &Hello, welcome: &Welcome) -> Result<Admission, Refusal> {
        let (who, sightings) = (self.who(machine), &self.nodes[machine].sightings);
        Local { who: &who, sightings }.admit_acceptor(hello, welcome, self.standing(machine, welcome.who.node))
    }

    /// A process gives a link up: what it has sent may still arrive, and the other end finds out a little later.
    pub fn close_link(&mut self, machine: usize, link: LinkId) {
        let life = self.nodes[machine].life;
        let Some(side) = self.links.side_of(link, machine, life) else { return };
        self.end_is_gone(link, side);
        self.other_finds_out(link, 1 - side, NOTICED_SOON);
        self.forget_gone(link);
    }

    /// The wire breaks. Of what was on its way some arrives.
    fn break_link(&mut self, link: LinkId) {
        self.counters.links_broken += 1;
        for side in [DIALLED, ACCEPTED] {
            let Some(end) = self.links.end(link, side) else { return };
            let whole = end.wire.len() as u64;
            let kept = self.chance.below(whole + 1) as usize;
            self.counters.links_torn += u64::from(kept < whole as usize);
            if let Some(end) = self.links.end(link, side) {
                end.wire.truncate(kept);
            }
            let span = if self.chance.percent(70) { NOTICED_SOON } else { NOTICED_LATE };
            self.other_finds_out(link, side, span);
        }
    }

    /// Breaks some links of a machine, or all.
    pub fn break_links(&mut self, machine: usize) {
        let links = self.links.of(machine, self.nodes[machine].life);
        let all = self.chance.percent(40);
        for (link, _) in links {
            if all || self.chance.percent(40) {
                self.break_link(link);
            }
        }
    }

    /// An end hears that the link is gone, behind everything that arrives there.
    fn other_finds_out(&mut self, link: LinkId, side: usize, span: (u64, u64)) {
        let delay = self.chance.between(span);
        let knows = |end: &End| end.is_gone() || end.last_at == u64::MAX;
        let Some(end) = self.links.end(link, side).filter(|end| !knows(end)) else { return };
        let (node, life, at) = (end.machine, end.life, end.last_at.max(self.now) + delay);
        // Nothing comes behind it.
        end.last_at = u64::MAX;
        self.schedule.at(at, Event::Own { node, life, input: Input::LinkGone { link } });
    }

    /// The kernel says that a link is gone. What came before that is read.
    pub fn link_gone(&mut self, machine: usize, link: LinkId) {
        self.read_link(machine, link);
        let life = self.nodes[machine].life;
        if let Some(side) = self.links.side_of(link, machine, life) {
            self.end_is_gone(link, side);
            self.other_finds_out(link, 1 - side, NOTICED_SOON);
            self.forget_gone(link);
        }
    }

    /// A process knows that a link is gone, and lets those know who have used it.
    fn end_is_gone(&mut self, link: LinkId, side: usize) {
        let Some(end) = self.links.end(link, side) else { return };
        let (machine, peer) = (end.machine, end.peer.filter(|_| side == DIALLED));
        let was_open = end.is_open();
        end.stage = Stage::Gone;
        end.wire.clear();
        self.note(&[32, machine as u64, link], || format!("node {} loses link {link}", machine + 1));
        if was_open {
            T::link_lost(self, machine, link, peer);
        }
    }

    fn forget_gone(&mut self, link: LinkId) {
        let is_gone =
            |end: &End| end.is_gone() || !self.nodes[end.machine].is_up() || self.nodes[end.machine].life != end.life;
        if self.links.all.get(&link).is_some_and(|ends| ends.iter().all(is_gone)) {
            self.links.all.remove(&link);
        }
    }

    /// A process is gone, and its links with it. Some of the others are told so by its kernel, the others find out for themselves.
    pub fn links_die(&mut self, machine: usize) {
        let life = self.nodes[machine].life;
        let span = if self.chance.percent(70) { NOTICED_SOON } else { NOTICED_LATE };
        for (link, side) in self.links.of(machine, life) {
            if let Some(end) = self.links.end(link, side) {
                (end.stage, end.wire) = (Stage::Gone, VecDeque::new());
            }
            self.other_finds_out(link, 1 - side, span);
            self.forget_gone(link);
        }
    }

    /// A node is taken for dead: what waits on its links would wait as long as that is so.
    pub fn give_up_links_to(&mut self, machine: usize, node: NodeId) {
        let life = self.nodes[machine].life;
        for (link, side) in self.links.of(machine, life) {
            if self.links.end(link, side).is_some_and(|end| end.peer == Some(node)) {
                self.close_link(machine, link);
            }
        }
    }
}

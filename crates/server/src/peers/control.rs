//! The thread of control links: lets other nodes in at the peer port, tells them every 50 ms that this one lives, and notices
//! when one of them does not. It never waits for a disk, except for the file that remembers a node's newest start, and never for a
//! lane.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use shardine_model::{CatalogueVersion, NodeId, Timestamp};
use shardine_store::Storage;
use shardine_transport::limits::PULSE_MS;
use shardine_transport::{
    Change, Clocks, Goodbye, Item, Lead, LeaderNews, Leads, LinkKind, Liveness, MapDelta, MapVersion, Pulse,
};

use super::board::Board;
use super::book::Book;
use super::bulk::{Deliver, Receivers};
use super::guests::{Arrived, Guests};
use super::link::{Closed, Link};
use crate::clock::Clock;
use crate::failover::PeerNews;
use crate::lane_message::{Inbox, LaneMessage};
use crate::owner_thread;

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_LINK: usize = 2;

/// Bits of a list's number that count within one start of a node; those above are the start's.
const LIST_BITS: u32 = 32;

/// Milliseconds between two dials of a node that does not answer.
const DIAL_EVERY_MS: u64 = 100;

/// What others on this node have to tell the nodes.
pub(crate) enum ControlMessage {
    /// A group of this node has a new leader.
    Leader(LeaderNews),
    /// The node has a new map.
    Map,
    /// What whoever leads the map's group has for a node that is behind.
    Delta {
        node: NodeId,
        from: u64,
        to: u64,
        change: Vec<u8>,
    },
    /// The node stops.
    Goodbye,
    Stop,
}

/// The way in for the rest of the node.
#[derive(Clone)]
pub(crate) struct ControlHandle {
    messages: Sender<ControlMessage>,
    waker: Arc<Waker>,
}

impl ControlHandle {
    pub fn send(&self, message: ControlMessage) {
        let _ = self.messages.send(message);
        let _ = self.waker.wake();
    }
}

/// Who is told what this thread finds out.
pub(crate) struct Audience {
    pub lanes: Vec<Inbox>,
    /// Which nodes live and who may follow whom, for those who have no inbox.
    pub tell: Box<dyn Fn(PeerNews) + Send>,
    /// Who gets what has arrived on bulk links.
    pub deliver: Deliver,
    /// Where what arrives is written.
    pub storage: Arc<Storage>,
    /// Who keeps the map.
    pub map: Box<dyn Fn(MapNews) + Send>,
}

/// What nodes say of the map.
pub(crate) enum MapNews {
    /// A node has this version.
    Has(NodeId, u64),
    /// What leads on from a version.
    Delta(Vec<u8>),
}

pub(crate) struct Control {
    poll: Poll,
    listener: TcpListener,
    messages: Receiver<ControlMessage>,
    book: Arc<Book>,
    board: Arc<Board>,
    audience: Audience,
    clock: Clock,
    now_ms: u64,
    liveness: Liveness,
    clocks: Clocks,
    /// Links by their tokens; those that were dialled, and those that were let in.
    links: BTreeMap<usize, Link>,
    dialled: BTreeMap<NodeId, Dialled>,
    guests: Guests,
    receivers: Receivers,
    next_token: usize,
    next_pulse_ms: u64,
    /// Which version of the map each node was last heard to have.
    versions: BTreeMap<NodeId, u64>,
    lists: BTreeMap<NodeId, Lists>,
    buffer: Vec<u8>,
}

/// Lists of what nodes lead, by their numbers, which are never used again.
#[derive(Clone, Copy, Default)]
struct Lists {
    /// The newest one of the node's that this one has.
    heard: u64,
    /// The newest one of this node's that the node has.
    told: u64,
}

/// The link that this node has dialled, or when it dials again.
#[derive(Default)]
struct Dialled {
    token: Option<usize>,
    again_ms: u64,
}

impl Control {
    /// Begins to listen; lets nobody in before [`Control::run`].
    pub fn open(
        listener: std::net::TcpListener,
        book: Arc<Book>,
        board: Arc<Board>,
        clock: Clock,
        audience: Audience,
    ) -> std::io::Result<(Self, ControlHandle)> {
        let poll = Poll::new()?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (sender, messages) = channel();
        let dialled = book.peers().into_iter().map(|node| (node, Dialled::default())).collect();
        let receivers = Receivers::new(Arc::clone(&audience.storage));
        let control = Self {
            poll,
            listener,
            messages,
            book,
            board,
            audience,
            clock,
            now_ms: 0,
            liveness: Liveness::default(),
            clocks: Clocks::default(),
            links: BTreeMap::new(),
            dialled,
            guests: Guests::default(),
            receivers,
            next_token: FIRST_LINK,
            next_pulse_ms: 0,
            versions: BTreeMap::new(),
            lists: BTreeMap::new(),
            buffer: Vec::new(),
        };
        Ok((control, ControlHandle { messages: sender, waker }))
    }

    pub fn start(self) -> std::io::Result<JoinHandle<()>> {
        owner_thread::spawn("control", move || self.run())
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        self.now_ms = self.clock.now().monotonic_ms;
        for node in self.book.peers() {
            self.liveness.watch(node, self.now_ms);
        }
        loop {
            let wait_ms = self.next_pulse_ms.saturating_sub(self.now_ms).clamp(1, PULSE_MS);
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_millis(wait_ms)))
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the control links cannot be waited for: stopping at once");
                std::process::exit(71);
            }
            self.now_ms = self.clock.now().monotonic_ms;
            let ready: Vec<(Token, bool)> =
                events.iter().map(|event| (event.token(), event.is_readable() || event.is_read_closed())).collect();
            for (token, is_readable) in ready {
                match token {
                    WAKER => {}
                    LISTENER => self.accept(),
                    Token(token) => self.ready(token, is_readable),
                }
            }
            while let Ok(message) = self.messages.try_recv() {
                if !self.hear_own(&message) {
                    return;
                }
            }
            if self.now_ms >= self.next_pulse_ms {
                self.next_pulse_ms = self.now_ms + PULSE_MS;
                self.pulse();
            }
            self.flush();
        }
    }

    fn hear_own(&mut self, message: &ControlMessage) -> bool {
        let item = match message {
            ControlMessage::Leader(news) => Item::Leader(*news),
            ControlMessage::Map => {
                self.turn_page();
                return true;
            }
            ControlMessage::Delta { node, from, to, change } => {
                let delta = Item::MapDelta(MapDelta { from: *from, to: *to, change });
                let link = self.links.values_mut().find(|link| link.peer() == *node && link.is_open());
                if let Some(link) = link {
                    let _ = link.outbox().push(&delta);
                }
                self.flush();
                return true;
            }
            ControlMessage::Goodbye => Item::Goodbye(Goodbye::Stopping),
            ControlMessage::Stop => return false,
        };
        for link in self.links.values_mut().filter(|link| link.is_open()) {
            let _ = link.outbox().push(&item);
        }
        self.flush();
        true
    }

    /// The map has changed: nodes that have come are dialled and watched, those that were sent away are let go.
    fn turn_page(&mut self) {
        let peers = self.book.peers();
        for node in &peers {
            if !self.dialled.contains_key(node) {
                self.dialled.insert(*node, Dialled::default());
                self.liveness.watch(*node, self.now_ms);
            }
        }
        let gone: Vec<NodeId> = self.dialled.keys().filter(|node| !peers.contains(node)).copied().collect();
        for node in gone {
            self.dialled.remove(&node);
            self.liveness.forget(node);
            self.versions.remove(&node);
            self.lists.remove(&node);
            let links = self.links.extract_if(.., |_, link| link.peer() == node);
            let links: Vec<Link> = links.map(|(_, link)| link).collect();
            links.into_iter().for_each(|link| link.close(self.poll.registry()));
            self.tell(Change::Suspected(node));
        }
        // Somebody may wait for everybody to have it.
        let version = self.version();
        for link in self.links.values_mut().filter(|link| link.is_open()) {
            let _ = link.outbox().push(&version);
        }
        self.flush();
    }

    /// How far this node is with the map.
    fn version(&self) -> Item<'static> {
        Item::MapVersion(MapVersion { map: self.book.map_version(), catalogue: CatalogueVersion::FIRST })
    }

    /// Every 50 ms: says that this node lives, looks who else does, and dials those it has no link to.
    fn pulse(&mut self) {
        let (wall_ms, map) = (self.clock.told().0, self.book.map_version());
        if let Some(agreed_ms) = self.clocks.agreed_ms(self.now_ms, wall_ms, self.dialled.len() + 1) {
            self.clock.hear_majority(Timestamp(agreed_ms));
        } else if self.dialled.is_empty() {
            self.clock.hear_that_alone();
        } else if self.clocks.is_contradicted(self.now_ms, wall_ms) {
            let walls = self.clocks.others_ms(self.now_ms).chain([wall_ms]);
            self.clock.hear_other_times(walls.map(Timestamp));
        }
        let first = self.book.incarnation() << LIST_BITS;
        for Dialled { token, .. } in self.dialled.values() {
            let Some(link) = token.and_then(|token| self.links.get_mut(&token)) else { continue };
            if link.is_open() {
                let (echo_ms, held_ms) = self.clocks.echo(link.peer(), self.now_ms);
                let lists = self.lists.get(&link.peer()).copied().unwrap_or_default();
                let (number, news) = self.board.ranking(|number| lists.told == first + number);
                let mut bytes = Vec::new();
                news.iter().flatten().for_each(|lead| lead.encode(&mut bytes));
                let leads = news.map(|_| Leads::new(&bytes).expect("just written"));
                let (list, list_heard) = (first + number, lists.heard);
                let sent_ms = self.now_ms;
                let pulse = Pulse { sent_ms, echo_ms, held_ms, wall_ms, map, list, list_heard, leads };
                let _ = link.outbox().push(&Item::Pulse(pulse));
            }
        }
        for change in self.liveness.look(self.now_ms) {
            self.tell(change);
        }
        self.guests.close_late(self.now_ms, self.poll.registry());
        let due = self.dialled.iter().filter(|(_, dialled)| dialled.token.is_none() && dialled.again_ms <= self.now_ms);
        let due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
        due.into_iter().for_each(|node| self.dial(node));
    }

    fn dial(&mut self, node: NodeId) {
        let again_ms = self.now_ms + DIAL_EVERY_MS;
        let Some(address) = self.book.address(node).or_else(|| self.book.resolve(node)) else {
            self.dialled.insert(node, Dialled { token: None, again_ms });
            return;
        };
        let token = self.next_token;
        self.next_token += 1;
        let hello = self.book.hello(LinkKind::Control, node, 0);
        match Link::dial(address, hello, self.poll.registry(), Token(token)) {
            Ok(link) => {
                self.links.insert(token, link);
                self.dialled.insert(node, Dialled { token: Some(token), again_ms });
            }
            Err(_) => {
                self.dialled.insert(node, Dialled { token: None, again_ms });
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let token = self.next_token;
            self.next_token += 1;
            self.guests.enter(stream, token, self.now_ms, self.poll.registry());
        }
    }

    fn ready(&mut self, token: usize, is_readable: bool) {
        if let Some(arrived) = self.guests.ready(token, &self.book, self.poll.registry()) {
            return self.seat(arrived);
        }
        let Some(mut link) = self.links.remove(&token) else { return };
        if let Some(closed) = link.failure() {
            return self.lost(token, link, &closed);
        }
        let was_open = link.is_open();
        if is_readable {
            link.note_readable(true);
            let mut buffer = std::mem::take(&mut self.buffer);
            let book = Arc::clone(&self.book);
            let peer = link.peer();
            let read = link.read(&book, &mut buffer, |item| self.hear(peer, &item));
            self.buffer = buffer;
            if let Err(closed) = read {
                return self.lost(token, link, &closed);
            }
        }
        if !was_open && link.is_open() {
            self.opened(&mut link);
        }
        self.links.insert(token, link);
    }

    /// Somebody has said who it is, and may stay.
    fn seat(&mut self, arrived: Arrived) {
        let Arrived { stream, hello, rest } = arrived;
        let (peer, kind) = (hello.who.node, hello.kind);
        match kind {
            LinkKind::Append => {
                let lane = usize::from(hello.lane) % self.audience.lanes.len();
                self.audience.lanes[lane].send(LaneMessage::PeerLink { peer, stream, rest });
            }
            LinkKind::Control => {
                let token = self.next_token;
                self.next_token += 1;
                let Ok(mut link) = Link::accepted(stream, peer, kind, (self.poll.registry(), Token(token))) else {
                    return;
                };
                self.opened(&mut link);
                if link.receive(&rest, |item| self.hear(peer, &item)).is_ok() {
                    self.links.insert(token, link);
                    self.ready(token, true);
                }
            }
            LinkKind::Bulk => self.receivers.begin(stream, &self.audience.deliver),
            LinkKind::Probe => {}
        }
    }

    fn opened(&mut self, link: &mut Link) {
        let peer = link.peer();
        if let Some(change) = self.liveness.opened(peer, self.now_ms) {
            self.tell(change);
        }
        let version = self.version();
        let led = self.board.own_news(self.book.own());
        for item in led.into_iter().map(Item::Leader).chain([version]) {
            let _ = link.outbox().push(&item);
        }
    }

    fn hear(&mut self, peer: NodeId, item: &Item<'_>) {
        if let Some(change) = self.liveness.heard(peer, self.now_ms) {
            self.tell(change);
        }
        match item {
            Item::Pulse(pulse) => {
                self.clocks.hear(peer, pulse, self.now_ms);
                self.hear_version(peer, pulse.map);
                self.hear_lists(peer, pulse);
            }
            Item::Leader(news) => {
                if self.board.post(*news) {
                    self.audience.lanes.iter().for_each(|lane| lane.send(LaneMessage::LeaderNews(*news)));
                }
            }
            Item::Goodbye(Goodbye::Stopping) => {
                if let Some(change) = self.liveness.left(peer, self.now_ms) {
                    self.tell(change);
                }
            }
            Item::MapVersion(version) => self.hear_version(peer, version.map),
            Item::MapDelta(delta) => (self.audience.map)(MapNews::Delta(delta.change.to_vec())),
            // Not said by this version.
            Item::Goodbye(_)
            | Item::Suspicion(_)
            | Item::Raft(_)
            | Item::Forward(_)
            | Item::Answer(_)
            | Item::Begin(_)
            | Item::Piece(_)
            | Item::End(_)
            | Item::TransferRefused(_)
            | Item::Taken(_) => {}
        }
    }

    fn hear_lists(&mut self, peer: NodeId, pulse: &Pulse<'_>) {
        let lists = self.lists.entry(peer).or_default();
        lists.told = pulse.list_heard;
        if let Some(leads) = pulse.leads.filter(|_| pulse.list > lists.heard) {
            lists.heard = pulse.list;
            let leads: Arc<[Lead]> = leads.iter().collect();
            self.tell_owners(&PeerNews::Heirs(leads));
        }
    }

    fn hear_version(&mut self, peer: NodeId, version: u64) {
        if self.versions.insert(peer, version) != Some(version) {
            self.board.note_version(peer, version);
            (self.audience.map)(MapNews::Has(peer, version));
        }
    }

    fn lost(&mut self, token: usize, link: Link, closed: &Closed) {
        let peer = link.peer();
        let was_open = link.is_open();
        link.close(self.poll.registry());
        if let Some(dialled) = self.dialled.get_mut(&peer).filter(|dialled| dialled.token == Some(token)) {
            dialled.token = None;
        }
        match closed {
            Closed::Refused => {
                if let Some(change) = self.liveness.refused(peer, self.now_ms) {
                    self.tell(change);
                }
            }
            Closed::Unwanted(why) => {
                tracing::warn!(node = self.book.name(peer), why, "a node does not want this one, or is another");
            }
            // Nobody sends it the map any more that says so.
            Closed::OldCopy(why) => {
                tracing::error!("{why}");
                self.book.give_up(why);
                std::process::exit(69);
            }
            Closed::Removed(why) => {
                tracing::error!("{why}");
                std::process::exit(69);
            }
            Closed::Broken(why) if was_open => {
                tracing::info!(node = self.book.name(peer), why, "a control link is gone")
            }
            Closed::Broken(_) => {}
        }
        if was_open && !self.links.values().any(|link| link.peer() == peer && link.is_open()) {
            self.liveness.closed(peer, self.now_ms);
            // Nobody there means that the node is dead, and is known at once.
            if self.dialled.get(&peer).is_some_and(|dialled| dialled.token.is_none()) {
                self.dial(peer);
            }
        }
    }

    fn tell(&self, change: Change) {
        match change {
            Change::Suspected(node) => tracing::warn!(node = self.book.name(node), "a node is silent or gone"),
            Change::Cleared(node) => tracing::info!(node = self.book.name(node), "a node is there again"),
        }
        self.board.note(change);
        self.tell_owners(&PeerNews::Life(change));
    }

    fn tell_owners(&self, news: &PeerNews) {
        self.audience.lanes.iter().for_each(|lane| lane.send(LaneMessage::Peer(news.clone())));
        (self.audience.tell)(news.clone());
    }

    fn flush(&mut self) {
        let mut lost = Vec::new();
        for (token, link) in &mut self.links {
            if let Err(closed) = link.flush() {
                lost.push((*token, closed));
            }
        }
        for (token, closed) in lost {
            if let Some(link) = self.links.remove(&token) {
                self.lost(token, link, &closed);
            }
        }
    }
}

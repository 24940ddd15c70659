//! Clients: each has one session at a time, finds the leader by trying, and comes back to its session when its stream is
//! lost, as YDB's SDKs do.

use shardine_coord::{Ask, Message, Opening, Refusal, SessionId, Status};

use crate::chance::Chance;
use crate::coord::Coordination;
use crate::coord::draw::draw;
use crate::coord::event::Event;
use crate::coord::names::NAMES;
use crate::coord::plan::Plan;
use crate::coord::wire::{Down, Up};
use crate::ground::MS;
use crate::world::World;

const BEAT: u64 = 150 * MS;
const PING_EVERY: u64 = 400 * MS;

/// Requests without an answer that a client lets stand, besides acquires that wait.
const OPEN_MAX: usize = 3;

#[derive(Clone, Debug)]
pub struct Client {
    pub chance: Chance,
    pub paused_until: u64,
    pub timeout_ms: u64,
    key: Vec<u8>,
    /// Only looks and watches: a node that merely believes to lead is found out by what it tells readers.
    pub only_looks: bool,
    /// How long it stays on a stream that is silent, and on one that does not answer.
    patience: u64,
    answer_patience: u64,
    /// The node that it will dial next.
    node: usize,
    pub wire: Option<usize>,
    pub session: Option<SessionId>,
    /// Its stream carries the session.
    pub is_attached: bool,
    heard: u64,
    pinged: u64,
    seq_no: u64,
    next_req: u64,
    pub open: Vec<Open>,
    /// By name: the last request about it, and whether nothing is held or waited for, for certain.
    pub standing: [Standing; NAMES.len()],
    /// Semaphores that it still looks at when everything has come to rest.
    pub last_looks: Vec<usize>,
    /// It has left for good.
    pub is_gone: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    pub last_req: u64,
    pub is_free: bool,
}

/// A request that was not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub req: u64,
    name: usize,
    sent: u64,
    /// An acquire that was told to wait.
    pub waits: bool,
}

impl Client {
    #[must_use]
    pub fn new(number: usize, plan: &Plan, nodes: usize, chance: &mut Chance) -> Self {
        let mut chance = chance.fork(number as u64);
        Self {
            paused_until: 0,
            timeout_ms: chance.pick(&plan.timeouts_ms),
            key: if chance.percent(40) { vec![number as u8 + 1; 8] } else { Vec::new() },
            only_looks: number % 3 == 2 && chance.percent(60),
            patience: chance.pick(&[700 * MS, 1_500 * MS, 3_000 * MS]),
            answer_patience: chance.pick(&[1_000 * MS, 3_000 * MS, 10_000 * MS]),
            node: chance.index(nodes),
            wire: None,
            session: None,
            is_attached: false,
            heard: 0,
            pinged: 0,
            seq_no: 0,
            next_req: 1,
            open: Vec::new(),
            standing: [Standing::default(); NAMES.len()],
            last_looks: Vec::new(),
            is_gone: false,
            chance,
        }
    }

    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.open.iter().any(|open| !open.waits)
    }

    fn is_busy(&self) -> bool {
        self.open.iter().filter(|open| !open.waits).count() >= OPEN_MAX
    }

    pub fn next_req(&mut self) -> u64 {
        self.next_req += 1;
        self.next_req
    }
}

impl World<Coordination> {
    /// Dials if there is no stream, pings, and gives up on a stream that is silent.
    pub fn client_beats(&mut self, number: usize) {
        let pause = self.tenant.clients[number].chance.between((BEAT / 2, BEAT));
        self.later(pause, Event::Beats { client: number }.into());
        let client = &self.tenant.clients[number];
        if self.now < client.paused_until || client.is_gone {
            return;
        }
        let Some(wire) = client.wire else { return self.dial(number) };
        let is_ignored = |open: &Open| !open.waits && open.sent + client.answer_patience <= self.now;
        if client.heard + client.patience <= self.now || client.open.iter().any(is_ignored) {
            self.note(&[24, number as u64], || format!("client {number} hears nothing, or not enough, on {wire}"));
            return self.hang_up(number, true);
        }
        if client.pinged + PING_EVERY <= self.now {
            self.tenant.clients[number].pinged = self.now;
            self.send_up(wire, Up::Ping);
        }
    }

    fn dial(&mut self, number: usize) {
        let nodes = self.nodes.len();
        let stray_percent = self.tenant.plan.stray_percent;
        let client = &mut self.tenant.clients[number];
        client.seq_no += 1;
        let node = if client.chance.percent(stray_percent) { client.chance.index(nodes) } else { client.node };
        (client.node, client.heard, client.pinged) = (node, self.now, self.now);
        let opening = Opening {
            path: crate::coord::names::PATH.to_owned(),
            session: client.session.unwrap_or_default(),
            timeout_ms: client.timeout_ms,
            description: format!("client {number}"),
            seq_no: client.seq_no,
            protection_key: client.key.clone(),
        };
        let wire = self.connect(number, node, opening.session);
        self.tenant.clients[number].wire = Some(wire);
        self.note(&[25, number as u64, node as u64, wire as u64], || {
            format!("client {number} dials node {} as {wire} for session {}", node + 1, opening.session)
        });
        self.send_up(wire, Up::Open(opening));
    }

    /// Lets go of the stream. What was asked and not answered stays in doubt.
    pub fn hang_up(&mut self, number: usize, elsewhere: bool) {
        let (faults_on, nodes) = (self.faults_on, self.nodes.len());
        let client = &mut self.tenant.clients[number];
        let wire = client.wire.take();
        client.is_attached = false;
        self.tenant.counters.lost_in_doubt += client.open.len() as u64;
        client.open.clear();
        if !faults_on && !client.is_gone {
            client.last_looks = (0..NAMES.len()).collect();
        }
        if elsewhere {
            client.node = (client.node + 1) % nodes;
        }
        if let Some(wire) = wire
            && self.tenant.clients[number].chance.percent(70)
        {
            self.send_up(wire, Up::Close);
        }
    }

    pub fn client_hears(&mut self, number: usize, wire: usize, down: Down) {
        if self.tenant.clients[number].wire != Some(wire) {
            return;
        }
        self.tenant.clients[number].heard = self.now;
        match down {
            Down::Pong => {}
            Down::Broken => self.hang_up(number, true),
            Down::Say(message) => self.client_reads(number, message),
        }
    }

    fn client_reads(&mut self, number: usize, message: Message) {
        let client = &mut self.tenant.clients[number];
        match message {
            Message::Started { session, .. } => {
                client.is_attached = true;
                if client.session.replace(session) != Some(session) {
                    client.standing = [Standing { last_req: 0, is_free: true }; NAMES.len()];
                }
            }
            Message::Stopped { .. } => {
                client.session = None;
                self.hang_up(number, false);
            }
            Message::Failure(refusal) => self.client_is_sent_away(number, &refusal),
            Message::Pending { req } => {
                if let Some(open) = client.open.iter_mut().find(|open| open.req == req) {
                    open.waits = true;
                }
            }
            Message::Acquired { req, result } => {
                let none_left = result == Ok(false);
                self.client_is_answered(number, req, none_left);
            }
            Message::Released { req, result } => self.client_is_answered(number, req, result.is_ok()),
            Message::Created { req, .. }
            | Message::Updated { req, .. }
            | Message::Deleted { req, .. }
            | Message::Described { req, .. } => self.client_is_answered(number, req, false),
            Message::Changed { .. } => {}
        }
    }

    fn client_is_sent_away(&mut self, number: usize, refusal: &Refusal) {
        let client = &mut self.tenant.clients[number];
        if matches!(refusal.status, Status::SessionExpired | Status::BadSession) {
            self.tenant.counters.sessions_missed += u64::from(client.session.is_some());
            client.session = None;
        }
        self.hang_up(number, refusal.status == Status::Unavailable);
    }

    /// `none_left`: after it, nothing of the semaphore is held or waited for, if nothing was asked since.
    fn client_is_answered(&mut self, number: usize, req: u64, none_left: bool) {
        let client = &mut self.tenant.clients[number];
        let Some(place) = client.open.iter().position(|open| open.req == req) else { return };
        let open = client.open.remove(place);
        let standing = &mut client.standing[open.name];
        if none_left && standing.last_req == req {
            standing.is_free = true;
        }
    }

    /// A client with nothing better to do asks for something.
    pub fn client_acts(&mut self, number: usize) {
        let think = self.tenant.plan.think;
        let client = &mut self.tenant.clients[number];
        let pause = client.chance.between(think);
        let may_act = self.now >= client.paused_until && client.is_attached && !client.is_busy() && !client.is_gone;
        if self.faults_on {
            self.later(pause, Event::Acts { client: number }.into());
            if may_act {
                draw(self, number);
            }
        } else if !self.tenant.clients[number].is_gone {
            self.later(20 * MS, Event::Acts { client: number }.into());
            if may_act && let Some(name) = self.tenant.clients[number].last_looks.pop() {
                self.describe(number, name, true);
            }
        }
    }

    pub fn describe(&mut self, number: usize, name: usize, watches: bool) {
        let client = &mut self.tenant.clients[number];
        let (watch_data, watch_owners) = (watches && client.chance.percent(60), watches && client.chance.percent(60));
        let (req, text) = (client.next_req(), NAMES[name].text.to_owned());
        let ask = Ask::Describe { req, name: text, owners: true, waiters: true, watch_data, watch_owners };
        self.ask(number, req, name, ask);
    }

    /// Sends a request on the client's stream.
    pub fn ask(&mut self, number: usize, req: u64, name: usize, ask: Ask) {
        let client = &mut self.tenant.clients[number];
        let (Some(wire), Some(session)) = (client.wire, client.session) else { return };
        client.open.push(Open { req, name, sent: self.now, waits: false });
        let standing = &mut client.standing[name];
        let was_free = standing.is_free;
        if matches!(ask, Ask::Acquire { .. } | Ask::Release { .. }) {
            *standing = Standing { last_req: req, is_free: false };
        }
        self.note(&[26, number as u64, wire as u64, req], || format!("client {number} asks on {wire}: {ask:?}"));
        self.tenant
            .watch
            .asked(crate::coord::watch::Asked { wire, session, req, name, was_free, sent: self.now }, &ask);
        self.send_up(wire, Up::Ask(ask));
    }

    /// Ends the session, by a word or by silence.
    pub fn leave(&mut self, number: usize, with_a_word: bool) {
        let client = &mut self.tenant.clients[number];
        if let (true, Some(wire), Some(session)) = (with_a_word && client.is_attached, client.wire, client.session) {
            self.tenant.watch.leaves(session);
            self.tenant.clients[number].is_attached = false;
            self.send_up(wire, Up::Ask(Ask::Stop));
        } else {
            self.hang_up(number, false);
        }
    }
}

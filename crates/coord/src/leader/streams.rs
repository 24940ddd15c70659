//! Streams and the sessions that they carry: start, requests, loss.

use super::gathered::Look;
use super::timers::Timer;
use super::watches::Watch;
use super::{Ask, Leader, Message, NodeCall, NodeReply, Opening, Origin, Out, StreamId, Ticket, not_leading};
use crate::command::{Asker, Command, Start};
use crate::ids::{NodeNumber, SemaphoreId};
use crate::outcome::ClaimRef;
use crate::state::Coord;
use crate::status::{Refusal, Status};

/// A stream and how far it has come.
#[derive(Debug)]
pub(super) struct Stream {
    pub stage: Stage,
    /// Commands of it that are on their way: a read must not overtake them (coordination 80).
    pub in_flight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Starting,
    Attached(Asker),
    Stopping(Asker),
}

impl Stream {
    pub fn is_of(&self, node: NodeNumber) -> bool {
        match self.stage {
            Stage::Starting => false,
            Stage::Attached(by) | Stage::Stopping(by) => by.node == node,
        }
    }
}

/// Who holds a session now.
#[derive(Debug, Default)]
pub(super) struct Attachment {
    pub stream: Option<StreamId>,
    /// The last one that was accepted here; a new leader begins anew (coordination 190).
    pub seq_no: u64,
    /// When it dies, if nobody holds it.
    pub deadline_ms: Option<u64>,
    /// Its end is on its way into the log.
    pub expiring: bool,
    /// Clients that come back and are on their way into the log: it does not expire while they are.
    pub attaching: u32,
}

impl Leader {
    /// The first message of a stream.
    pub fn start(&mut self, coord: &Coord, stream: StreamId, opening: &Opening, out: &mut Out) {
        let (start, seq_no) = (&opening.as_start(), opening.seq_no);
        if !self.leads {
            return out.say(stream, Message::Failure(not_leading()));
        }
        if self.streams.contains_key(&stream) {
            return self.fail(coord, stream, Refusal::new(Status::BadRequest, "the session was started already"), out);
        }
        if let Err(refusal) = self.may_start(coord, start, seq_no, out) {
            return out.say(stream, Message::Failure(refusal));
        }
        self.streams.insert(stream, Stream { stage: Stage::Starting, in_flight: 0 });
        if let Some(by) = self.quick_restore(coord, start) {
            return self.attach(coord, stream, by, seq_no, out);
        }
        let restored = coord.find_node(start.path).map(|node| Asker { node, session: start.session });
        let restored = restored.filter(|by| self.attachments.contains_key(by));
        if let Some(held) = restored.and_then(|by| self.attachments.get_mut(&by)) {
            held.attaching += 1;
        }
        let timeout_ms = start.timeout_ms;
        let origin = Origin::Attach { stream, restored, seq_no, timeout_ms, asked_ms: self.now_ms };
        out.propose(&Command::Attach(*start), origin);
    }

    /// What the log cannot tell. Everything else is decided by the entry, so that a leader who has been replaced without
    /// knowing it does not send anybody away for good.
    fn may_start(&self, coord: &Coord, start: &Start<'_>, seq_no: u64, out: &Out) -> Result<(), Refusal> {
        if out.is_full() {
            return Err(busy());
        }
        let Some(node) = coord.find_node(start.path) else { return Ok(()) };
        start.check()?;
        let held = self.attachments.get(&Asker { node, session: start.session });
        if held.is_some_and(|held| seq_no < held.seq_no) {
            return Err(Refusal::new(Status::BadSession, "a newer connection has taken the session"));
        }
        Ok(())
    }

    /// With RELAXED attaches a session that is as it was is restored at once (coordination 194).
    fn quick_restore(&self, coord: &Coord, start: &Start<'_>) -> Option<Asker> {
        let by = Asker { node: coord.find_node(start.path)?, session: start.session };
        let config = coord.config(by.node)?;
        let attachment = self.attachments.get(&by)?;
        let key = coord.protection_key(by)?;
        let is_quick = !config.attaches_are_strict()
            && self.is_proven(config.grace_ms())
            && !attachment.expiring
            && attachment.attaching == 0
            && (key.is_empty() || key == start.protection_key)
            && coord.session(by) == Some((start.timeout_ms, start.description));
        let holder = attachment.stream.and_then(|stream| self.streams.get(&stream));
        (is_quick && holder.is_none_or(|holder| holder.in_flight == 0)).then_some(by)
    }

    /// Gives a session to a stream; whoever had it is sent away (coordination 65).
    pub(super) fn attach(&mut self, coord: &Coord, stream: StreamId, by: Asker, seq_no: u64, out: &mut Out) {
        let held = self.attachments.entry(by).or_default();
        if seq_no < held.seq_no {
            let refusal = Refusal::new(Status::BadSession, "a newer connection has taken the session");
            return self.fail(coord, stream, refusal, out);
        }
        held.seq_no = seq_no;
        if let Some(at) = held.deadline_ms.take() {
            #[cfg(feature = "mutants")]
            let at = if coord.is(crate::Mutant::ExpiresTheAttached) { 0 } else { at };
            self.timers.clear(at, Timer::Session(by));
        }
        if let Some(old) = held.stream.replace(stream) {
            self.streams.remove(&old);
            self.forget_replies(coord, by);
            out.say(old, Message::Failure(Refusal::new(Status::BadSession, "the session was restored elsewhere")));
        }
        self.streams.get_mut(&stream).expect("the caller has it").stage = Stage::Attached(by);
        let timeout_ms = coord.session(by).map_or(0, |(timeout_ms, _)| timeout_ms);
        out.say(stream, Message::Started { session: by.session, timeout_ms });
    }

    /// Takes a request of a stream. Every one is answered, unless the stream is lost before.
    pub fn ask(&mut self, coord: &Coord, id: StreamId, ask: &Ask, out: &mut Out) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let by = match stream.stage {
            Stage::Attached(by) => by,
            Stage::Starting => return self.fail(coord, id, too_early(), out),
            Stage::Stopping(_) => {
                return self.fail(coord, id, Refusal::new(Status::BadSession, "the session was stopped"), out);
            }
        };
        if let Ask::Describe { req, ref name, owners, waiters, watch_data, watch_owners } = *ask {
            let look =
                Look { stream: id, req, by, name: name.as_str().into(), owners, waiters, watch_data, watch_owners };
            let config = coord.config(by.node).unwrap_or_default();
            let is_strict = config.reads_are_strict();
            #[cfg(feature = "mutants")]
            let is_strict = is_strict && !coord.is(crate::Mutant::LocalStrictReads);
            if stream.in_flight == 0 && !is_strict {
                return self.describe(coord, &look, out);
            }
            stream.in_flight += 1;
            return out.propose(&Command::Describe { by, name }, Origin::Describe(look));
        }
        if out.is_full() {
            return out.say(id, ask.refused(busy()));
        }
        if *ask == Ask::Stop {
            stream.stage = Stage::Stopping(by);
        }
        stream.in_flight += 1;
        let (command, origin) = command_of(id, by, ask);
        out.propose(&command, origin);
    }

    /// Answers a describe from the state, and sets its watch (coordination 163, 182).
    pub(super) fn describe(&mut self, coord: &Coord, look: &Look, out: &mut Out) {
        let Look { stream, req, by, .. } = *look;
        let Some(found) = coord.describe(by.node, &look.name, look.owners, look.waiters) else {
            let missing = Refusal::new(Status::NotFound, format!("there is no semaphore {:?}", look.name));
            return out.say(stream, Message::Described { req, result: Err(missing), watch_added: false });
        };
        let watch_added = look.watch_data || look.watch_owners;
        if watch_added {
            let semaphore = coord.find_semaphore(by.node, &look.name).expect("just described");
            let watch = Watch { stream, req, data: look.watch_data, owners: look.watch_owners };
            self.watches.add(by, semaphore, watch, out);
        }
        out.say(stream, Message::Described { req, result: Ok(Box::new(found)), watch_added });
    }

    /// A call about nodes. The answer comes under `ticket`.
    pub fn call(&mut self, coord: &Coord, ticket: Ticket, call: &NodeCall, out: &mut Out) {
        self.call_placed(coord, ticket, call, 0, out);
    }

    /// No node is made any more for places of the map up to this number.
    pub fn give_up(&mut self, placed: u64, out: &mut Out) {
        if self.leads && !out.is_full() {
            out.propose(&Command::GiveUp { placed }, Origin::GiveUp);
        }
    }

    /// The same about a path with this place in the cluster's map, for calls that make or drop its node.
    pub fn call_placed(&mut self, coord: &Coord, ticket: Ticket, call: &NodeCall, placed: u64, out: &mut Out) {
        if !self.leads {
            return out.replies.push((ticket, NodeReply::Refused(not_leading())));
        }
        if out.is_full() {
            return out.replies.push((ticket, NodeReply::Refused(busy())));
        }
        match call {
            &NodeCall::Create { ref path, config } => {
                out.propose(&Command::CreateNode { path, config, placed }, Origin::Node(ticket));
            }
            &NodeCall::Alter { ref path, config } => {
                out.propose(&Command::AlterNode { path, config }, Origin::Node(ticket));
            }
            NodeCall::Drop { path } => out.propose(&Command::DropNode { path, placed }, Origin::Node(ticket)),
            NodeCall::Describe { path } => {
                let origin = Origin::DescribeNode { ticket, path: path.as_str().into() };
                out.propose(&Command::DescribeNode { path }, origin);
            }
            NodeCall::List => out.replies.push((ticket, NodeReply::List(coord.list_nodes().collect()))),
            NodeCall::Resource { node, path, call } => self.call_resource(coord, ticket, node, path, *call, out),
        }
    }

    /// The stream is lost, or its client has left. Requests that came before are executed all the same.
    pub fn close(&mut self, coord: &Coord, stream: StreamId) {
        self.lose(coord, stream);
    }

    /// Ends a stream from this side; its session is only detached.
    pub(super) fn fail(&mut self, coord: &Coord, stream: StreamId, refusal: Refusal, out: &mut Out) {
        out.say(stream, Message::Failure(refusal));
        self.lose(coord, stream);
    }

    pub(super) fn lose(&mut self, coord: &Coord, stream: StreamId) {
        let Some(lost) = self.streams.remove(&stream) else { return };
        if let Stage::Attached(by) | Stage::Stopping(by) = lost.stage {
            self.forget_replies(coord, by);
            if let Some((timeout_ms, _)) = coord.session(by) {
                self.detach(by, timeout_ms);
            }
        }
    }

    /// Nobody holds the session now: it lives for so long.
    pub(super) fn detach(&mut self, by: Asker, for_ms: u64) {
        let attachment = self.attachments.entry(by).or_default();
        attachment.stream = None;
        let deadline_ms = self.now_ms + for_ms;
        if let Some(old) = attachment.deadline_ms.replace(deadline_ms) {
            self.timers.clear(old, Timer::Session(by));
        }
        self.timers.set(deadline_ms, Timer::Session(by));
    }

    /// What was promised to a lost stream: watches are gone, places in queues stay (coordination 67, 68).
    fn forget_replies(&mut self, coord: &Coord, by: Asker) {
        self.watches.forget(by);
        for place in coord.claims_of(by) {
            if let Some(wait) = self.waits.get_mut(&place) {
                wait.reply = None;
            }
        }
    }
}

impl Coord {
    /// Everything that a session holds or waits for.
    pub(crate) fn claims_of(&self, by: Asker) -> impl Iterator<Item = ClaimRef> {
        let all = (by.session, SemaphoreId(0))..=(by.session, SemaphoreId(u64::MAX));
        let links = self.nodes.get(&by.node).into_iter().flat_map(move |node| node.links.range(all.clone()));
        links.map(move |(&(_, semaphore), &order)| ClaimRef { node: by.node, semaphore, order })
    }
}

fn command_of(stream: StreamId, by: Asker, ask: &Ask) -> (Command<'_>, Origin) {
    match ask {
        Ask::Stop => (Command::Stop(by), Origin::Stop { stream: Some(stream), by }),
        &Ask::Create { req, ref name, limit, ref data } => {
            (Command::Create { by, name, limit, data }, Origin::Create { stream, req })
        }
        &Ask::Update { req, ref name, ref data } => {
            (Command::Update { by, name, data }, Origin::Update { stream, req })
        }
        &Ask::Delete { req, ref name, force } => (Command::Delete { by, name, force }, Origin::Delete { stream, req }),
        &Ask::Acquire { req, ref name, timeout_ms, count, ref data, ephemeral } => {
            let command = Command::Acquire { by, name, timeout_ms, count, data, ephemeral };
            (command, Origin::Acquire { stream, req, by })
        }
        &Ask::Release { req, ref name } => (Command::Release { by, name }, Origin::Release { stream, req }),
        Ask::Describe { .. } => unreachable!("a describe is not a change"),
    }
}

pub(super) fn busy() -> Refusal {
    Refusal::new(Status::Overloaded, "too much waits for the log: try again")
}

fn too_early() -> Refusal {
    Refusal::new(Status::BadRequest, "the session is not started yet")
}

//! Requests that another node executes. Who goes where, in which order, and who is asked again is decided by `router::Forwards`; here
//! it meets the lane's shards and links. Those of other nodes are in `visits`.
//!
//! A forwarded request is never forwarded again: what does not belong here is refused, with a hint at who leads.

use bytes::Bytes;
use shardine_model::codec::Reader;
use shardine_model::{Ack, Answer, Descriptor, ErrorCode, NodeId, Position, Refusal, ShardId};
use shardine_router::forward::{Action, Answered, Attempt, Destination, Options, Submission};
use shardine_router::{
    Admission, Arrival, DeadLetterLine, Forwards, Gate, Moved, Nature, Refused, RemoteCall, Response, Routes, RowCall,
    ShardAsk, TableCall,
};
use shardine_shard::{Caller, Replica, Returned};
use shardine_transport as transport;
use shardine_transport::Outcome;

use super::core::{Core, Outside, ticket_of};
use super::questions::is_question;
use super::visits::Foreign;
use crate::exchange::refused;
use crate::lane_message::{LaneMessage, Respond, ShardDone};

/// A request that may be tried more than once, and who waits for its answer.
pub(crate) struct Asked {
    caller: Caller,
    body: Bytes,
}

/// What goes out on links at the end of the turn.
pub(crate) enum Departure {
    Request {
        node: NodeId,
        attempt: Attempt,
        body: Bytes,
    },
    Answer {
        to: Foreign,
        response: Response,
    },
    /// What a node is asked about itself.
    Question {
        node: NodeId,
        id: u64,
        body: Bytes,
    },
    Refusal {
        to: Foreign,
        why: Refused,
    },
    /// The order of this link's requests cannot be kept any more.
    Close {
        link: u64,
    },
}

/// A lane's part in the cluster: where requests go, those that are under way, and those of others that were refused.
pub(crate) struct Way {
    pub routes: Routes,
    forwards: Forwards<Asked>,
    pub(super) gate: Gate,
}

impl Way {
    pub fn new(routes: Routes) -> Self {
        Self { routes, forwards: Forwards::new(Options::default()), gate: Gate::default() }
    }
}

impl Core {
    /// Whether this lane's replica of a position leads and serves.
    #[inline]
    pub(super) fn leads_at(&self, position: Position) -> bool {
        self.seat_of(position).and_then(|seat| self.host.replica(seat)).is_some_and(Replica::is_serving)
    }

    /// Whether a request may be executed here and now: this node leads, and nobody waits who might have come before it. Always so
    /// on a node that is alone.
    #[inline]
    pub(super) fn is_for_here(&self, source: u64, position: Position) -> bool {
        self.way.as_ref().is_none_or(|way| !way.forwards.has_line(source, position) && self.leads_at(position))
    }

    /// Gives a request to whoever leads its partition. Those of one source keep their order.
    pub(super) fn forward(&mut self, caller: Caller, source: u64, position: Position, call: &RemoteCall) {
        let now_ms = self.time().monotonic_ms;
        let submission = self.submission(caller, source, position, call);
        let Some(way) = &mut self.way else { return self.respond_to(caller, refused(ErrorCode::StaleRoute)) };
        let mut actions = Vec::new();
        way.forwards.submit(submission, now_ms, &way.routes, &mut actions);
        self.perform_actions(actions);
    }

    fn submission(&self, caller: Caller, source: u64, position: Position, call: &RemoteCall) -> Submission<Asked> {
        let body: Bytes = call.to_bytes().into();
        Submission {
            connection: source,
            position,
            nature: call.nature(),
            catalogue: self.catalogue.version(),
            bytes: body.len(),
            deadline_ms: None,
            what: Asked { caller, body },
        }
    }

    /// Requests that this node's replica took and did not propose before it lost the lead: whoever leads now gets them, in order, and
    /// before whatever has come since on their connections.
    pub(super) fn give_back(&mut self, mut returned: Vec<Returned>) {
        let (mut own, mut of_others) = (Vec::new(), Vec::new());
        // A shard that is split gives back what waited for several things.
        returned.sort_by_key(|returned| returned.caller.sequence);
        for Returned { caller, request, catalogue, why } in returned {
            let call = RowCall::Submit { request: request.into(), catalogue, ack: Ack::default() };
            match (call.position(), ticket_of(caller)) {
                (Ok(position), Some(ticket)) if self.way.is_some() => {
                    own.push(self.submission(caller, ticket.connection, position, &RemoteCall::Row(call)));
                }
                // Whoever asked for another node, or holds a line, keeps the request itself.
                _ => of_others.push((caller, why)),
            }
        }
        if !own.is_empty() {
            self.with_forwards(|forwards, routes, now_ms, actions| forwards.give_back(own, now_ms, routes, actions));
        }
        for (caller, why) in of_others {
            self.respond_to(caller, refused(why));
        }
    }

    /// Lets the forwards go on after something has happened.
    fn with_forwards(&mut self, act: impl FnOnce(&mut Forwards<Asked>, &mut Routes, u64, &mut Vec<Action<Asked>>)) {
        let now_ms = self.time().monotonic_ms;
        let mut actions = Vec::new();
        if let Some(way) = &mut self.way {
            act(&mut way.forwards, &mut way.routes, now_ms, &mut actions);
        }
        self.perform_actions(actions);
    }

    /// Changes what is known of leaders and nodes, and lets those go on who waited for it.
    pub(super) fn reroute(&mut self, change: impl FnOnce(&mut Routes) -> bool) {
        self.with_forwards(|forwards, routes, now_ms, actions| {
            if change(routes) {
                forwards.news(now_ms, routes, actions);
            }
        });
    }

    /// Time has passed.
    pub fn tick_forwards(&mut self) {
        self.with_forwards(|forwards, routes, now_ms, actions| forwards.tick(now_ms, routes, actions));
    }

    pub(super) fn link_up(&mut self, node: NodeId) {
        self.with_forwards(|forwards, routes, now_ms, actions| forwards.link_up(node, now_ms, routes, actions));
    }

    /// A link to a node is gone, with everything that was asked on it.
    pub(super) fn link_down(&mut self, node: NodeId) {
        self.drop_questions_to(node);
        self.with_forwards(|forwards, routes, now_ms, actions| forwards.link_down(node, now_ms, routes, actions));
    }

    /// A connection is gone, and nobody waits for what it asked.
    pub fn forget_source(&mut self, source: u64) {
        if let Some(way) = &mut self.way {
            way.forwards.closed(source);
        }
    }

    fn perform_actions(&mut self, actions: Vec<Action<Asked>>) {
        for action in actions {
            match action {
                Action::Answer { what, code } => self.respond_to(what.caller, Response::Answer(Answer::Failed(code))),
                Action::Attempt(attempt) => self.attempt(attempt),
            }
        }
    }

    fn attempt(&mut self, attempt: Attempt) {
        let Some(way) = &mut self.way else { return };
        let Some(asked) = way.forwards.get(attempt.id) else { return };
        let body = match attempt {
            Attempt { is_again: true, nature: Nature::Numbered, .. } => again(&asked.body),
            _ => asked.body.clone(),
        };
        match attempt.to {
            Destination::Node(node) => self.departures.push(Departure::Request { node, attempt, body }),
            Destination::Here { .. } => self.attempt_here(attempt, &body),
        }
    }

    /// What was held for somebody else is this node's by now.
    fn attempt_here(&mut self, attempt: Attempt, body: &[u8]) {
        let caller = self.outside.enter(Outside::Attempt(attempt));
        let Ok(call) = RemoteCall::from_bytes(body) else {
            return self.respond_to(caller, refused(ErrorCode::Internal));
        };
        let position = self.position_of(&call, attempt.shard);
        let Some(way) = &mut self.way else { return };
        let Some(position) = position else { return self.respond_to(caller, refused(ErrorCode::StaleRoute)) };
        let (stream, generation) = (attempt.stream, attempt.generation);
        let arrival = Arrival { link: Gate::LOCAL, stream, generation, position };
        match way.gate.admit(arrival, &way.routes) {
            Admission::Run { .. } => self.run(call, position, caller),
            Admission::Refuse(_) | Admission::Close => self.respond_to(caller, refused(ErrorCode::NotLeader)),
        }
    }

    /// What came of an attempt of this node's own.
    pub(super) fn attempted(&mut self, attempt: Attempt, response: Response) {
        if is_misdirected(&response) {
            if let Some(way) = &mut self.way {
                let (stream, generation) = (attempt.stream, attempt.generation);
                way.gate.refuse(Arrival { link: Gate::LOCAL, stream, generation, position: Position(0) });
            }
            let why = if is_stale(&response) { Refused::StaleRoute } else { Refused::NoLeader };
            return self.refused(attempt.id, why);
        }
        self.answered(attempt.id, response);
    }

    fn answered(&mut self, id: u64, mut response: Response) {
        let mut asked = None;
        if let (Response::Explanation(explanation), Some(way)) = (&mut response, &self.way) {
            explanation.retries = way.forwards.retries(id);
        }
        let is_doubted = self.way.as_ref().is_some_and(|way| way.forwards.doubts(id));
        if is_doubted && code_of(&response).is_some() {
            response = refused(ErrorCode::InDoubt);
        }
        self.with_forwards(|forwards, routes, now_ms, actions| {
            asked = forwards.answered(id, now_ms, routes, actions);
        });
        if let Some(Answered { what: Asked { caller, .. }, may_have_happened }) = asked {
            self.respond_to(caller, if may_have_happened { response.of_later_try() } else { response });
        }
    }

    pub(super) fn refused(&mut self, id: u64, why: Refused) {
        self.with_forwards(|forwards, routes, now_ms, actions| forwards.refused(id, why, now_ms, routes, actions));
    }

    /// Too much waits for the node that was to be asked.
    pub(super) fn not_taken(&mut self, id: u64) {
        self.answered(id, Response::Answer(Answer::Failed(ErrorCode::Busy)));
    }

    /// Executes what came from another node, or was held for one.
    pub(super) fn run(&mut self, call: RemoteCall, position: Position, caller: Caller) {
        let response = match call {
            RemoteCall::Row(call) => self.call_here(call, position, caller),
            RemoteCall::Shard { shard, ask } => self.ask_here(shard, ask, caller),
            RemoteCall::Table(call) => {
                self.exchange.change_table(call, self.elsewhere(caller));
                None
            }
            RemoteCall::Writeback => {
                self.exchange.writeback(self.elsewhere(caller));
                None
            }
            RemoteCall::DeadLetters { table } => {
                self.exchange.dead_letters(table, in_one_answer(self.elsewhere(caller)));
                None
            }
            RemoteCall::Status => {
                self.exchange.status(self.elsewhere(caller));
                None
            }
            RemoteCall::Coord { look } => {
                self.exchange.coord_here(look, self.elsewhere(caller));
                None
            }
            RemoteCall::Meta { command } => {
                self.exchange.submit_meta(&command, self.elsewhere(caller));
                None
            }
            RemoteCall::Transfer { shard, to } => {
                self.exchange.transfer(shard, to, self.elsewhere(caller));
                None
            }
        };
        if let Some(response) = response {
            self.respond_to(caller, response);
        }
    }

    /// How somebody else on this node answers a caller of this lane.
    fn elsewhere(&self, caller: Caller) -> Respond {
        let inbox = self.exchange.inboxes[self.number].clone();
        Box::new(move |response| inbox.send(LaneMessage::Respond { caller, response }))
    }

    pub(super) fn begin_of(&self, shard: ShardId) -> Option<Position> {
        self.places.places().iter().find(|place| place.shard == shard).map(|place| place.interval.lo)
    }

    /// A peer has answered.
    pub(super) fn hear_answer(&mut self, answer: &transport::Answer<'_>) {
        if is_question(answer.id) {
            let Outcome::Done(bytes) = answer.outcome else { return self.hear_reply(answer.id, None) };
            return self.hear_reply(answer.id, Response::from_bytes(bytes).ok());
        }
        match answer.outcome {
            Outcome::Done(bytes) => {
                let response = Response::from_bytes(bytes).unwrap_or_else(|_| refused(ErrorCode::InDoubt));
                self.answered(answer.id, response);
            }
            Outcome::Refused { code, message } => {
                self.answered(answer.id, Response::Refused(Refusal::new(code, message)));
            }
            Outcome::Moved { leader, term, descriptors } => {
                let moved = moved(leader, term, descriptors);
                let why = moved.map_or(Refused::NoLeader, Refused::Moved);
                self.refused(answer.id, why);
            }
            Outcome::OldGeneration => self.refused(answer.id, Refused::OldGeneration),
        }
    }

    /// Tables are made and changed where the home of definitions is led.
    pub fn table_call(&mut self, call: TableCall, done: Respond) {
        let caller = self.outside.enter(Outside::Call(done));
        let call = RemoteCall::Table(call);
        match self.is_for_here(alone(caller), Position(0)) {
            true => self.run(call, Position(0), caller),
            false => self.forward(caller, alone(caller), Position(0), &call),
        }
    }

    pub(super) fn ask_remotely(&mut self, shard: ShardId, ask: ShardAsk, done: ShardDone) {
        let caller = self.outside.enter(Outside::Shard(done));
        match self.begin_of(shard) {
            Some(position) => self.forward(caller, alone(caller), position, &RemoteCall::Shard { shard, ask }),
            None => self.respond_to(caller, refused(ErrorCode::StaleRoute)),
        }
    }
}

/// Bytes of dead letters that one node tells another. What is longer would hold up the answers behind it on the link, or close it.
const DEAD_LETTERS_BYTES_MAX: usize = 8 << 20;
/// What a line of them takes besides its texts.
const DEAD_LETTER_COST: usize = 64;

/// All of them or none: a list that lacks some would look whole.
fn in_one_answer(done: Respond) -> Respond {
    Box::new(move |response| {
        let cost = |letter: &DeadLetterLine| {
            DEAD_LETTER_COST + letter.row.key.len() + letter.row.sort.len() + letter.error.len()
        };
        match response {
            Response::DeadLetters(letters) if letters.iter().map(cost).sum::<usize>() > DEAD_LETTERS_BYTES_MAX => {
                let message =
                    format!("{} dead letters are too many for one answer; ask for those of one table", letters.len());
                done(Response::Refused(Refusal::new(ErrorCode::TooLarge, message)));
            }
            response => done(response),
        }
    })
}

/// A request whose first try may have been executed.
fn again(body: &Bytes) -> Bytes {
    RemoteCall::from_bytes(body).map_or_else(|_| body.clone(), |call| call.again().to_bytes().into())
}

/// The source of a call that comes alone and has no order to keep: its own number, which no connection has.
pub(super) fn alone(caller: Caller) -> u64 {
    1 << 63 | caller.sequence
}

/// What a refusal tells about who leads. `None` if it tells nothing.
fn moved(leader: NodeId, term: u64, mut descriptors: &[u8]) -> Option<Moved> {
    let mut found = Vec::new();
    while !descriptors.is_empty() {
        let mut reader = Reader::new(descriptors);
        found.push(Descriptor::decode(&mut reader).ok()?);
        descriptors = reader.rest();
    }
    let leader = Some(leader).filter(|leader| *leader != NodeId(0));
    (leader.is_some() || !found.is_empty()).then_some(Moved { leader, term, descriptors: found })
}

/// Whether a response says that this node does not lead, and has done nothing.
pub(super) fn is_misdirected(response: &Response) -> bool {
    matches!(code_of(response), Some(ErrorCode::NotLeader | ErrorCode::NoLeader | ErrorCode::StaleRoute))
}

/// Whether it says that the shard has other bounds than it was asked by.
pub(super) fn is_stale(response: &Response) -> bool {
    code_of(response) == Some(ErrorCode::StaleRoute)
}

fn code_of(response: &Response) -> Option<ErrorCode> {
    match response {
        Response::Answer(Answer::Failed(code)) => Some(*code),
        Response::Refused(refusal) => Some(refusal.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use shardine_model::{RowKeyBuf, TableId, Timestamp, Version};

    use super::*;

    #[test]
    fn dead_letters_that_do_not_fit_into_an_answer_are_refused_and_not_cut() {
        let letter = |error: usize| DeadLetterLine {
            row: RowKeyBuf { table: TableId(1), key: (*b"k").into(), sort: (*b"").into() },
            version: Version(1),
            error: "x".repeat(error),
            tries: 1,
            first_at: Timestamp(0),
            last_at: Timestamp(0),
        };
        let answer = |letters: Vec<DeadLetterLine>| {
            let (give, take) = channel();
            in_one_answer(Box::new(move |response| drop(give.send(response))))(Response::DeadLetters(letters));
            take.recv().unwrap()
        };
        let half = DEAD_LETTERS_BYTES_MAX / 2 - DEAD_LETTER_COST - 1;

        assert!(matches!(answer(vec![letter(half), letter(half)]), Response::DeadLetters(all) if all.len() == 2));
        let refused = answer(vec![letter(half), letter(half), letter(1)]);
        assert!(matches!(&refused, Response::Refused(refusal) if refusal.code == ErrorCode::TooLarge), "{refused:?}");
    }
}

//! Questions to another node about itself, and reads that may be old: they keep no order, so they do not go through
//! `router::Forwards`. Whoever asks learns within a second that there is no answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_router::{RemoteCall, Response};

use super::core::Core;
use super::forward::Departure;
use super::stale::StaleRead;
use crate::lane_message::Respond;

/// This bit in its number tells a question from a forwarded request.
const QUESTION: u64 = 1 << 63;

/// How long an answer may take. Whoever looks at the cluster wants to see the rest of it.
pub(super) const PATIENCE_MS: u64 = 1_000;

#[derive(Default)]
pub(super) struct Questions {
    asked: BTreeMap<u64, Question>,
    numbers: u64,
}

struct Question {
    node: NodeId,
    until_ms: u64,
    asker: Asker,
}

enum Asker {
    Anybody(Respond),
    /// Whoever reads what may be old, and asks somebody else if this node does not answer.
    Reader(StaleRead),
}

pub(super) fn is_question(id: u64) -> bool {
    id & QUESTION != 0
}

impl Questions {
    /// Those that are not waited for any longer.
    fn take(&mut self, is_over: impl Fn(&Question) -> bool) -> Vec<Question> {
        self.asked.extract_if(.., |_, question| is_over(question)).map(|(_, question)| question).collect()
    }
}

impl Core {
    pub fn ask_node(&mut self, node: NodeId, call: &RemoteCall, done: Respond) {
        self.ask(node, call, Asker::Anybody(done));
    }

    /// Asks a node for a row that may be old.
    pub(super) fn ask_node_for(&mut self, node: NodeId, read: StaleRead) {
        let call = RemoteCall::Row(read.call());
        self.ask(node, &call, Asker::Reader(read));
    }

    fn ask(&mut self, node: NodeId, call: &RemoteCall, asker: Asker) {
        self.questions.numbers += 1;
        let id = QUESTION | self.questions.numbers;
        let question = Question { node, until_ms: self.time().monotonic_ms + PATIENCE_MS, asker };
        self.questions.asked.insert(id, question);
        self.departures.push(Departure::Question { node, id, body: Bytes::from(call.to_bytes()) });
    }

    /// A node has answered a question, or could not be asked.
    pub(super) fn hear_reply(&mut self, id: u64, response: Option<Response>) {
        if let Some(question) = self.questions.asked.remove(&id) {
            self.conclude(question, response);
        }
    }

    fn conclude(&mut self, question: Question, response: Option<Response>) {
        match (question.asker, response) {
            (Asker::Anybody(done), response) => done(response.unwrap_or_else(unanswered)),
            (Asker::Reader(read), Some(response)) => self.replica_answered(read, Some(response)),
            (Asker::Reader(read), None) => self.replica_is_mute(question.node, read),
        }
    }

    pub(super) fn drop_questions_to(&mut self, node: NodeId) {
        let lost = self.questions.take(|question| question.node == node);
        lost.into_iter().for_each(|question| self.conclude(question, None));
    }

    pub fn tick_questions(&mut self) {
        let now_ms = self.time().monotonic_ms;
        let late = self.questions.take(|question| question.until_ms <= now_ms);
        late.into_iter().for_each(|question| self.conclude(question, None));
    }
}

fn unanswered() -> Response {
    Response::Refused(Refusal::new(ErrorCode::Busy, "another node does not answer; try again shortly"))
}

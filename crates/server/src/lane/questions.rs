//! Questions to another node about itself: they belong to no position and keep no order, so they do not go through
//! `router::Forwards`. Whoever asks learns within a second that there is no answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_router::{RemoteCall, Response};

use super::core::Core;
use super::forward::Departure;
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
    done: Respond,
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
        self.questions.numbers += 1;
        let id = QUESTION | self.questions.numbers;
        let question = Question { node, until_ms: self.time().monotonic_ms + PATIENCE_MS, done };
        self.questions.asked.insert(id, question);
        self.departures.push(Departure::Question { node, id, body: Bytes::from(call.to_bytes()) });
    }

    /// A node has answered a question, or could not be asked.
    pub(super) fn hear_reply(&mut self, id: u64, response: Option<Response>) {
        if let Some(Question { done, .. }) = self.questions.asked.remove(&id) {
            done(response.unwrap_or_else(unanswered));
        }
    }

    pub(super) fn drop_questions_to(&mut self, node: NodeId) {
        self.questions.take(|question| question.node == node).into_iter().for_each(give_up);
    }

    pub fn tick_questions(&mut self) {
        let now_ms = self.time().monotonic_ms;
        self.questions.take(|question| question.until_ms <= now_ms).into_iter().for_each(give_up);
    }
}

fn give_up(question: Question) {
    (question.done)(unanswered());
}

fn unanswered() -> Response {
    Response::Refused(Refusal::new(ErrorCode::Busy, "another node does not answer; try again shortly"))
}

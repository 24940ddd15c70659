//! Commands on their way to whoever leads the map's group, and what comes of them.

use std::sync::Arc;

use shardine_model::{ErrorCode, NodeId, Refusal, ShardId};
use shardine_router::{RemoteCall, Response};
use shardine_shard::meta::{Command, OLD_COPY, Reply, Ticket};

use super::super::MetaMessage;
use super::super::asked::{Open, Waiter, to_response};
use super::{ASKING_LANE, Announced, MetaThread};
use crate::exchange::{refused, transfer};
use crate::lane_message::LaneMessage;

impl MetaThread {
    /// Takes open commands to whoever leads.
    pub(super) fn pursue(&mut self) {
        let now_ms = self.now_ms();
        for open in self.asked.take_due(now_ms) {
            if self.is_ready() {
                let command = open.command.clone();
                self.submit(&command, Waiter::Own(open));
                continue;
            }
            let leader = self.cluster().board.leader(ShardId::META).filter(|leader| *leader != self.parts.node);
            let Some(node) = leader else {
                self.asked.again(open, now_ms);
                continue;
            };
            let mut command = Vec::new();
            open.command.encode(&mut command);
            let (number, back) = (self.asked.send_abroad(open), self.parts.back.clone());
            let done = Box::new(move |response: Response| drop(back.send(MetaMessage::Answered { number, response })));
            let call = RemoteCall::Meta { command };
            self.parts.exchange.inboxes[ASKING_LANE].send(LaneMessage::AskNode { node, call, done });
        }
    }

    pub(super) fn submit(&mut self, command: &Command, waiter: Waiter) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.waiting.insert(ticket, waiter);
        let seat = self.seat().filter(|_| self.is_ready());
        // The history says when it was.
        let dated = command.clone().dated(self.parts.host.time().wall, String::new());
        let acted =
            seat.and_then(|seat| self.parts.host.act(seat, |replica, actions| replica.submit(ticket, &dated, actions)));
        if acted.is_none() {
            let refusal = Refusal::new(ErrorCode::NotLeader, "this node does not lead the group of the map");
            self.answer(ticket, Err(refusal));
        }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, reply: Result<Reply, Refusal>) {
        match (self.waiting.remove(&ticket), reply) {
            (Some(Waiter::Own(open)), Err(refusal)) if refusal.code == ErrorCode::NotLeader => {
                self.asked.again(open, self.now_ms());
            }
            (Some(Waiter::Own(open)), reply) => open.finish(reply),
            (Some(Waiter::Foreign(done)), reply) => done(to_response(reply)),
            (None, _) => {}
        }
    }

    /// Begins to give the lead to another node, as an operator wants it; says to which.
    pub(super) fn transfer(&mut self, to: Option<NodeId>) -> Response {
        let sheet = Arc::clone(&self.sheet);
        let Some(seat) = self.seat() else { return refused(ErrorCode::NotLeader) };
        let heir = match transfer::heir(&sheet.cluster, ShardId::META, to) {
            Ok(heir) => heir,
            Err(refusal) => return Response::Refused(refusal),
        };
        let begun = self.parts.host.act(seat, |replica, actions| replica.hand_over(heir, actions));
        transfer::told(&sheet.cluster, ShardId::META, begun)
    }

    /// Says that this start of the node is the newest, and where it is.
    pub(super) fn announce(&mut self) {
        self.announced = Announced::Asked;
        let (node, joiner) = (self.parts.node, self.parts.joiner.clone());
        let back = self.parts.back.clone();
        let done = Box::new(move |reply| drop(back.send(MetaMessage::Announced(reply))));
        self.asked.add(Open::new(Box::new(Command::Announce { node, joiner }), done, self.now_ms()));
    }

    pub(super) fn hear_announced(&mut self, reply: Result<Reply, Refusal>) {
        self.announced = match reply {
            Ok(_) => Announced::Done,
            Err(refusal) if refusal.code == ErrorCode::Forbidden => {
                tracing::error!("this start of the node is not let in: {}", refusal.message);
                if refusal.message.starts_with(OLD_COPY) {
                    self.parts.book.give_up(&refusal.message);
                }
                std::process::exit(69);
            }
            Err(_) => Announced::Not,
        };
    }
}

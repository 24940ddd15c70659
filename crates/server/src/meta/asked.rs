//! Commands for whoever leads the map's group: here, or on another node. What was certainly not executed is asked again; of what
//! may have been, whoever asked is told so.

use std::collections::BTreeMap;

use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_router::Response;
use shardine_shard::meta::{Command, OperationId, Place, Reply};

use super::OnReply;
use crate::lane_message::Respond;

/// How long somebody is looked for who leads.
const PATIENCE_MS: u64 = 5_000;
/// How long between two tries.
const AGAIN_MS: u64 = 100;

/// Who waits for a command.
pub(super) enum Waiter {
    /// Somebody on this node: the command is tried elsewhere if it was not executed here.
    Own(Open),
    /// Another node, which does that itself.
    Foreign(Respond),
}

/// A command that nobody has executed yet, as far as is known.
pub(super) struct Open {
    pub command: Box<Command>,
    done: OnReply,
    until_ms: u64,
    again_ms: u64,
}

impl Open {
    pub fn new(command: Box<Command>, done: OnReply, now_ms: u64) -> Self {
        Self { command, done, until_ms: now_ms + PATIENCE_MS, again_ms: now_ms }
    }

    pub fn finish(self, reply: Result<Reply, Refusal>) {
        (self.done)(reply);
    }
}

#[derive(Default)]
pub(super) struct Asked {
    open: Vec<Open>,
    /// Those that another node was asked.
    abroad: BTreeMap<u64, Open>,
    numbers: u64,
}

impl Asked {
    pub fn add(&mut self, open: Open) {
        self.open.push(open);
    }

    /// Nobody has executed it: it is tried again, while there is time.
    pub fn again(&mut self, mut open: Open, now_ms: u64) {
        open.again_ms = now_ms + AGAIN_MS;
        self.open.push(open);
    }

    /// Those whose turn it is. Whoever has waited for too long is told.
    pub fn take_due(&mut self, now_ms: u64) -> Vec<Open> {
        let (due, rest): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.again_ms <= now_ms);
        self.open = rest;
        let (late, due): (Vec<Open>, Vec<Open>) = due.into_iter().partition(|open| open.until_ms <= now_ms);
        let refusal = || Refusal::new(ErrorCode::NoLeader, "no node leads the group of the map; nothing was changed");
        late.into_iter().for_each(|open| open.finish(Err(refusal())));
        due
    }

    pub fn send_abroad(&mut self, open: Open) -> u64 {
        self.numbers += 1;
        self.abroad.insert(self.numbers, open);
        self.numbers
    }

    /// What another node has answered.
    pub fn hear(&mut self, number: u64, response: Response, now_ms: u64) {
        let Some(open) = self.abroad.remove(&number) else { return };
        match to_reply(&open.command, response) {
            Err(refusal) if refusal.code == ErrorCode::NotLeader => self.again(open, now_ms),
            reply => open.finish(reply),
        }
    }
}

/// As it travels from the node that leads to the one that asked.
pub(super) fn to_response(reply: Result<Reply, Refusal>) -> Response {
    match reply {
        Ok(Reply::Done) => Response::Done,
        Ok(Reply::Node(node)) => Response::Count(node.0),
        Ok(Reply::Begun(operation)) => Response::Count(operation.0),
        Ok(Reply::Place(Place { group, placed })) => Response::Place { group, placed },
        Ok(Reply::Table(table)) => Response::Table(table),
        Err(refusal) => Response::Refused(refusal),
    }
}

fn to_reply(command: &Command, response: Response) -> Result<Reply, Refusal> {
    match (response, command) {
        (Response::Done, _) => Ok(Reply::Done),
        (Response::Table(table), _) => Ok(Reply::Table(table)),
        (Response::Count(node), Command::Join { .. } | Command::Announce { .. }) => Ok(Reply::Node(NodeId(node))),
        (Response::Place { group, placed }, _) => Ok(Reply::Place(Place { group, placed })),
        (Response::Count(operation), _) => Ok(Reply::Begun(OperationId(operation))),
        (Response::Refused(refusal), _) => Err(refusal),
        (_, _) => Err(Refusal::new(ErrorCode::InDoubt, "the leader of the map's group has answered something else")),
    }
}

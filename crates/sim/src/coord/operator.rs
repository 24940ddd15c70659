//! An operator who makes, changes, lists and drops nodes meanwhile. Each call is answered once at most.

use shardine_coord::{Config, NodeCall, NodeReply, Ticket};

use crate::check::Violation;
use crate::coord::Coordination;
use crate::coord::check::every_request_is_answered_once;
use crate::coord::event::{Event, Input, arrive};
use crate::coord::names::{PATH, SIDE_PATH};
use crate::ground::{MS, SECOND};
use crate::world::World;

/// A call on its way, until it is answered.
#[derive(Clone, Debug)]
pub struct Call {
    call: NodeCall,
    is_answered: bool,
}

impl World<Coordination> {
    pub fn operate(&mut self) {
        if !self.faults_on {
            return;
        }
        let pause = self.chance.between((200 * MS, 2 * SECOND));
        self.later(pause, Event::Operates.into());
        let side = || SIDE_PATH.to_owned();
        let call = match self.chance.below(6) {
            0 => NodeCall::List,
            1 => NodeCall::Describe { path: PATH.to_owned() },
            2 => NodeCall::Describe { path: side() },
            3 => NodeCall::Drop { path: side() },
            4 => NodeCall::Alter { path: side(), config: self.tenant.plan.config },
            _ => NodeCall::Create { path: side(), config: Config::default() },
        };
        let node = self.leader_of(0).unwrap_or_else(|| self.chance.index(self.nodes.len()));
        self.call(node, call);
    }

    pub fn call(&mut self, node: usize, call: NodeCall) {
        let ticket = Ticket(self.tenant.calls.len() as u64);
        self.tenant.calls.push(Call { call, is_answered: false });
        if let Some(at) = self.net.send_to_client_or_back(self.now) {
            self.schedule.at(at, arrive(node, Input::Call { ticket }));
        }
    }

    pub fn take_call(&mut self, node: usize, ticket: Ticket) {
        let call = self.tenant.calls[ticket.0 as usize].call.clone();
        self.note(&[27, node as u64, ticket.0], || format!("node {} takes call {}: {call:?}", node + 1, ticket.0));
        self.drive(node, 0, |replica, actions| replica.call(ticket, &call, actions));
    }

    /// A node replies; the reply may be lost on its way.
    pub fn reply(&mut self, node: usize, ticket: Ticket, reply: NodeReply) {
        self.note(&[28, node as u64, ticket.0], || format!("node {} replies to {}: {reply:?}", node + 1, ticket.0));
        let call = &mut self.tenant.calls[ticket.0 as usize];
        if std::mem::replace(&mut call.is_answered, true) {
            let detail = format!("{:?} is replied to twice", call.call);
            return self.demand(Err(Violation::new(every_request_is_answered_once::NAME, detail)));
        }
        match reply {
            NodeReply::Refused(_) => self.tenant.counters.calls_refused += 1,
            NodeReply::Done
            | NodeReply::Described { .. }
            | NodeReply::List(_)
            | NodeReply::Resources(_)
            | NodeReply::Resource { .. } => {
                self.tenant.counters.calls_answered += 1;
            }
        }
    }
}

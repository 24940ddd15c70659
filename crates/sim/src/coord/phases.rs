//! The phases of a run that are coordination's own: a node and its semaphores are made, everything comes to rest, everybody
//! leaves.

use shardine_coord::NodeCall;

use crate::check::heals_in_time;
use crate::coord::Coordination;
use crate::coord::event::Event;
use crate::coord::names::{NAMES, PATH};
use crate::ground::MS;
use crate::run::BOOTSTRAP;
use crate::world::World;

impl World<Coordination> {
    /// Waits for a leader and makes the node through the log.
    pub fn make_node(&mut self) {
        while self.violation.is_none() && self.tenant.main_node.is_none() {
            if self.now > BOOTSTRAP {
                return self.demand(Err(heals_in_time::violation("the group does not begin to serve")));
            }
            self.run_until(self.now + 100 * MS);
            if let Some(leader) = self.leader_of(0) {
                let config = self.tenant.plan.config;
                self.call(leader, NodeCall::Create { path: PATH.to_owned(), config });
            }
            self.run_until(self.now + 200 * MS);
            self.learn_main_node();
        }
    }

    pub fn begin_clients(&mut self) {
        for client in 0..self.tenant.clients.len() {
            self.later(0, Event::Beats { client }.into());
            let first = self.tenant.clients[client].chance.below(300 * MS);
            self.later(first, Event::Acts { client }.into());
        }
        self.later(0, Event::Operates.into());
    }

    /// Everybody looks at everything once more.
    pub fn heal_clients(&mut self) {
        self.tenant.hidden_until.fill(0);
        for client in &mut self.tenant.clients {
            client.paused_until = client.paused_until.min(self.now);
            client.last_looks = (0..NAMES.len()).collect();
        }
    }

    /// What is still missing until everybody has what it asked for, or, in the end, until nothing is left of anybody.
    pub fn not_at_rest(&self) -> Option<String> {
        for (number, client) in self.tenant.clients.iter().enumerate() {
            if client.is_gone {
                continue;
            }
            if !client.is_attached {
                return Some(format!("client {number} has no session"));
            }
            if client.is_waiting() || !client.last_looks.is_empty() {
                return Some(format!("client {number} still waits for an answer"));
            }
        }
        let Some(leader) = self.leader_of(0) else { return Some("the group has no leader".to_owned()) };
        let sessions = self.nodes[leader].replicas[0].coord().totals().sessions;
        if self.tenant.is_over && sessions > 0 {
            return Some(format!("{sessions} sessions never end"));
        }
        None
    }

    /// Half of the clients say that they leave, the others just do.
    pub fn everybody_leaves(&mut self) {
        self.tenant.is_over = true;
        for number in 0..self.tenant.clients.len() {
            let with_a_word = self.tenant.clients[number].chance.percent(50);
            self.tenant.clients[number].is_gone = true;
            self.leave(number, with_a_word);
        }
    }
}

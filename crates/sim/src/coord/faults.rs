//! What goes wrong for coordination only: between clients and nodes, and with clients themselves.

use crate::coord::Coordination;
use crate::ground::{MS, SECOND};
use crate::tenant::Own;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A client stands still, and goes on as if nothing had happened.
    PauseClient,
    /// All streams to a node break.
    BreakStreams,
    /// Clients cannot reach a node for some time; streams to it hang.
    HideNode,
}

impl Own for Fault {
    const ALL: &'static [Self] = &[Self::PauseClient, Self::BreakStreams, Self::HideNode];
}

impl World<Coordination> {
    pub fn strike_coordination(&mut self, fault: Fault, victim: usize) {
        match fault {
            Fault::PauseClient => {
                let client = self.chance.index(self.tenant.clients.len());
                let length = self.chance.between((200 * MS, 8 * SECOND));
                self.tenant.counters.client_pauses += 1;
                self.tenant.clients[client].paused_until = self.now + length;
            }
            Fault::BreakStreams => {
                self.tenant.counters.streams_broken += 1;
                for wire in self.wires_at(victim) {
                    self.break_wire(wire);
                }
            }
            Fault::HideNode => {
                self.tenant.hidden_until[victim] = self.now + self.chance.between((300 * MS, 5 * SECOND));
            }
        }
    }
}

//! Nodes tell each other what time it is, as the server's control links do: the comparing is the transport's own
//! ([`shardine_transport::Clocks`]), and what a node makes of it is decided by the server's own clock.

use shardine_model::Timestamp;
use shardine_transport::Pulse;

use crate::event::{Event, Input};
use crate::ground::MS;
use crate::tenant::Tenant;
use crate::world::{Node, World};

/// Rarer than in the server, where it is 50 ms: a run has better things to do.
const PULSE_EVERY: u64 = 150 * MS;

impl<T: Tenant> World<T> {
    /// Tells the others the time, and looks whether they agree on another one.
    pub fn pulse(&mut self, node: usize) {
        let life = self.nodes[node].life;
        self.later(PULSE_EVERY, Event::Own { node, life, input: Input::PulseDue });
        let (time, told) = (self.nodes[node].clock.read(self.now), self.nodes[node].clock.told(self.now));
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            let (echo_ms, held_ms) = {
                let of = self.nodes[other].id;
                self.nodes[node].clocks.echo(of, time.monotonic_ms)
            };
            let pulse = Pulse { sent_ms: time.monotonic_ms, echo_ms, held_ms, wall_ms: told.0, ..Pulse::default() };
            for at in self.net.send(node, other, self.now).arrivals.into_iter().flatten() {
                let input = Input::Pulse { from: node, pulse: pulse.clone() };
                self.schedule.at(at, Event::Arrive { node: other, input });
            }
        }
        let agreed = self.nodes[node].clocks.agreed_ms(time.monotonic_ms, told.0, self.nodes.len());
        if let Some(agreed_ms) = agreed {
            self.counters.clocks_corrected +=
                u64::from(self.nodes[node].clock.hear_majority(self.now, Timestamp(agreed_ms)));
        } else if self.nodes[node].clocks.is_contradicted(time.monotonic_ms, told.0) {
            let Node { clock, clocks, .. } = &mut self.nodes[node];
            let walls = clocks.others_ms(time.monotonic_ms).chain([told.0]);
            clock.hear_other_times(self.now, walls.map(Timestamp));
        }
    }

    pub fn hear_pulse(&mut self, node: usize, from: usize, pulse: &Pulse<'_>) {
        let now_ms = self.nodes[node].clock.read(self.now).monotonic_ms;
        let of = self.nodes[from].id;
        self.nodes[node].clocks.hear(of, pulse, now_ms);
    }
}

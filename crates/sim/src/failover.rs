//! What a node does about leaders besides waiting for its timers, as the server would: takes others for dead, and hands over
//! what it leads itself.

use shardine_host::Host;
use shardine_model::{ReplicaId, ShardId};

use crate::event::{Event, Input};
use crate::ground::{MS, SECOND};
use crate::moves::node_of;
use crate::tenant::Tenant;
use crate::world::World;

/// For how long a process that is to end tries to hand over what it leads.
const HAND_OVER_MS: u64 = 1_000;
/// A process that is dead is noticed by the others within this.
const NOTICED_WITHIN: (u64, u64) = (MS, 400 * MS);
/// How often heirs that wait are looked after.
const LOOK_EVERY: u64 = 5 * MS;

impl<T: Tenant> World<T> {
    /// Others take a node for dead, rightly or not, and for how long they do.
    pub fn be_suspected(&mut self, victim: usize) {
        let length = self.chance.between((100 * MS, 3 * SECOND));
        for other in (0..self.nodes.len()).filter(|other| *other != victim) {
            if self.chance.percent(75) {
                let first = self.chance.below(30 * MS);
                self.later(first, Event::Arrive { node: other, input: Input::Suspect { of: victim } });
                self.later(first + length, Event::Arrive { node: other, input: Input::Trust { of: victim } });
            }
        }
    }

    /// A process has died; those who watch over it notice.
    pub fn be_missed(&mut self, victim: usize) {
        if !self.ground.is_watched {
            return;
        }
        for other in (0..self.nodes.len()).filter(|other| *other != victim) {
            let noticed = self.chance.between(NOTICED_WITHIN);
            self.later(noticed, Event::Arrive { node: other, input: Input::Suspect { of: victim } });
        }
    }

    /// A process has begun, and greets the others.
    pub fn greet(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            let delay = self.chance.between(NOTICED_WITHIN);
            self.later(delay, Event::Arrive { node: other, input: Input::Trust { of: node } });
        }
    }

    pub fn suspect(&mut self, node: usize, of: usize) {
        self.counters.suspicions += 1;
        self.note(&[18, node as u64, of as u64], || format!("node {} suspects node {}", node + 1, of + 1));
        let (suspect, chart) = (self.nodes[of].id, self.nodes[node].chart.clone());
        let lives_there =
            |shard: ShardId, replica: ReplicaId| node_of(chart.as_deref(), shard, replica) == Some(suspect);
        for lane in 0..self.ground.lanes {
            self.turn(node, lane, |host| host.suspect(suspect, lives_there));
        }
        self.give_up_links_to(node, suspect);
        T::life_changed(self, node, suspect, true);
        // One that lives is heard again, also where the news of its death came behind that of its return.
        if self.ground.has_links && self.nodes[of].is_up() {
            self.later(SECOND, Event::Arrive { node, input: Input::Trust { of } });
        }
        self.look_again(node);
    }

    pub fn trust(&mut self, node: usize, of: usize) {
        for lane in 0..self.ground.lanes {
            let id = self.nodes[of].id;
            self.turn(node, lane, |host| host.trust(id));
        }
        let id = self.nodes[of].id;
        T::life_changed(self, node, id, false);
    }

    /// Lets whoever is due ask for votes: every turn does.
    pub fn look_after_heirs(&mut self, node: usize) {
        for lane in 0..self.ground.lanes {
            self.turn(node, lane, |_| {});
        }
        self.look_again(node);
    }

    fn look_again(&mut self, node: usize) {
        if self.nodes[node].replicas.hosts.iter().any(Host::awaits_votes) {
            let life = self.nodes[node].life;
            self.later(LOOK_EVERY, Event::Own { node, life, input: Input::Look });
        }
    }

    pub fn hand_over(&mut self, node: usize) {
        self.counters.hand_overs += 1;
        self.note(&[19, node as u64], || format!("node {} hands over what it leads", node + 1));
        for lane in 0..self.ground.lanes {
            self.turn(node, lane, |host| host.hand_over(host.time().monotonic_ms + HAND_OVER_MS));
        }
    }

    /// Looks at every tick whether everything is handed over, and whether the disk has stalled.
    pub fn watch_lead(&mut self, node: usize) {
        let hosts = &self.nodes[node].replicas.hosts;
        if self.ground.is_watched && hosts.iter().any(|host| host.is_stalled() && host.hand_over_status().is_none()) {
            self.counters.stalls += 1;
            return self.hand_over(node);
        }
        let is_over = |host: &Host<T::Replica>| host.hand_over_status().is_some_and(|status| status.is_over());
        if hosts.is_empty() || !hosts.iter().all(is_over) {
            return;
        }
        for host in &mut self.nodes[node].replicas.hosts {
            let status = host.hand_over_status().unwrap_or_default();
            self.counters.hand_overs_failed += status.given_up.len() as u64;
            host.end_hand_over();
        }
        if let Some(down) = self.nodes[node].ends_for.take() {
            self.crash(node, down);
        }
    }
}

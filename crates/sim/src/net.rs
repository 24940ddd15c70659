//! The network between nodes: delay, loss, copies, detours, cuts in either direction, clogging. Knows nothing of what it
//! carries.

use crate::chance::Chance;
use crate::ground::NetPlan;

/// What becomes of a message: the times at which copies of it arrive. None is a loss, two a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub arrivals: [Option<u64>; 2],
}

#[derive(Clone, Debug)]
pub struct Net {
    plan: NetPlan,
    nodes: usize,
    chance: Chance,
    /// Until when each directed link is cut, and until when what enters it stays inside.
    cut_until: Vec<u64>,
    clogged_until: Vec<u64>,
    calm: bool,
}

impl Net {
    #[must_use]
    pub fn new(plan: NetPlan, nodes: usize, chance: Chance) -> Self {
        let links = vec![0; nodes * nodes];
        Self { plan, nodes, chance, cut_until: links.clone(), clogged_until: links, calm: false }
    }

    fn link(&self, from: usize, to: usize) -> usize {
        from * self.nodes + to
    }

    pub fn cut(&mut self, from: usize, to: usize, until: u64) {
        let link = self.link(from, to);
        self.cut_until[link] = self.cut_until[link].max(until);
    }

    pub fn clog(&mut self, from: usize, to: usize, until: u64) {
        let link = self.link(from, to);
        self.clogged_until[link] = self.clogged_until[link].max(until);
    }

    /// Takes all faults away, for good.
    pub fn calm(&mut self) {
        self.calm = true;
        self.cut_until.fill(0);
        self.clogged_until.fill(0);
    }

    #[must_use]
    pub fn is_cut(&self, from: usize, to: usize, now: u64) -> bool {
        now < self.cut_until[self.link(from, to)]
    }

    pub fn send(&mut self, from: usize, to: usize, now: u64) -> Fate {
        let lost = self.chance.per_mille(self.plan.loss_per_mille) && !self.calm;
        if self.is_cut(from, to, now) || lost {
            return Fate::default();
        }
        let first = self.arrival(from, to, now);
        let copied = self.chance.per_mille(self.plan.copy_per_mille) && !self.calm;
        let second = copied.then(|| self.arrival(from, to, now));
        Fate { arrivals: [Some(first), second] }
    }

    /// When what is put on a wire comes out of it: nothing is lost there, but a cut keeps it inside.
    pub fn flow(&mut self, from: usize, to: usize, now: u64) -> u64 {
        let link = self.link(from, to);
        let free = now.max(self.clogged_until[link]).max(self.cut_until[link]);
        free + self.chance.between(self.plan.delay)
    }

    fn arrival(&mut self, from: usize, to: usize, now: u64) -> u64 {
        let detour = self.chance.per_mille(self.plan.detour_per_mille) && !self.calm;
        let delay = self.chance.between(if detour { self.plan.detour } else { self.plan.delay });
        now.max(self.clogged_until[self.link(from, to)]) + delay
    }

    /// When something between a client and a node arrives, if it does.
    pub fn send_to_client_or_back(&mut self, now: u64) -> Option<u64> {
        let lost = self.chance.per_mille(self.plan.client_loss_per_mille) && !self.calm;
        (!lost).then(|| now + self.chance.between(self.plan.delay))
    }
}

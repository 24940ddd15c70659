//! A replica of a shard as its host sees it.

use shardine_shard::{Actions, Message, Replica, Role, Time};

use crate::tenant::{Member, Work};

impl Member for Replica {
    type Actions = Actions;

    fn set_time(&mut self, time: Time) {
        Self::set_time(self, time);
    }

    fn tick(&mut self, time: Time, actions: &mut Actions) {
        Self::tick(self, time, actions);
    }

    fn step(&mut self, message: Message, actions: &mut Actions) {
        Self::step(self, message, actions);
    }

    fn persisted(&mut self, number: u64, actions: &mut Actions) {
        Self::persisted(self, number, actions);
    }

    fn wants_proposal(&self) -> bool {
        Self::wants_proposal(self)
    }

    fn propose_gathered(&mut self, actions: &mut Actions) {
        Self::propose_gathered(self, actions);
    }

    fn is_cutting(&self) -> bool {
        Self::is_cutting(self)
    }

    fn snapshot_step(&mut self, bytes: usize, actions: &mut Actions) {
        Self::snapshot_step(self, bytes, actions);
    }

    fn snapshot_saved(&mut self, index: u64) {
        Self::snapshot_saved(self, index);
    }

    fn role(&self) -> Role {
        Self::role(self)
    }

    fn term(&self) -> u64 {
        Self::term(self)
    }

    fn applied(&self) -> u64 {
        Self::applied(self)
    }

    fn committed(&self) -> u64 {
        self.status().committed
    }

    fn is_serving(&self) -> bool {
        Self::is_serving(self)
    }

    fn state_hash(&self) -> u64 {
        self.records().state_hash()
    }

    fn work(actions: &mut Actions) -> Work<'_> {
        let Actions { persists, messages, snapshot, stop, .. } = actions;
        Work { persists, messages, snapshot, stop }
    }
}

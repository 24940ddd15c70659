//! A replica as its host sees it, whichever state machine it holds.

use shardine_model::{Bounds, ReplicaId, ShardId, Split};
use shardine_shard::{
    ChangeRefused, Checks, Group, Infancy, MembershipChange, Message, Newborn, Persist, Replica, Role, SnapshotPart,
    SplitProgress, Time, TransferRefused, coord, meta,
};

pub trait GroupReplica {
    type Actions: Default;
    /// What a snapshot is made into.
    type Machine;

    fn shard(&self) -> ShardId;
    fn id(&self) -> ReplicaId;
    /// What it owns of the key space, if it owns any.
    fn bounds(&self) -> Option<&Bounds> {
        None
    }

    /// Tells the time without letting timers run.
    fn set_time(&mut self, time: Time);
    /// One step of the group's timers.
    fn tick(&mut self, time: Time, actions: &mut Self::Actions);
    /// Whether one tick of [`shardine_shard::REST_PACE`] is enough for now.
    fn rests(&self) -> bool {
        false
    }
    /// Stands for election at once.
    fn campaign(&mut self, actions: &mut Self::Actions);
    /// Believes no longer that somebody leads.
    fn forget_leader(&mut self, actions: &mut Self::Actions);
    /// Begins to hand the lead over, to the best heir if none is named. Says to whom.
    fn hand_over(&mut self, to: Option<ReplicaId>, actions: &mut Self::Actions) -> Result<ReplicaId, TransferRefused>;
    /// Whether a hand-over has begun of which it is not known how it ends.
    fn is_handing_over(&self) -> bool;
    /// Proposes a change of members.
    fn change_members(&mut self, change: &MembershipChange, actions: &mut Self::Actions) -> Result<(), ChangeRefused>;
    fn step(&mut self, message: Message, actions: &mut Self::Actions);
    /// The same for a leader's snapshot, with what its content was made into.
    fn step_snapshot(&mut self, message: Message, machine: Self::Machine, actions: &mut Self::Actions);
    /// This log write, and all before it, is on disk.
    fn persisted(&mut self, number: u64, actions: &mut Self::Actions);

    /// The last thing in every turn in which something happened to it, whether or not the log is free.
    fn end_turn(&mut self, actions: &mut Self::Actions);
    /// Whether it has gathered something for the log.
    fn wants_proposal(&self) -> bool;
    /// Proposes what has gathered. Called when the log is free to take the next write.
    fn propose_gathered(&mut self, actions: &mut Self::Actions);
    /// When [`GroupReplica::run_timers`] has something to do, besides the steady ticks.
    fn next_due_ms(&self) -> Option<u64>;
    fn run_timers(&mut self, actions: &mut Self::Actions);

    fn snapshot_now(&mut self);
    fn is_cutting(&self) -> bool;
    fn snapshot_step(&mut self, bytes: usize, actions: &mut Self::Actions);
    fn snapshot_saved(&mut self, index: u64);
    fn snapshot_failed(&mut self);

    /// Whether it has a split behind it of which its owner has not heard.
    fn has_newborn(_actions: &Self::Actions) -> bool {
        false
    }
    /// What was born of it in the last turn. Only shards of records are split.
    fn take_newborn(_actions: &mut Self::Actions) -> Vec<Newborn> {
        Vec::new()
    }
    /// Begins to live, with what the disk has of it.
    fn bear(_newborn: Newborn, _found: Option<Infancy>) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// Goes on with a split that the map wants.
    fn advance_split(&mut self, _split: &Split, _actions: &mut Self::Actions) -> SplitProgress {
        SplitProgress::Overtaken
    }
    /// Whether there is a snapshot of it on disk, or one will be without anybody's asking.
    fn has_snapshot(&self) -> SnapshotState {
        SnapshotState::Saved
    }
    /// Nothing is cut of it while what was born of it needs the last snapshot and the log behind it.
    fn pin(&mut self, _pinned: bool) {}

    /// It was removed, and is about to go: whoever waits for something is told.
    fn retire(&mut self, actions: &mut Self::Actions);
    /// Has it, where it leads, look for replicas that have parted from the others so often; 0 means never.
    fn compare_every(&mut self, _every_ms: u64) {}
    /// What that has come to.
    fn checks(&self) -> Checks {
        Checks::default()
    }
    /// Its part in its group.
    fn group(&self) -> &Group;
    /// Who is believed to lead.
    fn leader(&self) -> Option<ReplicaId>;
    fn voters(&self) -> &[ReplicaId];
    /// Of a leader: who may lead next, best first.
    fn heirs(&self) -> Vec<ReplicaId>;
    fn role(&self) -> Role;
    fn term(&self) -> u64;
    fn applied(&self) -> u64;
    fn committed(&self) -> u64;
    fn is_serving(&self) -> bool;

    /// What every replica asks of its host. The rest of the actions is the owner's business.
    fn work(actions: &mut Self::Actions) -> Work<'_>;
}

/// How far the disk is with a replica's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    Saved,
    OnItsWay,
    Absent,
}

/// The part of the actions that has nothing to do with the state machine.
pub struct Work<'a> {
    pub persists: &'a mut Vec<Persist>,
    pub messages: &'a mut Vec<Message>,
    pub snapshot: &'a mut Vec<SnapshotPart>,
    pub stop: &'a mut Option<String>,
}

/// Methods that a replica has under the same name and with the same meaning.
macro_rules! as_the_replica_does {
    () => {
        fn campaign(&mut self, actions: &mut Self::Actions) {
            Self::campaign(self, actions);
        }

        fn forget_leader(&mut self, actions: &mut Self::Actions) {
            Self::forget_leader(self, actions);
        }

        fn hand_over(
            &mut self,
            to: Option<ReplicaId>,
            actions: &mut Self::Actions,
        ) -> Result<ReplicaId, TransferRefused> {
            Self::hand_over(self, to, actions)
        }

        fn is_handing_over(&self) -> bool {
            Self::is_handing_over(self)
        }

        fn change_members(
            &mut self,
            change: &MembershipChange,
            actions: &mut Self::Actions,
        ) -> Result<(), ChangeRefused> {
            Self::change_members(self, change, actions)
        }

        fn retire(&mut self, actions: &mut Self::Actions) {
            Self::retire(self, actions);
        }

        fn compare_every(&mut self, every_ms: u64) {
            Self::compare_every(self, every_ms);
        }

        fn checks(&self) -> Checks {
            Self::checks(self)
        }

        fn group(&self) -> &Group {
            Self::group(self)
        }

        fn step(&mut self, message: Message, actions: &mut Self::Actions) {
            Self::step(self, message, actions);
        }

        fn step_snapshot(&mut self, message: Message, machine: Self::Machine, actions: &mut Self::Actions) {
            Self::step_snapshot(self, message, machine, actions);
        }

        fn persisted(&mut self, number: u64, actions: &mut Self::Actions) {
            Self::persisted(self, number, actions);
        }

        fn wants_proposal(&self) -> bool {
            Self::wants_proposal(self)
        }

        fn propose_gathered(&mut self, actions: &mut Self::Actions) {
            Self::propose_gathered(self, actions);
        }

        fn snapshot_now(&mut self) {
            Self::snapshot_now(self);
        }

        #[inline]
        fn is_cutting(&self) -> bool {
            Self::is_cutting(self)
        }

        fn snapshot_step(&mut self, bytes: usize, actions: &mut Self::Actions) {
            Self::snapshot_step(self, bytes, actions);
        }

        fn snapshot_saved(&mut self, index: u64) {
            Self::snapshot_saved(self, index);
        }

        fn snapshot_failed(&mut self) {
            Self::snapshot_failed(self);
        }

        fn shard(&self) -> ShardId {
            Self::shard(self)
        }

        fn id(&self) -> ReplicaId {
            Self::id(self)
        }

        fn leader(&self) -> Option<ReplicaId> {
            Self::group(self).leader()
        }

        fn voters(&self) -> &[ReplicaId] {
            &Self::group(self).membership().voters
        }

        fn heirs(&self) -> Vec<ReplicaId> {
            Self::group(self).heirs()
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
            Self::committed(self)
        }

        fn is_serving(&self) -> bool {
            Self::is_serving(self)
        }

        fn work(actions: &mut Self::Actions) -> Work<'_> {
            let Self::Actions { persists, messages, snapshot, stop, .. } = actions;
            Work { persists, messages, snapshot, stop }
        }
    };
}

impl GroupReplica for Replica {
    type Actions = shardine_shard::Actions;
    type Machine = shardine_shard::Records;

    as_the_replica_does!();

    fn bounds(&self) -> Option<&Bounds> {
        Some(Self::bounds(self))
    }

    #[inline]
    fn set_time(&mut self, time: Time) {
        Self::set_time(self, time);
    }

    fn tick(&mut self, time: Time, actions: &mut Self::Actions) {
        Self::tick(self, time, actions);
    }

    #[inline]
    fn rests(&self) -> bool {
        Self::rests(self)
    }

    /// One read-index round begins for all who read in the turn (records 53), and SQL is asked for what was missed in it, for all
    /// who missed it together (records 39).
    fn end_turn(&mut self, actions: &mut Self::Actions) {
        if self.wants_read_round() {
            self.begin_read_round(actions);
        }
        if self.wants_sql() {
            self.ask_sql(actions);
        }
    }

    /// Everything it has to do by time is done at ticks.
    fn next_due_ms(&self) -> Option<u64> {
        None
    }

    fn run_timers(&mut self, _actions: &mut Self::Actions) {}

    #[inline]
    fn has_newborn(actions: &Self::Actions) -> bool {
        !actions.newborn.is_empty()
    }

    fn take_newborn(actions: &mut Self::Actions) -> Vec<Newborn> {
        std::mem::take(&mut actions.newborn)
    }

    fn bear(newborn: Newborn, found: Option<Infancy>) -> Option<Self> {
        Some(newborn.bear(found))
    }

    fn advance_split(&mut self, split: &Split, actions: &mut Self::Actions) -> SplitProgress {
        Self::advance_split(self, split, actions)
    }

    fn has_snapshot(&self) -> SnapshotState {
        match (self.saved(), self.is_saving()) {
            (1.., _) => SnapshotState::Saved,
            (0, true) => SnapshotState::OnItsWay,
            (0, false) => SnapshotState::Absent,
        }
    }

    fn pin(&mut self, pinned: bool) {
        Self::pin(self, pinned);
    }
}

impl GroupReplica for coord::Replica {
    type Actions = coord::Actions;
    type Machine = coord::Coord;

    as_the_replica_does!();

    fn set_time(&mut self, time: Time) {
        Self::set_time(self, time.monotonic_ms);
    }

    fn tick(&mut self, time: Time, actions: &mut Self::Actions) {
        Self::tick(self, time.monotonic_ms, actions);
    }

    fn end_turn(&mut self, _actions: &mut Self::Actions) {}

    fn next_due_ms(&self) -> Option<u64> {
        Self::next_due_ms(self)
    }

    fn run_timers(&mut self, actions: &mut Self::Actions) {
        Self::run_timers(self, actions);
    }
}

impl GroupReplica for meta::Replica {
    type Actions = meta::Actions;
    type Machine = meta::Meta;

    as_the_replica_does!();

    fn set_time(&mut self, time: Time) {
        Self::set_time(self, time.monotonic_ms);
    }

    fn tick(&mut self, time: Time, actions: &mut Self::Actions) {
        Self::tick(self, time.monotonic_ms, actions);
    }

    fn end_turn(&mut self, _actions: &mut Self::Actions) {}

    /// Everything it has to do by time is done at ticks.
    fn next_due_ms(&self) -> Option<u64> {
        None
    }

    fn run_timers(&mut self, _actions: &mut Self::Actions) {}
}

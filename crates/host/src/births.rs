//! Shards that are parted off: what is born gets a seat beside its parent, and its parent keeps on disk what it was born of until
//! there is a snapshot of its own (sharding P-7).
//!
//! ```text
//! the entry is applied -> Newborn -> seat, first write, snapshot begun; the parent is pinned
//! the snapshot is on disk -> the parent may cut, take snapshots of others, and leave
//! ```
//!
//! After a restart the entry is applied again if the parent's snapshot is older. Then what the disk has of the child counts: a
//! child with a snapshot sits already; one without goes on with its term, vote and log; one that was removed is not born again.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{Bounds, Descriptor, Epoch, NodeId, Placement, ReplicaId, ShardId, Split};
use shardine_shard::{Infancy, Newborn, Replica, Role};

use crate::host::Host;
use crate::replica::{GroupReplica, SnapshotState};
use crate::seat::SeatId;

/// A split that was applied here.
#[derive(Clone, Debug)]
pub struct Parted {
    pub parent: ShardId,
    pub split: Split,
    /// Where the other half sits; nowhere if this node's replica of it was removed before.
    pub child: Option<SeatId>,
}

impl Parted {
    /// The other half's members, for whoever has to find them before the map tells.
    pub fn kin(&self) -> impl Iterator<Item = (ShardId, ReplicaId, NodeId)> + '_ {
        self.split.members.iter().map(|member| (self.split.child, member.child, member.node))
    }

    /// Both halves as the map will have them, for those who ask for rows before it does: by what was known of the whole, and what the
    /// replicas of both are here by now. The child comes first.
    #[must_use]
    pub fn halves(
        &self,
        whole: Option<&Descriptor>,
        parent: Option<&Replica>,
        child: Option<&Replica>,
    ) -> Vec<Descriptor> {
        let now = |replica: &Replica| -> (Epoch, Bounds) {
            let (generation, range) = replica.records().epoch().owner();
            (Epoch { generation, range, ..Epoch::default() }, replica.bounds().clone())
        };
        let left = whole.zip(parent).map(|(known, replica)| {
            let (epoch, bounds) = now(replica);
            Descriptor { epoch: Epoch { conf: known.epoch.conf, ..epoch }, bounds, ..known.clone() }
        });
        let is_learner = |replica: ReplicaId| {
            whole.is_some_and(|whole| whole.learners.iter().any(|learner| learner.replica == replica))
        };
        let born = |learns: bool| {
            let members = self.split.members.iter().filter(|member| is_learner(member.parent) == learns);
            members.map(|member| Placement { node: member.node, replica: member.child }).collect()
        };
        let right = child.map(|replica| {
            let (epoch, bounds) = now(replica);
            let epoch = Epoch { conf: self.split.epochs().1.conf, ..epoch };
            let (shard, state, voters, learners) = (self.split.child, Default::default(), born(false), born(true));
            Descriptor { shard, epoch, state, bounds, voters, learners }
        });
        right.into_iter().chain(left).collect()
    }
}

/// What the disk had when the node started.
#[derive(Clone, Debug, Default)]
pub struct Cradle {
    /// Of replicas that have no snapshot and are to be born again.
    pub infancies: BTreeMap<ShardId, (ReplicaId, Infancy)>,
    /// The last replica of each shard that was removed.
    pub removed: BTreeMap<ShardId, ReplicaId>,
}

#[derive(Debug, Default)]
pub(crate) struct Births {
    cradle: Cradle,
    /// Children that have no snapshot on disk, by their parents.
    pins: BTreeMap<ShardId, BTreeSet<ShardId>>,
    parted: Vec<Parted>,
    /// Those whose first write is not on disk yet.
    pub unwritten: BTreeSet<SeatId>,
}

impl<R: GroupReplica> Host<R> {
    /// To be told before anything is applied.
    pub fn set_cradle(&mut self, cradle: Cradle) {
        self.births.cradle = cradle;
    }

    /// Splits that were applied since this was last asked, in their order.
    pub fn take_parted(&mut self) -> Vec<Parted> {
        std::mem::take(&mut self.births.parted)
    }

    /// Whether what the disk has of a shard is needed for a child of it.
    #[must_use]
    pub fn is_pinned(&self, shard: ShardId) -> bool {
        self.births.pins.contains_key(&shard)
    }

    #[cold]
    pub(crate) fn settle_newborn(&mut self, id: SeatId) {
        let newborn = self.seat_mut(id).map(|seat| R::take_newborn(&mut seat.actions)).unwrap_or_default();
        newborn.into_iter().for_each(|newborn| self.settle(newborn));
    }

    /// Gives what was born its place.
    pub fn settle(&mut self, newborn: Newborn) {
        let (parent, shard, replica, split) =
            (newborn.parent, newborn.shard(), newborn.replica(), newborn.split.clone());
        let is_removed = self.births.cradle.removed.get(&shard).is_some_and(|last| *last >= replica);
        let known = self.seat_of(shard);
        let is_born = known.is_none() && !is_removed;
        let child = if is_born { self.give_birth(newborn) } else { known };
        if !self.is_pinned(parent) {
            self.pin(parent, false);
        }
        self.births.parted.push(Parted { parent, split, child });
    }

    fn give_birth(&mut self, newborn: Newborn) -> Option<SeatId> {
        let (parent, shard, replica) = (newborn.parent, newborn.shard(), newborn.replica());
        let found = self.births.cradle.infancies.remove(&shard);
        if found.as_ref().is_some_and(|(known, _)| *known != replica) {
            return None;
        }
        let found = found.map(|(_, infancy)| infancy);
        let first_write = found.is_none().then(|| newborn.first_write());
        let leads = self.seat_of(parent).and_then(|id| self.replica(id)).is_some_and(|it| it.role() == Role::Leader);
        self.births.pins.entry(parent).or_default().insert(shard);
        self.pin(parent, true);
        let at = newborn.split.at.clone();
        let id = self.add(shard, replica, Ok(R::bear(newborn, found)?));
        let whole = self.seat_of(parent);
        let meter = whole.and_then(|whole| Some(self.seat_mut(whole)?.meter.part(&at)));
        if let (Some(meter), Some(seat)) = (meter, self.seat_mut(id)) {
            seat.meter = meter;
        }
        match first_write {
            Some(write) => {
                self.births.unwritten.insert(id);
                self.write_first(id, write);
            }
            None => {
                self.act(id, |replica, _| replica.snapshot_now());
            }
        }
        if leads {
            // Who led the whole is the best heir of both halves.
            self.act(id, R::campaign);
            self.stand_again(id, HEIR_TRIES);
        }
        Some(id)
    }

    fn pin(&mut self, shard: ShardId, pinned: bool) {
        if let Some(id) = self.seat_of(shard) {
            self.act(id, |replica, _| replica.pin(pinned));
        }
    }

    /// The first snapshot of a child is on disk, or there is no child any more: its parent is free.
    pub(crate) fn release(&mut self, child: ShardId) {
        let parents: Vec<ShardId> = self.births.pins.keys().copied().collect();
        for parent in parents {
            let Some(children) = self.births.pins.get_mut(&parent) else { continue };
            if children.remove(&child) && children.is_empty() {
                self.births.pins.remove(&parent);
                self.pin(parent, false);
            }
        }
    }

    /// Sees to it at a tick that every child gets its snapshot, whatever has become of the first try.
    pub(crate) fn look_after_children(&mut self) {
        let children: Vec<ShardId> = self.births.pins.values().flatten().copied().collect();
        for child in children {
            let Some(id) = self.seat_of(child) else {
                self.release(child);
                continue;
            };
            match self.replica(id).map(R::has_snapshot) {
                // It came from a peer, and is on disk when all is that has been asked for.
                Some(SnapshotState::Saved) if !self.is_writing() && self.queued().is_empty() => self.release(child),
                Some(SnapshotState::Absent) if !self.births.unwritten.contains(&id) => {
                    self.act(id, |replica, _| replica.snapshot_now());
                }
                Some(SnapshotState::Saved | SnapshotState::OnItsWay | SnapshotState::Absent) | None => {}
            }
        }
    }
}

/// How often whoever led the whole asks to lead the other half: the others may apply the split a little later.
const HEIR_TRIES: u32 = 8;

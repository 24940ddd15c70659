//! Replicas of a host come and go with the map, and those of them that lead do what operations of the map ask of their groups.

use shardine_model::{Bounds, ClusterMap, GroupKind, NodeId, ReplicaId, ShardId};
use shardine_shard::SplitProgress;
use shardine_shard::meta::{Command, Map, Node, Work, work_of};

use crate::host::Host;
use crate::replica::GroupReplica;
use crate::seat::SeatId;

/// Ticks between two looks at groups that an operation is about, and at all that are led here.
const WORK_TICKS: u64 = 2;
const LOOK_TICKS: u64 = 20;

/// What a new map makes of the replicas of a group on this node. Where one takes the place of another, that one leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub shard: ShardId,
    /// A committed configuration is without this replica: it goes, with what the disk has of it.
    pub leaves: Option<SeatId>,
    /// Room is to be made for this one. It has nothing, and belongs to nobody until the group's leader has sent it a snapshot.
    pub arrives: Option<ReplicaId>,
}

impl<R: GroupReplica> Host<R> {
    /// What has to change here for a map to be so, of these groups. To be asked again: what cannot come or go yet is left out.
    #[must_use]
    pub fn moves(&self, map: &ClusterMap, own: NodeId, shards: impl IntoIterator<Item = ShardId>) -> Vec<Move> {
        let changes = |shard: ShardId| {
            let group = map.group(shard);
            // What the map does not have yet has only just been born here.
            if group.is_none() && shard.kind() == GroupKind::Records {
                return None;
            }
            let wanted = map.replica_on(shard, own);
            let leaves = self.seat_of(shard);
            let held = leaves.and_then(|seat| self.seat(seat)).map(|seat| seat.replica_id);
            let may_leave = leaves.is_none() || !self.is_pinned(shard);
            let may_come = group.is_none_or(|group| !self.holds_some_of(&group.bounds, leaves));
            let arrives = wanted.filter(|_| may_come);
            let is_move = wanted != held && may_leave && (leaves.is_some() || arrives.is_some());
            is_move.then_some(Move { shard, leaves, arrives })
        };
        shards.into_iter().filter_map(changes).collect()
    }

    /// Whether a replica here, apart from one that leaves, holds rows of a shard that it is a replica of no more as soon as it has applied
    /// the split: then this node's replica is born of it, and takes no snapshot (sharding P-3).
    fn holds_some_of(&self, bounds: &Bounds, leaves: Option<SeatId>) -> bool {
        let others = self.seat_ids().filter(|seat| Some(*seat) != leaves);
        others.filter_map(|seat| self.replica(seat)).any(|replica| {
            let is_newborn = replica.group().membership().voters.is_empty();
            !is_newborn && replica.bounds().is_some_and(|held| held.overlaps(bounds))
        })
    }

    /// Does at a tick what operations of the map ask of the groups that are led here. Gives what is to be told to meta.
    pub fn work_for_map(&mut self, map: &Map, own: NodeId, ticks: u64) -> Vec<Command> {
        let is_look = ticks.is_multiple_of(LOOK_TICKS);
        // Often, and not at the pace of the slow look: that could always meet the moment after a leader has begun to count anew
        // who follows, when nobody counts as an heir.
        let should_lead = map.nodes.get(&own).is_none_or(Node::may_lead);
        let is_at_rest = map.operations.is_empty() && should_lead;
        if !is_look && (is_at_rest || !ticks.is_multiple_of(WORK_TICKS)) {
            return Vec::new();
        }
        let is_meant = |shard: &ShardId| is_look || !should_lead || map.operation_on(*shard).is_some();
        let shards: Vec<ShardId> = self.replicas().map(R::shard).filter(is_meant).collect();
        shards.into_iter().filter_map(|shard| self.work_on(map, shard)).collect()
    }

    fn work_on(&mut self, map: &Map, shard: ShardId) -> Option<Command> {
        let seat = self.seat_of(shard)?;
        match work_of(map, shard, self.replica(seat)?.group())? {
            Work::Change(change) => {
                self.act(seat, |replica, actions| drop(replica.change_members(&change, actions)));
                None
            }
            Work::HandOver(heir) => {
                self.act(seat, |replica, actions| {
                    if !replica.is_handing_over() {
                        let _ = replica.hand_over(Some(heir), actions);
                    }
                });
                None
            }
            Work::Report(command) => Some(*command),
            Work::Split(operation, split) => {
                let progress = self.act(seat, |replica, actions| replica.advance_split(&split, actions))?;
                let over = |is_done| Some(Command::SplitOver { operation, is_done });
                match progress {
                    SplitProgress::UnderWay => None,
                    SplitProgress::Done => over(true),
                    SplitProgress::Overtaken => over(false),
                }
            }
        }
    }
}

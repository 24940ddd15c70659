//! Replicas of a lane come and go with the map, and whoever leads a group does what operations of the map ask of it.

use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_records::Records;
use shardine_router::ShardPlace;
use shardine_shard::meta::{Work, work_of};
use shardine_shard::{MemoryLimits, Options, Replica, Restored};

use super::core::Core;
use crate::atlas::Sheet;

/// Ticks between two looks at groups that an operation is about, and at all that are led here.
const WORK_TICKS: u64 = 2;
const LOOK_TICKS: u64 = 20;

/// How replicas are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nursery {
    pub incarnation: u64,
    pub snapshot_log_bytes: u64,
    /// Bytes of records above which a shard evicts; 0 means no limit.
    pub memory_max: u64,
}

impl Nursery {
    pub fn replica(
        &self,
        shard: ShardId,
        replica: ReplicaId,
        seed: u64,
        records: Records,
        restored: Restored,
    ) -> Replica {
        let options = Options {
            incarnation: self.incarnation,
            seed,
            snapshot_log_bytes: self.snapshot_log_bytes,
            memory: MemoryLimits { bytes_max: self.memory_max, ..MemoryLimits::default() },
            ..Options::new(replica, shard)
        };
        Replica::new(options, records, restored)
    }

    /// One that has nothing, and belongs to nobody until the group's leader has sent it a snapshot.
    fn newborn(&self, place: &ShardPlace, replica: ReplicaId) -> Replica {
        let seed = rand::random();
        let records = Records::new(seed).owning(place.interval);
        self.replica(place.shard, replica, seed, records, Restored::default())
    }
}

impl Core {
    /// There is a new map: makes room for replicas that this node is to have, lets go of those that were removed, and sends
    /// requests where they belong now.
    pub fn turn_to(&mut self, sheet: &Arc<Sheet>) {
        let places: Vec<ShardPlace> =
            self.exchange.map.places().iter().filter(|place| place.lane == self.number).copied().collect();
        let own = NodeId(self.exchange.node);
        for place in places {
            let wanted = sheet.cluster.replica_on(place.shard, own);
            let seat = self.host.seat_of(place.shard);
            let held = seat.and_then(|seat| self.host.seat(seat)).map(|seat| seat.replica_id);
            if wanted == held {
                continue;
            }
            if let Some(seat) = seat {
                self.leave(&place, seat);
            }
            if let Some(replica) = wanted {
                tracing::info!(shard = %place.shard, %replica, "this node makes room for a replica");
                let newborn = self.nursery.newborn(&place, replica);
                let seat = self.host.add(place.shard, replica, Ok(newborn));
                self.take_seat(&place, Some(seat));
            }
        }
        let cluster = Arc::clone(&sheet.cluster);
        self.sheet = Some(Arc::clone(sheet));
        self.reroute(|routes| routes.adopt(cluster));
    }

    /// A committed configuration is without the replica: it goes, with what the disk has of it.
    fn leave(&mut self, place: &ShardPlace, seat: SeatId) {
        tracing::info!(shard = %place.shard, "this node's replica was removed");
        self.take_seat(place, None);
        let Some(mut seat) = self.host.remove(seat) else { return };
        for (caller, answer) in std::mem::take(&mut seat.actions.answers) {
            self.answer(caller, answer);
        }
    }

    fn take_seat(&mut self, place: &ShardPlace, seat: Option<SeatId>) {
        let index = self.exchange.map.index_of(place.interval.lo);
        self.seats[index] = seat;
        let lane = seat.map(|_| self.number);
        if let Some(way) = &mut self.way {
            way.routes.seat(place.shard, lane);
        }
    }

    /// Does what operations of the map ask of the groups that are led here, and tells meta what has become of it.
    pub fn work_for_map(&mut self) {
        let Some(sheet) = self.sheet.clone() else { return };
        let is_look = self.ticks.is_multiple_of(LOOK_TICKS);
        if !is_look && (sheet.full.operations.is_empty() || !self.ticks.is_multiple_of(WORK_TICKS)) {
            return;
        }
        let is_meant = |shard: ShardId| is_look || sheet.full.operation_on(shard).is_some();
        let shards: Vec<ShardId> = self.host.replicas().map(Replica::shard).filter(|shard| is_meant(*shard)).collect();
        for shard in shards {
            let Some(seat) = self.host.seat_of(shard) else { continue };
            let work = self.host.replica(seat).and_then(|replica| work_of(&sheet.full, shard, replica.group()));
            match work {
                None => {}
                Some(Work::Change(change)) => {
                    self.host.act(seat, |replica, actions| drop(replica.change_members(&change, actions)));
                }
                Some(Work::HandOver(heir)) => {
                    self.host.act(seat, |replica, actions| replica.hand_over(Some(heir), actions));
                }
                Some(Work::Report(command)) => self.exchange.report(*command),
            }
        }
    }
}

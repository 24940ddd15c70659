//! Replicas of a lane come and go with the map, and whoever leads a group does what operations of the map ask of it.

use std::sync::Arc;

use shardine_host::{Move, SeatId, SplitLimits};
use shardine_model::{ErrorCode, NodeId, ReplicaId, ShardId};
use shardine_records::Records;
use shardine_router::{Response, ShardMap, ShardPlace};
use shardine_shard::{Actions, MemoryLimits, Options, Replica, Restored};

use super::core::Core;
use super::parted::share_of;
use crate::atlas::Sheet;
use crate::exchange::{refused, transfer};

/// Ticks between two looks at replicas that should come or go and could not when the map said so.
const MOVE_TICKS: u64 = 10;
/// Ticks between two looks at the sizes of shards.
const SIZE_TICKS: u64 = 20;

/// How replicas are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nursery {
    pub incarnation: u64,
    pub snapshot_log_bytes: u64,
    /// Bytes of records above which a shard evicts; 0 means no limit.
    pub memory_max: u64,
    /// The same for all shards together.
    pub memory_total: u64,
    /// When a shard that is led here is parted.
    pub split: SplitLimits,
}

impl Nursery {
    /// The share of each shard in the memory.
    pub fn share(&self, places: &ShardMap) -> u64 {
        share_of(self.memory_total, places)
    }

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
        self.sheet = Some(Arc::clone(sheet));
        self.places = self.exchange.places.now();
        let cluster = Arc::clone(&sheet.cluster);
        self.reroute(|routes| routes.adopt(cluster));
        self.make_moves();
        self.lay_out();
    }

    /// Replicas come and go, as the newest map has them. One that cannot yet is looked at again at ticks.
    pub fn make_moves(&mut self) {
        let Some(sheet) = self.sheet.clone() else { return };
        let places: Vec<ShardPlace> = self.own_places().copied().collect();
        let own = NodeId(self.exchange.node);
        let moves = self.host.moves(&sheet.cluster, own, places.iter().map(|place| place.shard));
        let has_moved = !moves.is_empty();
        for Move { shard, leaves, arrives } in moves {
            let Some(place) = places.iter().find(|place| place.shard == shard) else { continue };
            if let Some(seat) = leaves {
                self.leave(place, seat);
            }
            if let Some(replica) = arrives {
                tracing::info!(%shard, %replica, "this node makes room for a replica");
                let newborn = self.nursery.newborn(place, replica);
                self.host.add(shard, replica, Ok(newborn));
                self.tell_routes(shard, true);
            }
        }
        if has_moved {
            self.lay_out();
        }
    }

    /// A committed configuration is without the replica: it goes, with what the disk has of it.
    fn leave(&mut self, place: &ShardPlace, seat: SeatId) {
        tracing::info!(shard = %place.shard, "this node's replica was removed");
        self.tell_routes(place.shard, false);
        let Some(seat) = self.host.remove(seat) else { return };
        self.exchange.differences.forget(place.shard);
        let Actions { answers, returned, passed, .. } = seat.actions;
        self.give_back(returned);
        for (caller, answer) in answers {
            self.answer(caller, answer);
        }
        self.passed(passed);
    }

    fn tell_routes(&mut self, shard: ShardId, is_here: bool) {
        let lane = is_here.then_some(self.number);
        if let Some(way) = &mut self.way {
            way.routes.seat(shard, lane);
        }
    }

    /// Begins to give the lead of a shard to another node, as an operator wants it; says to which.
    pub fn transfer(&mut self, shard: ShardId, to: Option<NodeId>) -> Response {
        let Some(sheet) = self.sheet.clone() else { return refused(ErrorCode::Unsupported) };
        let Some(seat) = self.host.seat_of(shard) else { return refused(ErrorCode::NotLeader) };
        let heir = match transfer::heir(&sheet.cluster, shard, to) {
            Ok(heir) => heir,
            Err(refusal) => return Response::Refused(refusal),
        };
        let begun = self.host.act(seat, |replica, actions| replica.hand_over(heir, actions));
        transfer::told(&sheet.cluster, shard, begun)
    }

    /// Does what operations of the map ask of the groups that are led here, and tells meta what has become of it.
    pub fn work_for_map(&mut self) {
        let Some(sheet) = self.sheet.clone() else { return };
        if self.ticks.is_multiple_of(MOVE_TICKS) {
            self.make_moves();
        }
        if self.ticks.is_multiple_of(SIZE_TICKS) {
            self.split_large(&sheet);
        }
        for command in self.host.work_for_map(&sheet.full, NodeId(self.exchange.node), self.ticks) {
            self.exchange.report(command);
        }
    }
}

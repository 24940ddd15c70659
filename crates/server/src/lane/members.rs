//! Replicas of a lane come and go with the map, and whoever leads a group does what operations of the map ask of it.

use std::sync::Arc;

use shardine_host::{Move, SeatId};
use shardine_model::{ErrorCode, NodeId, ReplicaId, ShardId};
use shardine_records::Records;
use shardine_router::{Response, ShardPlace};
use shardine_shard::{Actions, MemoryLimits, Options, Replica, Restored};

use super::core::Core;
use crate::atlas::Sheet;
use crate::exchange::{refused, transfer};

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
        for Move { shard, leaves, arrives } in
            self.host.moves(&sheet.cluster, own, places.iter().map(|place| place.shard))
        {
            let Some(place) = places.iter().find(|place| place.shard == shard) else { continue };
            if let Some(seat) = leaves {
                self.leave(place, seat);
            }
            if let Some(replica) = arrives {
                tracing::info!(%shard, %replica, "this node makes room for a replica");
                let newborn = self.nursery.newborn(place, replica);
                let seat = self.host.add(shard, replica, Ok(newborn));
                self.take_seat(place, Some(seat));
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
        let Some(seat) = self.host.remove(seat) else { return };
        self.exchange.differences.forget(place.shard);
        let Actions { answers, returned, passed, .. } = seat.actions;
        self.give_back(returned);
        for (caller, answer) in answers {
            self.answer(caller, answer);
        }
        self.passed(passed);
    }

    fn take_seat(&mut self, place: &ShardPlace, seat: Option<SeatId>) {
        let index = self.exchange.map.index_of(place.interval.lo);
        self.seats[index] = seat;
        let lane = seat.map(|_| self.number);
        if let Some(way) = &mut self.way {
            way.routes.seat(place.shard, lane);
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
        for command in self.host.work_for_map(&sheet.full, NodeId(self.exchange.node), self.ticks) {
            self.exchange.report(command);
        }
    }
}

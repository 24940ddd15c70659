//! Shards of this lane are parted. What is born has its seat already ([`shardine_host::Host`]); here the lane and the node learn of it:
//! where requests go, whom to ask for a whole shard, and where the other members of the child live.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_host::{Parted, Parting, Reading, Reason, SeatId, ShardLoad, ShardSize};
use shardine_model::{Bounds, Descriptor, Epoch, NodeId, Position, ReplicaId, ShardId};
use shardine_router::ShardMap;
use shardine_shard::Replica;
use shardine_shard::meta::{Command, Operation};

use super::core::Core;
use crate::atlas::Sheet;
use crate::lane_message::LaneMessage;

/// Splits that are under way in the cluster when no other is begun (sharding B-29).
const SPLITS_MAX: usize = 4;

const ONE_PARTITION: &str = "one partition has all of it";
const ONE_HOT: &str = "one partition has most of its requests";

/// A member of a group that the map does not have yet.
pub(crate) type Kin = (ShardId, ReplicaId, NodeId);

/// The seat of each position: those from each key up to the next.
#[derive(Debug, Default)]
pub(super) struct Layout {
    seats: Vec<(Position, Option<SeatId>)>,
}

impl Layout {
    #[inline]
    pub fn seat_of(&self, position: Position) -> Option<SeatId> {
        let behind = self.seats.partition_point(|(from, _)| *from <= position);
        self.seats[behind.checked_sub(1)?].1
    }

    /// From intervals that are laid one over the other: the last one wins.
    fn of(layers: impl Iterator<Item = (Bounds, Option<SeatId>)>) -> Self {
        let mut seats: BTreeMap<Position, Option<SeatId>> = BTreeMap::new();
        for (bounds, seat) in layers {
            let interval = bounds.positions();
            if let Some(hi) = interval.hi {
                let below = seats.range(..=hi).next_back().and_then(|(_, seat)| *seat);
                seats.insert(hi, below);
            }
            let covered: Vec<Position> = match interval.hi {
                Some(hi) => seats.range(interval.lo..hi).map(|(from, _)| *from).collect(),
                None => seats.range(interval.lo..).map(|(from, _)| *from).collect(),
            };
            for from in covered {
                seats.remove(&from);
            }
            seats.insert(interval.lo, seat);
        }
        Self { seats: seats.into_iter().collect() }
    }
}

impl Core {
    /// Splits that replicas of this lane have applied.
    pub(super) fn note_parted(&mut self) {
        let parted = self.host.take_parted();
        if parted.is_empty() {
            return;
        }
        let mut descriptors = Vec::new();
        for one in &parted {
            tracing::info!(shard = %one.parent, child = %one.split.child, "a shard was split");
            self.kin.extend(one.kin());
            let whole = self.way.as_ref().and_then(|way| way.routes.group(one.parent));
            let parent = self.host.seat_of(one.parent).and_then(|seat| self.host.replica(seat));
            let child = one.child.and_then(|seat| self.host.replica(seat));
            descriptors.extend(one.halves(whole, parent, child));
        }
        self.exchange.places.learn(descriptors.clone());
        // Before anybody is sent there.
        self.lay_out();
        let told: Arc<[Descriptor]> = descriptors.into();
        let others = self.exchange.inboxes.iter().enumerate().filter(|(lane, _)| *lane != self.number);
        others.for_each(|(_, inbox)| inbox.send(LaneMessage::Parted(Arc::clone(&told))));
        self.hear_parted(&told);
        for Parted { split, child, .. } in parted {
            if let (Some(_), Some(way)) = (child, &mut self.way) {
                way.routes.seat(split.child, Some(self.number));
            }
        }
    }

    /// Asks meta to have shards parted that are led here and have become too large, or are asked for too much.
    pub(super) fn split_large(&mut self, sheet: &Sheet) {
        let (map, now_ms, limits) = (&sheet.full, self.time().monotonic_ms, self.nursery.split);
        let loads = self.measure_loads(now_ms);
        let splits = map.operations.values().filter(|operation| matches!(operation, Operation::Split(..))).count();
        let mut room = SPLITS_MAX.saturating_sub(splits);
        let led: Vec<SeatId> = self
            .host
            .replicas()
            .filter(|replica| replica.is_serving())
            .filter_map(|it| self.host.seat_of(it.shard()))
            .collect();
        for seat in led {
            let Some(replica) = self.host.replica(seat) else { continue };
            let (shard, status, owner) = (replica.shard(), replica.status(), replica.records().epoch().owner());
            let of = (shard, owner.1);
            let size = ShardSize { bytes: status.bytes, records: status.records };
            let load = loads.get(&shard).copied().unwrap_or_default();
            let reason = self.splitting.due(of, (size, load), &limits, now_ms);
            let is_busy = map.operation_on(shard).is_some();
            // One that cannot be split goes on: nobody could say for how long it would wait.
            let may_part = self.splitting.why_not(shard).is_none();
            self.push_back(seat, may_part && limits.are_far_exceeded(size) && (is_busy || room == 0));
            let known = map.groups.get(&shard).filter(|known| known.epoch.owner() == owner);
            let (Some(known), Some(reason)) = (known.filter(|_| room > 0 && !is_busy), reason) else { continue };
            match self.parting(seat, reason) {
                Parting::At(at) => {
                    room -= 1;
                    self.splitting.asked(of, now_ms);
                    tracing::info!(%shard, ?reason, ?size, ?load, "a shard has become too much for one and is to be split");
                    self.exchange.report(Command::Split { shard, epoch: known.epoch, at });
                }
                Parting::Unknown => {}
                Parting::Nowhere => {
                    let why = if reason == Reason::Size { ONE_PARTITION } else { ONE_HOT };
                    if self.splitting.mark(of, why, now_ms) {
                        tracing::warn!(%shard, ?reason, "a shard is too much for one and cannot be split: {why}");
                    }
                }
            }
        }
    }

    /// What the shards of this lane were asked for since this was last called.
    fn measure_loads(&mut self, now_ms: u64) -> BTreeMap<ShardId, ShardLoad> {
        let seats = self.host.seats().filter_map(|seat| {
            let meter = self.host.meter(self.host.seat_of(seat.shard)?)?;
            Some((seat.shard, Reading { requests: meter.requests, written: meter.written }))
        });
        let readings: BTreeMap<ShardId, Reading> = seats.collect();
        self.splitting.retain(|shard| readings.contains_key(&shard));
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_us = cpu.tv_sec.unsigned_abs() * 1_000_000 + cpu.tv_nsec.unsigned_abs() / 1_000;
        self.splitting.measure(readings, cpu_us, now_ms)
    }

    fn parting(&self, seat: SeatId, reason: Reason) -> Parting {
        let Some(replica) = self.host.replica(seat) else { return Parting::Unknown };
        match reason {
            Reason::Size => replica.records().middle().map_or(Parting::Nowhere, Parting::At),
            Reason::Load => self.host.meter(seat).map_or(Parting::Unknown, |meter| meter.parting(replica.bounds())),
        }
    }

    /// What makes a shard larger waits until it is split.
    fn push_back(&mut self, seat: SeatId, is_pushed_back: bool) {
        self.host.act(seat, |replica, _| replica.push_back(is_pushed_back));
    }

    /// This node knows of shards that the map does not have yet.
    pub fn hear_parted(&mut self, descriptors: &[Descriptor]) {
        self.places = self.exchange.places.now();
        self.reroute(|routes| routes.learn(descriptors.to_vec()));
    }

    /// Members of groups that the map does not have yet.
    pub fn take_kin(&mut self) -> Vec<Kin> {
        std::mem::take(&mut self.kin)
    }

    /// Finds the seat of every position anew, and each shard's share of the memory. Where two replicas hold a position, the one with the
    /// newer bounds has it: the other has not applied the split yet.
    pub(super) fn lay_out(&mut self) {
        self.places = self.exchange.places.now();
        let own = |place: &shardine_router::ShardPlace| {
            let seat = (place.lane == self.number).then(|| self.host.seat_of(place.shard)).flatten();
            (place.interval.into(), seat)
        };
        let mut held: Vec<&Replica> = self.host.replicas().collect();
        held.sort_by_key(|replica| (epoch_of(replica), replica.shard()));
        let held = held.into_iter().map(|replica| (replica.bounds().clone(), self.host.seat_of(replica.shard())));
        self.layout = Layout::of(self.places.places().iter().map(own).chain(held));
        self.share_memory();
    }

    fn share_memory(&mut self) {
        let share = self.nursery.share(&self.places);
        if share != self.nursery.memory_max {
            self.nursery.memory_max = share;
            let seats: Vec<SeatId> = self.host.seats().filter_map(|seat| self.host.seat_of(seat.shard)).collect();
            for seat in seats {
                self.host.act(seat, |replica, _| replica.set_memory_max(share));
            }
        }
    }
}

fn epoch_of(replica: &Replica) -> Epoch {
    let (generation, range) = replica.records().epoch().owner();
    Epoch { generation, range, ..Epoch::default() }
}

/// The share of each shard in the memory of the node.
pub(super) fn share_of(total: u64, places: &ShardMap) -> u64 {
    // A share is never 0, which would be no limit.
    if total == 0 { 0 } else { (total / places.places().len().max(1) as u64).max(1) }
}

#[cfg(test)]
mod tests {
    use shardine_host::Host;
    use shardine_model::Bound;

    use super::*;

    #[test]
    fn newer_bounds_lie_over_older_ones() {
        let mut host: Host<Replica> = Host::default();
        let mut seat = |shard| host.add(ShardId(shard), ReplicaId(1), Err("none".to_owned()));
        let (whole, right) = (seat(1), seat(2));
        let (middle, three) = (Bound::at(Position(100)), Bound::at(Position(150)));

        let layout = Layout::of(
            [(Bounds::default(), Some(whole)), (Bounds { lo: middle.clone(), hi: Some(three) }, Some(right))]
                .into_iter(),
        );

        let at = |position| layout.seat_of(Position(position));
        assert_eq!([0, 99, 100, 149, 150, u64::MAX].map(at), [whole, whole, right, right, whole, whole].map(Some));
    }
}

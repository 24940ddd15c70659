//! Seats: where replicas sit, under ids that are never used again.

use std::collections::BTreeMap;

use shardine_model::{ReplicaId, ShardId};

use crate::heirs::Ranking;
use crate::load::Meter;
use crate::replica::GroupReplica;

/// Names a seat for ever: what comes late for a replica that has left finds nobody, whoever sits in its place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatId {
    number: u64,
    place: u32,
}

/// A replica, or why there is none, and what it has left to do.
pub struct Seat<R: GroupReplica> {
    pub(crate) id: SeatId,
    pub shard: ShardId,
    pub replica_id: ReplicaId,
    /// One that could not be read, or has stopped, says why.
    pub replica: Result<R, String>,
    pub actions: R::Actions,
    /// Whether it stands in the host's lists.
    pub(crate) is_touched: bool,
    pub(crate) is_listed_cutting: bool,
    /// Under which time it stands in the host's list of timers.
    pub(crate) due_ms: Option<u64>,
    /// Who leads next, as the present leader has told it.
    pub(crate) ranking: Ranking,
    /// What it was asked for.
    pub(crate) meter: Meter,
}

/// All seats of a host.
pub(crate) struct Seats<R: GroupReplica> {
    places: Vec<Option<Seat<R>>>,
    free: Vec<u32>,
    next_number: u64,
    by_shard: BTreeMap<ShardId, SeatId>,
}

impl<R: GroupReplica> Default for Seats<R> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), next_number: 1, by_shard: BTreeMap::new() }
    }
}

impl<R: GroupReplica> Seats<R> {
    pub fn add(&mut self, shard: ShardId, replica_id: ReplicaId, replica: Result<R, String>) -> SeatId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).expect("a node has fewer replicas than that")
        });
        let id = SeatId { number: self.next_number, place };
        self.next_number += 1;
        let before = self.by_shard.insert(shard, id);
        assert_eq!(before, None, "a shard has one replica here at most");
        let actions = R::Actions::default();
        let (is_touched, is_listed_cutting, due_ms) = (false, false, None);
        let ranking = Ranking::default();
        let meter = Meter::default();
        let seat =
            Seat { id, shard, replica_id, replica, actions, is_touched, is_listed_cutting, due_ms, ranking, meter };
        self.places[place as usize] = Some(seat);
        id
    }

    pub fn remove(&mut self, id: SeatId) -> Option<Seat<R>> {
        self.get(id)?;
        let seat = self.places[id.place as usize].take()?;
        self.free.push(id.place);
        self.by_shard.remove(&seat.shard);
        Some(seat)
    }

    #[inline]
    pub fn get(&self, id: SeatId) -> Option<&Seat<R>> {
        self.places.get(id.place as usize)?.as_ref().filter(|seat| seat.id == id)
    }

    #[inline]
    pub fn get_mut(&mut self, id: SeatId) -> Option<&mut Seat<R>> {
        self.places.get_mut(id.place as usize)?.as_mut().filter(|seat| seat.id == id)
    }

    pub fn of_shard(&self, shard: ShardId) -> Option<SeatId> {
        self.by_shard.get(&shard).copied()
    }

    /// In the order of their shards.
    pub fn ids(&self) -> impl Iterator<Item = SeatId> + '_ {
        self.by_shard.values().copied()
    }
}

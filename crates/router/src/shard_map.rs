//! Which shard holds a position, and which lane holds the shard.

use shardine_model::key::Interval;
use shardine_model::{Position, ShardId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    pub shard: ShardId,
    pub interval: Interval,
    pub lane: usize,
}

/// All shards of a keyspace. Invariant: intervals are in order and cover the whole space without gap or overlap.
#[derive(Clone, Debug)]
pub struct ShardMap {
    places: Vec<ShardPlace>,
}

impl ShardMap {
    #[must_use]
    pub fn new(places: Vec<ShardPlace>) -> Self {
        assert_eq!(places.first().map(|place| place.interval.lo), Some(Position(0)), "a map begins at the beginning");
        assert_eq!(places.last().and_then(|place| place.interval.hi), None, "a map ends at the end");
        let joined = places.windows(2).all(|pair| pair[0].interval.hi == Some(pair[1].interval.lo));
        assert!(joined, "neighbours in a map touch");
        Self { places }
    }

    #[inline]
    #[must_use]
    pub fn find(&self, position: Position) -> &ShardPlace {
        &self.places[self.index_of(position)]
    }

    /// Which of the places it is.
    #[inline]
    #[must_use]
    pub fn index_of(&self, position: Position) -> usize {
        self.places.partition_point(|place| place.interval.lo <= position) - 1
    }

    #[must_use]
    pub fn places(&self) -> &[ShardPlace] {
        &self.places
    }
}

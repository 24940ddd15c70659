//! Which shard holds a position, and which lane holds the shard.

use shardine_model::key::Interval;
use shardine_model::{Position, RangeVersion, ShardId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    pub shard: ShardId,
    pub interval: Interval,
    /// Grows when the interval changes.
    pub range: RangeVersion,
    pub lane: usize,
}

/// All shards of a keyspace. Invariant: intervals are in order and cover the whole space without gap or overlap.
#[derive(Clone, Debug)]
pub struct ShardMap {
    places: Vec<ShardPlace>,
}

impl ShardMap {
    /// # Panics
    ///
    /// If they leave a gap, or overlap.
    #[must_use]
    pub fn new(places: Vec<ShardPlace>) -> Self {
        Self::covering(places).expect("a map begins at the beginning, ends at the end, and its neighbours touch")
    }

    /// Unless they leave a gap, or overlap.
    #[must_use]
    pub fn covering(places: Vec<ShardPlace>) -> Option<Self> {
        let begins = places.first().is_some_and(|place| place.interval.lo == Position(0));
        let ends = places.last().is_some_and(|place| place.interval.hi.is_none());
        let joined = places.windows(2).all(|pair| pair[0].interval.hi == Some(pair[1].interval.lo));
        (begins && ends && joined).then_some(Self { places })
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

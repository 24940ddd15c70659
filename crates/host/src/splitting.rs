//! Which of the shards that are led here have become so large that they should be parted, and which of them cannot be.
//!
//! A pure choice by numbers that the owner brings; where a shard is parted is said by its records ([`shardine_shard`]), and whether it is, by
//! the map.

use std::collections::BTreeMap;

use shardine_model::{RangeVersion, ShardId};

/// How long nothing is asked again for a shard after it was asked: the map may be on its way.
const AGAIN_MS: u64 = 5_000;
/// How long one that cannot be parted is left alone (sharding B-28).
const MARKED_MS: u64 = 60_000;

/// Above which a shard is parted. 0 means that this is no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLimits {
    pub bytes: u64,
    pub records: u64,
}

impl Default for SplitLimits {
    fn default() -> Self {
        Self { bytes: 128 << 20, records: 1_000_000 }
    }
}

/// How large a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSize {
    pub bytes: u64,
    pub records: u64,
}

impl SplitLimits {
    /// Whether a shard of this size should be parted.
    #[must_use]
    pub fn are_exceeded(&self, size: ShardSize) -> bool {
        let is_above = |value: u64, limit: u64| limit > 0 && value > limit;
        is_above(size.bytes, self.bytes) || is_above(size.records, self.records)
    }
}

/// What was tried of late.
#[derive(Debug, Default)]
pub struct Splitting {
    tried: BTreeMap<ShardId, Try>,
}

#[derive(Debug)]
struct Try {
    /// The bounds that it had then.
    range: RangeVersion,
    until_ms: u64,
    /// Why it cannot be parted, if that is so.
    mark: Option<&'static str>,
}

impl Splitting {
    /// Whether a place is to be looked for in a shard now. One that has become small enough is forgotten, with its mark.
    pub fn is_due(&mut self, of: (ShardId, RangeVersion), size: ShardSize, limits: &SplitLimits, now_ms: u64) -> bool {
        let (shard, range) = of;
        if !limits.are_exceeded(size) {
            self.tried.remove(&shard);
            return false;
        }
        self.tried.get(&shard).is_none_or(|tried| now_ms >= tried.until_ms || range != tried.range)
    }

    /// It was asked for.
    pub fn asked(&mut self, (shard, range): (ShardId, RangeVersion), now_ms: u64) {
        self.tried.insert(shard, Try { range, until_ms: now_ms + AGAIN_MS, mark: None });
    }

    /// There is no place where it could be parted. Says whether that is news.
    pub fn mark(&mut self, (shard, range): (ShardId, RangeVersion), why: &'static str, now_ms: u64) -> bool {
        let before = self.tried.insert(shard, Try { range, until_ms: now_ms + MARKED_MS, mark: Some(why) });
        before.is_none_or(|before| before.mark != Some(why))
    }

    /// Why a shard that should be parted is not.
    #[must_use]
    pub fn why_not(&self, shard: ShardId) -> Option<&'static str> {
        self.tried.get(&shard)?.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SplitLimits = SplitLimits { bytes: 100, records: 10 };
    const SHARD: (ShardId, RangeVersion) = (ShardId(3), RangeVersion(1));

    fn size(bytes: u64, records: u64) -> ShardSize {
        ShardSize { bytes, records }
    }

    /// sharding B-24: many small records and few large ones both lead to it.
    #[test]
    fn sharding_b_24_bytes_and_records_are_reasons() {
        for (size, exceeded) in [(size(100, 10), false), (size(101, 1), true), (size(1, 11), true)] {
            assert_eq!(LIMITS.are_exceeded(size), exceeded, "{size:?}");
        }
        assert!(!SplitLimits { bytes: 0, records: 0 }.are_exceeded(size(u64::MAX, u64::MAX)));
    }

    #[test]
    fn what_was_asked_for_is_asked_for_again_a_while_later() {
        let mut splitting = Splitting::default();
        assert!(splitting.is_due(SHARD, size(200, 1), &LIMITS, 0));

        splitting.asked(SHARD, 0);

        assert!(!splitting.is_due(SHARD, size(200, 1), &LIMITS, AGAIN_MS - 1));
        assert!(splitting.is_due(SHARD, size(200, 1), &LIMITS, AGAIN_MS));
        let halved = (SHARD.0, RangeVersion(2));
        assert!(splitting.is_due(halved, size(200, 1), &LIMITS, 1), "it has been parted, and is too large still");
    }

    /// sharding B-28: and is unmarked when it is small again.
    #[test]
    fn one_that_cannot_be_parted_is_marked_and_left_alone_for_a_minute() {
        let mut splitting = Splitting::default();

        assert!(splitting.mark(SHARD, "one partition", 0));

        assert!(!splitting.is_due(SHARD, size(200, 1), &LIMITS, MARKED_MS - 1));
        assert_eq!(splitting.why_not(SHARD.0), Some("one partition"));
        assert!(splitting.is_due(SHARD, size(200, 1), &LIMITS, MARKED_MS));
        assert!(!splitting.mark(SHARD, "one partition", MARKED_MS), "it is told once");
        assert!(!splitting.is_due(SHARD, size(10, 1), &LIMITS, MARKED_MS + 1));
        assert_eq!(splitting.why_not(SHARD.0), None);
    }
}

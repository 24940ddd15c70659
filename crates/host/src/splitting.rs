//! Which of the shards that are led here have become so large, or are asked for so much, that they should be parted, and which of them
//! cannot be.
//!
//! A pure choice by numbers that the owner brings; where a shard is parted is said by its records ([`shardine_shard`]) or by what it was asked
//! for ([`Meter`](crate::Meter)), and whether it is, by the map.

use std::collections::BTreeMap;

use shardine_model::{RangeVersion, ShardId};

/// How long nothing is asked again for a shard after it was asked: the map may be on its way.
const AGAIN_MS: u64 = 5_000;
/// How long one that cannot be parted is left alone (sharding B-28).
const MARKED_MS: u64 = 60_000;
/// For how long a shard must be asked for too much, without a pause.
const HOT_MS: u64 = 10_000;

/// Above which a shard is parted. 0 means that this is no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLimits {
    pub bytes: u64,
    pub records: u64,
    pub load: LoadLimits,
}

/// Above which a shard is asked for too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    pub requests_per_s: u64,
    /// Of one core, in parts of a thousand.
    pub cpu_permille: u64,
    pub written_per_s: u64,
}

impl Default for SplitLimits {
    fn default() -> Self {
        Self { bytes: 128 << 20, records: 1_000_000, load: LoadLimits::default() }
    }
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { requests_per_s: 2_500, cpu_permille: 500, written_per_s: 16 << 20 }
    }
}

impl LoadLimits {
    /// Nothing is too much.
    pub const NONE: Self = Self { requests_per_s: 0, cpu_permille: 0, written_per_s: 0 };

    fn are_exceeded(&self, load: ShardLoad) -> bool {
        is_above(load.requests_per_s, self.requests_per_s)
            || is_above(load.cpu_permille, self.cpu_permille)
            || is_above(load.written_per_s, self.written_per_s)
    }
}

/// How large a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSize {
    pub bytes: u64,
    pub records: u64,
}

/// What a shard is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardLoad {
    pub requests_per_s: u64,
    pub cpu_permille: u64,
    pub written_per_s: u64,
}

/// What was counted of a shard, from some moment on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub requests: u64,
    pub written: u64,
}

/// Why a shard should be parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Size,
    Load,
}

fn is_above(value: u64, limit: u64) -> bool {
    limit > 0 && value > limit
}

impl SplitLimits {
    /// Whether a shard of this size should be parted.
    #[must_use]
    pub fn are_exceeded(&self, size: ShardSize) -> bool {
        is_above(size.bytes, self.bytes) || is_above(size.records, self.records)
    }

    /// Whether it has become twice as large: it grows faster than it is parted (sharding B-25).
    #[must_use]
    pub fn are_far_exceeded(&self, size: ShardSize) -> bool {
        let halved = ShardSize { bytes: size.bytes / 2, records: size.records / 2 };
        self.are_exceeded(halved)
    }
}

/// What was tried of late, and what is measured.
#[derive(Debug, Default)]
pub struct Splitting {
    tried: BTreeMap<ShardId, Try>,
    measured: Measured,
    /// Since when a shard is asked for too much.
    hot_since: BTreeMap<ShardId, u64>,
}

#[derive(Debug)]
struct Try {
    /// The bounds that it had then.
    range: RangeVersion,
    until_ms: u64,
    /// Why it cannot be parted, if that is so.
    mark: Option<&'static str>,
}

/// What stood there when it was last looked at.
#[derive(Debug, Default)]
struct Measured {
    at_ms: u64,
    cpu_us: u64,
    readings: BTreeMap<ShardId, Reading>,
}

impl Splitting {
    /// What shards were asked for since this was last called. `cpu_us` is what the owner has needed so far for all of them together: each
    /// has its part by its requests.
    pub fn measure(
        &mut self,
        readings: BTreeMap<ShardId, Reading>,
        cpu_us: u64,
        now_ms: u64,
    ) -> BTreeMap<ShardId, ShardLoad> {
        let before = std::mem::replace(&mut self.measured, Measured { at_ms: now_ms, cpu_us, readings });
        let passed_ms = now_ms.saturating_sub(before.at_ms);
        if passed_ms == 0 || before.at_ms == 0 {
            return BTreeMap::new();
        }
        let since = |(shard, now): (&ShardId, &Reading)| {
            let then = before.readings.get(shard).copied().unwrap_or(*now);
            let requests = now.requests.saturating_sub(then.requests);
            (*shard, Reading { requests, written: now.written.saturating_sub(then.written) })
        };
        let counts: Vec<(ShardId, Reading)> = self.measured.readings.iter().map(since).collect();
        let total = counts.iter().map(|(_, count)| count.requests).sum::<u64>().max(1);
        // A thousandth of a core is a microsecond in each millisecond.
        let permille = cpu_us.saturating_sub(before.cpu_us) / passed_ms;
        let load = |(shard, count): (ShardId, Reading)| {
            let load = ShardLoad {
                requests_per_s: count.requests * 1_000 / passed_ms,
                cpu_permille: permille * count.requests / total,
                written_per_s: count.written * 1_000 / passed_ms,
            };
            (shard, load)
        };
        counts.into_iter().map(load).collect()
    }

    /// Why a place is to be looked for in a shard now, if it is. One that has become small and is asked for little is forgotten, with its
    /// mark.
    pub fn due(
        &mut self,
        (shard, range): (ShardId, RangeVersion),
        (size, load): (ShardSize, ShardLoad),
        limits: &SplitLimits,
        now_ms: u64,
    ) -> Option<Reason> {
        let is_hot = self.is_hot(shard, load, limits, now_ms);
        let reason = match limits.are_exceeded(size) {
            true => Some(Reason::Size),
            false => is_hot.then_some(Reason::Load),
        };
        if reason.is_none() {
            self.tried.remove(&shard);
        }
        reason.filter(|_| self.tried.get(&shard).is_none_or(|tried| now_ms >= tried.until_ms || range != tried.range))
    }

    /// Whether it has been asked for too much for long enough.
    fn is_hot(&mut self, shard: ShardId, load: ShardLoad, limits: &SplitLimits, now_ms: u64) -> bool {
        if !limits.load.are_exceeded(load) {
            self.hot_since.remove(&shard);
            return false;
        }
        let since = *self.hot_since.entry(shard).or_insert(now_ms);
        now_ms.saturating_sub(since) >= HOT_MS
    }

    /// It was asked for. What it is asked for after that is another matter: each half has its own time.
    pub fn asked(&mut self, (shard, range): (ShardId, RangeVersion), now_ms: u64) {
        self.hot_since.remove(&shard);
        self.tried.insert(shard, Try { range, until_ms: now_ms + AGAIN_MS, mark: None });
    }

    /// There is no place where it could be parted. Says whether that is news.
    pub fn mark(&mut self, (shard, range): (ShardId, RangeVersion), why: &'static str, now_ms: u64) -> bool {
        let before = self.tried.insert(shard, Try { range, until_ms: now_ms + MARKED_MS, mark: Some(why) });
        before.is_none_or(|before| before.mark != Some(why))
    }

    /// It is not here any more, or not led here.
    pub fn retain(&mut self, is_here: impl Fn(ShardId) -> bool) {
        self.tried.retain(|shard, _| is_here(*shard));
        self.hot_since.retain(|shard, _| is_here(*shard));
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

    const LIMITS: SplitLimits = SplitLimits {
        bytes: 100,
        records: 10,
        load: LoadLimits { requests_per_s: 50, cpu_permille: 500, written_per_s: 0 },
    };
    const COLD: ShardLoad = ShardLoad { requests_per_s: 0, cpu_permille: 0, written_per_s: 0 };
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
        assert!(!SplitLimits { bytes: 0, records: 0, load: LoadLimits::NONE }.are_exceeded(size(u64::MAX, u64::MAX)));
    }

    #[test]
    fn what_was_asked_for_is_asked_for_again_a_while_later() {
        let mut splitting = Splitting::default();
        assert_eq!(splitting.due(SHARD, (size(200, 1), COLD), &LIMITS, 0), Some(Reason::Size));

        splitting.asked(SHARD, 0);

        assert_eq!(splitting.due(SHARD, (size(200, 1), COLD), &LIMITS, AGAIN_MS - 1), None);
        assert_eq!(splitting.due(SHARD, (size(200, 1), COLD), &LIMITS, AGAIN_MS), Some(Reason::Size));
        let halved = (SHARD.0, RangeVersion(2));
        assert_eq!(
            splitting.due(halved, (size(200, 1), COLD), &LIMITS, 1),
            Some(Reason::Size),
            "it has been parted, and is too large still"
        );
    }

    /// sharding B-28: and is unmarked when it is small again.
    #[test]
    fn one_that_cannot_be_parted_is_marked_and_left_alone_for_a_minute() {
        let mut splitting = Splitting::default();

        assert!(splitting.mark(SHARD, "one partition", 0));

        assert_eq!(splitting.due(SHARD, (size(200, 1), COLD), &LIMITS, MARKED_MS - 1), None);
        assert_eq!(splitting.why_not(SHARD.0), Some("one partition"));
        assert_eq!(splitting.due(SHARD, (size(200, 1), COLD), &LIMITS, MARKED_MS), Some(Reason::Size));
        assert!(!splitting.mark(SHARD, "one partition", MARKED_MS), "it is told once");
        assert_eq!(splitting.due(SHARD, (size(10, 1), COLD), &LIMITS, MARKED_MS + 1), None);
        assert_eq!(splitting.why_not(SHARD.0), None);
    }

    fn asked_for(requests_per_s: u64) -> (ShardSize, ShardLoad) {
        (size(1, 1), ShardLoad { requests_per_s, ..COLD })
    }

    /// A peak is no reason, and neither is one that comes again and again.
    #[test]
    fn a_shard_that_is_asked_for_too_much_for_ten_seconds_is_parted() {
        let mut splitting = Splitting::default();
        for now_ms in (0..30_000).step_by(1_000) {
            let requests = if now_ms % 9_000 == 0 { 0 } else { 60 };
            assert_eq!(splitting.due(SHARD, asked_for(requests), &LIMITS, now_ms), None);
        }
        let until = |splitting: &mut Splitting, from: u64| {
            let mut times = (from..).step_by(1_000);
            times.find(|now_ms| splitting.due(SHARD, asked_for(60), &LIMITS, *now_ms).is_some())
        };
        splitting.due(SHARD, asked_for(0), &LIMITS, 30_000);

        assert_eq!(until(&mut splitting, 31_000), Some(31_000 + HOT_MS));
        assert_eq!(splitting.due(SHARD, asked_for(60), &LIMITS, 42_000), Some(Reason::Load));
        splitting.asked(SHARD, 42_000);
        assert_eq!(until(&mut splitting, 43_000), Some(43_000 + HOT_MS), "each half has its own time");
    }

    /// sharding B-28: a hot key is told of once, tried again once a minute, and unmarked when it is not asked for any more.
    #[test]
    fn sharding_b_28_a_hot_key_is_marked_and_unmarked_by_itself() {
        let mut splitting = Splitting::default();
        let hot = |splitting: &mut Splitting, now_ms| splitting.due(SHARD, asked_for(60), &LIMITS, now_ms);
        hot(&mut splitting, 0);
        assert_eq!(hot(&mut splitting, HOT_MS), Some(Reason::Load));

        assert!(splitting.mark(SHARD, "one key", HOT_MS));

        assert_eq!(hot(&mut splitting, HOT_MS + MARKED_MS - 1), None);
        assert_eq!(splitting.why_not(SHARD.0), Some("one key"));
        assert_eq!(hot(&mut splitting, HOT_MS + MARKED_MS), Some(Reason::Load));
        assert_eq!(splitting.due(SHARD, asked_for(0), &LIMITS, HOT_MS + MARKED_MS + 1), None);
        assert_eq!(splitting.why_not(SHARD.0), None);
    }

    #[test]
    fn rates_are_of_the_time_since_the_last_look_and_cpu_goes_by_requests() {
        let mut splitting = Splitting::default();
        let reading = |requests, written| Reading { requests, written };
        let (one, other) = (ShardId(1), ShardId(2));
        let first = BTreeMap::from([(one, reading(1_000, 5)), (other, reading(0, 0))]);
        assert_eq!(splitting.measure(first, 7_000, 1_000), BTreeMap::new(), "nothing to compare with");

        let young = ShardId(3);
        let second =
            BTreeMap::from([(one, reading(4_000, 10_005)), (other, reading(1_000, 0)), (young, reading(900, 9))]);
        let loads = splitting.measure(second, 7_000 + 1_600_000, 3_000);

        let load =
            |requests_per_s, cpu_permille, written_per_s| ShardLoad { requests_per_s, cpu_permille, written_per_s };
        assert_eq!(loads[&one], load(1_500, 600, 5_000));
        assert_eq!(loads[&other], load(500, 200, 0));
        assert_eq!(loads[&young], load(0, 0, 0), "it has only just come");
    }

    /// sharding B-25.
    #[test]
    fn sharding_b_25_twice_the_size_is_far_too_much() {
        for (size, far) in [(size(200, 10), false), (size(202, 1), true), (size(1, 20), false), (size(1, 22), true)] {
            assert_eq!(LIMITS.are_far_exceeded(size), far, "{size:?}");
        }
    }
}

//! Which segments are still needed, and by whom. Numbers only; no I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::ids::ShardId;

/// Entries of one group in one segment, up to this index. They begin behind those of the span before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    segment: u64,
    last: u64,
}

/// What keeps segments from being freed. Invariant: `order` has each group that has spans once, with its first segment; the
/// spans of a group are in the order of segments and of indexes.
#[derive(Debug, Default)]
pub(super) struct Pins {
    spans: BTreeMap<ShardId, VecDeque<Span>>,
    order: BTreeSet<(u64, ShardId)>,
}

impl Pins {
    /// The oldest segment that is needed, and a group that needs it.
    pub(super) fn oldest(&self) -> Option<(u64, ShardId)> {
        self.order.first().copied()
    }

    /// Entries were written to a segment, the newest one. What the group had from `first` on is replaced by them.
    pub(super) fn append(&mut self, shard: ShardId, segment: u64, first: u64, last: u64) {
        self.change(shard, |spans| {
            while let Some(span) = spans.pop_back_if(|span| span.last >= first) {
                let starts = spans.back().map_or(0, |before| before.last + 1);
                if starts < first {
                    spans.push_back(Span { last: first - 1, ..span });
                }
            }
            match spans.back_mut() {
                Some(span) if span.segment == segment => span.last = last,
                _ => spans.push_back(Span { segment, last }),
            }
        });
    }

    /// Entries below `first` are not needed any more.
    pub(super) fn truncate(&mut self, shard: ShardId, first: u64) {
        self.change(shard, |spans| while spans.pop_front_if(|span| span.last < first).is_some() {});
    }

    /// Nothing of the group is needed any more.
    pub(super) fn release(&mut self, shard: ShardId) {
        self.change(shard, VecDeque::clear);
    }

    /// Nobody can tell what of the group is in this segment, so it is kept.
    pub(super) fn lose(&mut self, shard: ShardId, segment: u64) {
        self.change(shard, |spans| {
            if spans.back().is_none_or(|span| span.segment != segment) {
                spans.push_back(Span { segment, last: u64::MAX });
            }
        });
    }

    fn change(&mut self, shard: ShardId, change: impl FnOnce(&mut VecDeque<Span>)) {
        let spans = self.spans.entry(shard).or_default();
        let before = spans.front().map(|span| span.segment);
        change(spans);
        let after = spans.front().map(|span| span.segment);
        if after.is_none() {
            self.spans.remove(&shard);
        }
        if before != after {
            before.map(|segment| self.order.remove(&(segment, shard)));
            after.map(|segment| self.order.insert((segment, shard)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: ShardId = ShardId(1);
    const BUSY: ShardId = ShardId(2);

    #[test]
    fn the_oldest_segment_is_kept_by_whoever_still_has_entries_in_it() {
        let mut pins = Pins::default();
        pins.append(QUIET, 1, 1, 4);
        pins.append(BUSY, 1, 1, 10);
        pins.append(BUSY, 2, 11, 20);

        pins.truncate(BUSY, 11);
        assert_eq!(pins.oldest(), Some((1, QUIET)));
        pins.truncate(QUIET, 4);
        assert_eq!(pins.oldest(), Some((1, QUIET)), "entry 4 is left");
        pins.truncate(QUIET, 5);
        assert_eq!(pins.oldest(), Some((2, BUSY)));
        pins.release(BUSY);
        assert_eq!(pins.oldest(), None);
    }

    #[test]
    fn what_was_replaced_keeps_nothing() {
        let mut pins = Pins::default();
        pins.append(BUSY, 1, 1, 10);
        pins.append(BUSY, 2, 11, 20);
        pins.append(BUSY, 3, 21, 30);

        pins.append(BUSY, 4, 6, 7);

        // Of segment 1 entries 1 to 5 are left, of 2 and 3 nothing.
        pins.truncate(BUSY, 5);
        assert_eq!(pins.oldest(), Some((1, BUSY)));
        pins.truncate(BUSY, 6);
        assert_eq!(pins.oldest(), Some((4, BUSY)));
    }

    #[test]
    fn a_lost_group_keeps_what_it_had() {
        let mut pins = Pins::default();
        pins.append(BUSY, 1, 1, 10);

        pins.lose(BUSY, 2);

        assert_eq!(pins.oldest(), Some((1, BUSY)));
        pins.truncate(BUSY, 11);
        assert_eq!(pins.oldest(), Some((2, BUSY)));
    }
}

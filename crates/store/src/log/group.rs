//! What the log remembers of a group without its entries: the hard state and which indexes are kept. No I/O.

use shardine_model::ReplicaId;
use shardine_model::log::HardState;

/// Invariant: entries `first..next` are kept. `next` is 0 when the next entry may have any index: nothing was written
/// yet, or a snapshot replaced the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) hard_state: HardState,
    pub(super) first: u64,
    pub(super) next: u64,
}

impl Group {
    /// A group whose log is damaged: nothing is known of it. It stands in the heads of segments that were begun while its
    /// shard was stopped, and claims every index, so that no segment with a part of it is freed.
    pub(super) const LOST: Self =
        Self { hard_state: HardState { term: 0, vote: ReplicaId(0), commit: 0 }, first: 0, next: u64::MAX };

    /// Whether an entry may be written at `index`: it continues the log or replaces its end. A lost log is not continued.
    pub(super) fn accepts(&self, index: u64) -> bool {
        self.next == 0 || (*self != Self::LOST && (self.first..=self.next).contains(&index))
    }

    pub(super) fn append(&mut self, index: u64, count: u64) {
        assert!(self.accepts(index), "entries must follow without gaps");
        if self.next == 0 {
            self.first = index;
        }
        self.next = index + count;
    }

    /// Returns whether anything changed.
    pub(super) fn truncate(&mut self, index: u64) -> bool {
        if self.next == 0 || index <= self.first {
            return false;
        }
        if index > self.next {
            // The snapshot is ahead of the log; what comes after it need not touch what was here.
            self.first = 0;
            self.next = 0;
        } else {
            self.first = index;
        }
        true
    }

    pub(super) fn reset(&mut self, hard_state: HardState) {
        *self = Self { hard_state, first: 0, next: 0 };
    }

    /// Whether the entry at `index` or one before it is still kept.
    pub(super) fn needs(&self, index: u64) -> bool {
        self.next != 0 && self.first < self.next && index >= self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(first: u64, next: u64) -> Group {
        Group { first, next, ..Group::default() }
    }

    #[test]
    fn a_new_group_begins_anywhere_and_goes_on_without_gaps() {
        let mut new = Group::default();

        new.append(8, 2);

        assert_eq!(new, group(8, 10));
        assert!(new.accepts(10));
        assert!(!new.accepts(11));
        assert!(!new.accepts(7));
    }

    #[test]
    fn a_snapshot_ahead_of_the_log_frees_the_next_index() {
        let mut behind = group(8, 10);

        assert!(behind.truncate(50));

        assert!(behind.accepts(60));
    }

    #[test]
    fn truncation_never_goes_back() {
        let mut some = group(8, 10);

        assert!(!some.truncate(7));
        assert!(some.truncate(10));

        assert_eq!(some, group(10, 10));
        assert!(!some.needs(9));
    }

    #[test]
    fn a_lost_group_needs_whatever_there_is_and_takes_nothing() {
        assert!(!Group::LOST.accepts(0));
        assert!(!Group::LOST.accepts(u64::MAX));
        assert!(Group::LOST.needs(0));
        assert!(Group::LOST.needs(u64::MAX));
    }
}

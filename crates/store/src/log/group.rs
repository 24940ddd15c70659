//! What the log remembers of a group without its entries: whose it is, the hard state, and which indexes are kept. No I/O.

use shardine_model::ids::ReplicaId;
use shardine_model::log::HardState;

/// Invariant: entries `first..next` are kept, and the next one that is new has the index `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) replica: ReplicaId,
    pub(crate) hard_state: HardState,
    pub(crate) first: u64,
    pub(crate) next: u64,
}

impl Group {
    /// A group whose first entry is still to come.
    pub(crate) fn new(replica: ReplicaId) -> Self {
        Self { replica, hard_state: HardState::default(), first: 1, next: 1 }
    }

    /// A group whose log is damaged: nothing is known of it but that it was there. It stands in the heads of segments that
    /// were begun while its shard was stopped.
    pub(crate) fn lost(replica: ReplicaId) -> Self {
        Self { replica, hard_state: HardState::default(), first: 0, next: u64::MAX }
    }

    /// A group whose state is in a snapshot up to this index, and nowhere else.
    pub(crate) fn behind(replica: ReplicaId, hard_state: HardState, index: u64) -> Self {
        Self { replica, hard_state, first: index.saturating_add(1), next: index.saturating_add(1) }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.next == u64::MAX
    }

    /// Whether an entry may be written at `index`: it continues the log or replaces its end. A lost log is not continued.
    pub(crate) fn accepts(&self, index: u64) -> bool {
        !self.is_lost() && (self.first..=self.next).contains(&index)
    }

    pub(crate) fn append(&mut self, index: u64, count: u64) {
        assert!(self.accepts(index), "entries must follow without gaps");
        self.next = index + count;
    }

    /// Forgets what is below `index`, which must not be beyond the end. Returns whether anything changed.
    pub(crate) fn truncate(&mut self, index: u64) -> bool {
        assert!(index <= self.next, "what is not there yet cannot be forgotten");
        let changes = index > self.first;
        self.first = self.first.max(index);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICA: ReplicaId = ReplicaId(7);

    fn group(first: u64, next: u64) -> Group {
        Group { first, next, ..Group::new(REPLICA) }
    }

    #[test]
    fn a_new_group_begins_at_one_and_goes_on_without_gaps() {
        let mut new = Group::new(REPLICA);
        assert!(!new.accepts(2));

        new.append(1, 2);

        assert_eq!(new, group(1, 3));
        assert!(new.accepts(3) && new.accepts(1));
        assert!(!new.accepts(4) && !new.accepts(0));
    }

    /// reliability I7.
    #[test]
    fn behind_a_snapshot_comes_the_next_index_and_no_other() {
        let hard_state = HardState { term: 2, vote: REPLICA, commit: 50 };
        let behind = Group::behind(REPLICA, hard_state, 50);

        assert!(behind.accepts(51));
        assert!(!behind.accepts(50) && !behind.accepts(52));
    }

    #[test]
    fn truncation_never_goes_back() {
        let mut some = group(8, 10);

        assert!(!some.truncate(7));
        assert!(some.truncate(10));

        assert_eq!(some, group(10, 10));
    }

    #[test]
    fn a_lost_group_takes_nothing() {
        let lost = Group::lost(REPLICA);

        assert!(lost.is_lost());
        assert!(!lost.accepts(0) && !lost.accepts(u64::MAX));
    }
}

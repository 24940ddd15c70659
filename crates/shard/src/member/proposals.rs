//! Proposals of this replica on their way through the log, oldest first: which of the applied entries is one's own, and
//! which will certainly never be applied.

use std::collections::VecDeque;

use shardine_consensus::Proposed;

/// Knows places in the log only; `T` is what the replica wants back when an entry is applied.
pub(crate) struct Proposals<T> {
    pending: VecDeque<Proposal<T>>,
}

struct Proposal<T> {
    proposed: Proposed,
    since_ms: u64,
    load: T,
}

/// What an applied entry says of the oldest proposal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved<T> {
    /// It is this entry.
    Own(T),
    /// It will never be applied: another leader's entry has its place, or one of a later term stands before it, and terms
    /// never go back along the log.
    Overtaken(T),
    /// It may yet come, or there is none.
    Nothing,
}

/// What is known of a proposal that one no longer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    NotExecuted,
    InDoubt,
}

impl<T> Default for Proposals<T> {
    fn default() -> Self {
        Self { pending: VecDeque::new() }
    }
}

impl<T> Proposals<T> {
    pub fn push(&mut self, proposed: Proposed, since_ms: u64, load: T) {
        self.pending.push_back(Proposal { proposed, since_ms, load });
    }

    /// Looks at the oldest proposal in the light of an applied entry; to be asked again until it is one's own, or nothing.
    pub fn resolve(&mut self, applied: Proposed) -> Resolved<T> {
        let Some(oldest) = self.pending.front() else { return Resolved::Nothing };
        let proposed = oldest.proposed;
        let is_it = proposed == applied;
        if !is_it && proposed.index > applied.index && proposed.term >= applied.term {
            return Resolved::Nothing;
        }
        let Proposal { load, .. } = self.pending.pop_front().expect("just looked");
        if is_it { Resolved::Own(load) } else { Resolved::Overtaken(load) }
    }

    /// Takes out those at the places that a snapshot covers: it does not tell whether it holds them.
    pub fn take_covered(&mut self, index: u64) -> Vec<T> {
        let is_covered = |flight: &Proposal<T>| flight.proposed.index <= index;
        let (covered, ahead): (VecDeque<_>, _) = self.pending.drain(..).partition(is_covered);
        self.pending = ahead;
        covered.into_iter().map(|flight| flight.load).collect()
    }

    pub fn take_all(&mut self) -> Vec<T> {
        self.pending.drain(..).map(|flight| flight.load).collect()
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pending.iter().map(|flight| &flight.load)
    }

    pub fn older_than(&mut self, now_ms: u64, age_ms: u64) -> impl Iterator<Item = &mut T> {
        let is_old = move |flight: &&mut Proposal<T>| now_ms.saturating_sub(flight.since_ms) > age_ms;
        self.pending.iter_mut().filter(is_old).map(|flight| &mut flight.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(index: u64, term: u64) -> Proposed {
        Proposed { index, term }
    }

    fn proposals(places: &[(u64, u64)]) -> Proposals<u64> {
        let mut proposals = Proposals::default();
        for (index, term) in places {
            proposals.push(at(*index, *term), 100 * index, *index);
        }
        proposals
    }

    #[test]
    fn an_entry_finds_its_own_proposal_and_leaves_those_behind_it() {
        let mut proposals = proposals(&[(5, 2), (6, 2)]);

        assert_eq!(proposals.resolve(at(4, 2)), Resolved::Nothing, "another's entry before the first");
        assert_eq!(proposals.resolve(at(5, 2)), Resolved::Own(5));
        assert_eq!(proposals.iter().copied().collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn another_leaders_entry_at_the_same_place_overtakes() {
        let mut proposals = proposals(&[(5, 2)]);

        assert_eq!(proposals.resolve(at(5, 3)), Resolved::Overtaken(5));
        assert_eq!(proposals.resolve(at(5, 3)), Resolved::Nothing);
    }

    #[test]
    fn an_entry_of_a_later_term_overtakes_proposals_at_later_places() {
        let mut proposals = proposals(&[(7, 2), (8, 2)]);

        assert_eq!(proposals.resolve(at(6, 3)), Resolved::Overtaken(7));
        assert_eq!(proposals.resolve(at(6, 3)), Resolved::Overtaken(8));
        assert_eq!(proposals.resolve(at(6, 3)), Resolved::Nothing);
    }

    #[test]
    fn an_entry_of_an_older_term_says_nothing_of_what_stands_behind_it() {
        let mut proposals = proposals(&[(7, 3)]);

        assert_eq!(proposals.resolve(at(6, 2)), Resolved::Nothing);
    }

    #[test]
    fn a_snapshot_covers_its_last_place_and_none_behind_it() {
        let mut proposals = proposals(&[(5, 2), (6, 2), (7, 2)]);

        assert_eq!(proposals.take_covered(6), [5, 6]);
        assert_eq!(proposals.iter().copied().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn age_counts_from_the_proposal() {
        let mut proposals = proposals(&[(5, 2), (6, 2)]);

        assert_eq!(proposals.older_than(3_550, 3_000).map(|load| *load).collect::<Vec<_>>(), [5]);
        assert_eq!(proposals.older_than(3_500, 3_000).count(), 0, "not older, just as old");
    }
}

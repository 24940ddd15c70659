//! How old what a replica has applied can be, by its own clock, however long messages take and whoever has been replaced
//! meanwhile without knowing it.
//!
//! Every message carries its sender's time, and the newest time of the receiver's that the sender had heard of
//! ([`Stamps`]). A follower that says so in this term has followed its leader at least until it heard that time: when a majority
//! has said so of a time, nobody else had committed anything before it. The leader tells how long ago that is, together with
//! its commit index. A follower that hears it counts back from its own time that the leader had heard of: whatever was
//! committed anywhere before that is among the entries up to that commit index.

use std::collections::{BTreeMap, VecDeque};

use shardine_consensus::Stamps;
use shardine_model::ReplicaId;
use shardine_model::log::Membership;

/// Commit indexes that were told and are not reached yet. More of them only make the age more exact.
const TOLD_MAX: usize = 64;

/// Bits of a stamp that are milliseconds: a generation of them. Those above are the incarnation's, so that nobody takes the time
/// of an earlier life for its own.
const MS_BITS: u32 = 40;

#[derive(Debug)]
pub(crate) struct Freshness {
    incarnation: u64,
    /// The newest stamp of each peer, to be echoed.
    heard: BTreeMap<ReplicaId, u64>,
    /// Until when each follower certainly followed, in `term`.
    followed_ms: BTreeMap<ReplicaId, u64>,
    term: u64,
    /// What leaders have told. Invariant: both numbers grow along it.
    told: VecDeque<Told>,
}

/// Everything that was committed anywhere by this time is among the entries up to this one. That stays true for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    committed: u64,
    as_of_ms: u64,
}

impl Freshness {
    pub fn new(incarnation: u64) -> Self {
        Self {
            incarnation: incarnation & (u64::MAX >> MS_BITS),
            heard: BTreeMap::new(),
            followed_ms: BTreeMap::new(),
            term: 0,
            told: VecDeque::new(),
        }
    }

    pub fn stamps(&self, to: ReplicaId, now_ms: u64, age_ms: Option<u64>) -> Stamps {
        let sent = self.incarnation << MS_BITS | now_ms & ((1 << MS_BITS) - 1);
        Stamps { sent, echo: self.heard.get(&to).copied().unwrap_or(0), age_ms }
    }

    /// The time of this replica that a peer had heard of, if it had, and of this life.
    fn echoed_ms(&self, stamps: Stamps) -> Option<u64> {
        let is_own = stamps.echo != 0 && stamps.echo >> MS_BITS == self.incarnation;
        is_own.then_some(stamps.echo & ((1 << MS_BITS) - 1))
    }

    pub fn hear(&mut self, from: ReplicaId, stamps: Stamps) {
        let heard = self.heard.entry(from).or_default();
        *heard = (*heard).max(stamps.sent);
    }

    /// A follower spoke to its leader, in this term.
    pub fn hear_follower(&mut self, from: ReplicaId, term: u64, stamps: Stamps) {
        if let Some(as_of_ms) = self.echoed_ms(stamps) {
            self.note_follower(from, term, as_of_ms);
        }
    }

    /// A follower certainly followed in this term until then.
    pub fn note_follower(&mut self, from: ReplicaId, term: u64, as_of_ms: u64) {
        if self.term != term {
            self.term = term;
            self.followed_ms.clear();
        }
        let followed_ms = self.followed_ms.entry(from).or_default();
        *followed_ms = (*followed_ms).max(as_of_ms);
    }

    /// A leader spoke, and said what it knows to be committed.
    pub fn hear_leader(&mut self, committed: u64, stamps: Stamps) {
        if let (Some(heard_ms), Some(age_ms)) = (self.echoed_ms(stamps), stamps.age_ms) {
            self.note_leader(committed, heard_ms.saturating_sub(age_ms));
        }
    }

    /// Whatever was committed anywhere by then is among the entries up to this one.
    pub fn note_leader(&mut self, committed: u64, as_of_ms: u64) {
        let told = Told { committed, as_of_ms };
        // What says less than the new one, and then what the new one says less than: a message that came late.
        while self.told.back().is_some_and(|last| last.committed >= told.committed && last.as_of_ms <= told.as_of_ms) {
            self.told.pop_back();
        }
        if self.told.back().is_some_and(|last| last.as_of_ms >= told.as_of_ms) {
            return;
        }
        if self.told.len() >= TOLD_MAX {
            self.told.pop_back();
        }
        self.told.push_back(told);
    }

    /// Lets go of what something newer says as well.
    pub fn note_applied(&mut self, applied: u64) {
        while self.told.get(1).is_some_and(|next| next.committed <= applied) {
            self.told.pop_front();
        }
    }

    /// As of when what is applied was all there was, if that is known.
    pub fn of_follower_ms(&self, applied: u64) -> Option<u64> {
        let reached = self.told.iter().take_while(|told| told.committed <= applied).last();
        reached.map(|told| told.as_of_ms)
    }

    /// Until when a majority certainly followed this leader.
    pub fn of_leader_ms(&self, own: ReplicaId, term: u64, membership: &Membership, now_ms: u64) -> Option<u64> {
        let none = BTreeMap::new();
        let followed_ms = if self.term == term { &self.followed_ms } else { &none };
        let mut times: Vec<u64> = followed_ms.values().copied().chain([now_ms]).collect();
        times.sort_unstable();
        let has_followed = |voter: ReplicaId, until_ms: u64| {
            voter == own || followed_ms.get(&voter).is_some_and(|followed_ms| *followed_ms >= until_ms)
        };
        times.into_iter().rev().find(|until_ms| membership.is_quorum(|voter| has_followed(voter, *until_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ReplicaId = ReplicaId(1);
    const PEER: ReplicaId = ReplicaId(2);

    /// What a leader says that has heard of this replica's time `echo_ms`.
    fn word(fresh: &Freshness, echo_ms: u64, age_ms: Option<u64>) -> Stamps {
        Stamps { sent: 7, echo: fresh.stamps(PEER, echo_ms, None).sent, age_ms }
    }

    #[test]
    fn age_counts_back_from_ones_own_time_that_the_leader_had_heard_of() {
        let mut fresh = Freshness::new(3);

        fresh.hear_leader(10, word(&fresh, 5_000, Some(300)));

        assert_eq!(fresh.of_follower_ms(10), Some(4_700));
        assert_eq!(fresh.of_follower_ms(9), None, "the leader has more");
    }

    #[test]
    fn a_leader_that_has_heard_nothing_or_does_not_know_tells_nothing() {
        let mut fresh = Freshness::new(3);

        fresh.hear_leader(10, Stamps { sent: 7, echo: 0, age_ms: Some(0) });
        fresh.hear_leader(10, word(&fresh, 5_000, None));
        // Of an earlier life, when its clock may have shown anything.
        fresh.hear_leader(10, word(&Freshness::new(2), 5_000, Some(0)));

        assert_eq!(fresh.of_follower_ms(10), None);
    }

    #[test]
    fn a_message_that_comes_late_makes_nothing_younger() {
        let mut fresh = Freshness::new(3);
        fresh.hear_leader(10, word(&fresh, 5_000, Some(0)));

        fresh.hear_leader(8, word(&fresh, 4_000, Some(0)));

        assert_eq!((fresh.of_follower_ms(9), fresh.of_follower_ms(10)), (None, Some(5_000)));
    }

    #[test]
    fn what_is_reached_counts_while_newer_entries_are_on_their_way() {
        let mut fresh = Freshness::new(3);
        for step in 0..3 {
            fresh.hear_leader(10 + step, word(&fresh, 5_000 + 100 * step, Some(0)));
        }
        fresh.hear_leader(12, word(&fresh, 9_000, Some(0)));

        fresh.note_applied(11);

        assert_eq!(fresh.of_follower_ms(11), Some(5_100));
        assert_eq!(fresh.of_follower_ms(12), Some(9_000));
    }

    #[test]
    fn there_is_a_limit_to_what_is_kept() {
        let mut fresh = Freshness::new(3);
        for step in 0..10 * TOLD_MAX as u64 {
            fresh.hear_leader(10 + step, word(&fresh, 5_000 + step, Some(0)));
        }

        assert_eq!(fresh.told.len(), TOLD_MAX);
        assert_eq!(fresh.of_follower_ms(u64::MAX), Some(5_000 + 10 * TOLD_MAX as u64 - 1), "the newest is kept");
    }

    #[test]
    fn a_leader_is_as_fresh_as_a_majority_lets_it_be() {
        let mut fresh = Freshness::new(3);
        let voters = Membership::of([1, 2, 3].map(ReplicaId));
        let at = |fresh: &Freshness, membership: &Membership| fresh.of_leader_ms(ME, 4, membership, 6_000);
        assert_eq!(at(&fresh, &voters), None);
        assert_eq!(at(&fresh, &Membership::of([ME])), Some(6_000), "alone it needs nobody");

        fresh.hear_follower(PEER, 4, word(&fresh, 5_000, None));
        fresh.hear_follower(ReplicaId(3), 4, word(&fresh, 5_500, None));

        assert_eq!(at(&fresh, &voters), Some(5_500));
        let leaving = Membership { outgoing: vec![ME, PEER], ..voters.clone() };
        assert_eq!(at(&fresh, &leaving), Some(5_000), "both configurations must agree");
        fresh.hear_follower(PEER, 5, word(&fresh, 5_900, None));
        assert_eq!(at(&fresh, &voters), None, "what was said in another term does not count");
    }
}

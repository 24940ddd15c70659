//! Which replica answers a read that may be a little old. A function of who is there, how each is weighed, and a number that was
//! drawn: whoever reads for himself alone goes to the leader, and takes no part in this.

use shardine_model::NodeId;

/// A replica of the shard whose node is not taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    /// Its share among its equals; 0 means only if nobody else is there.
    pub weight: u16,
    /// Whether it leads the shard: it has its hands full with writes, and is asked when no other one is there.
    pub leads: bool,
}

impl Candidate {
    /// Those of the lowest rank that is there are asked.
    fn rank(self) -> (bool, bool) {
        (self.weight == 0, self.leads)
    }
}

/// Whom to ask: a follower in proportion to its weight, else the leader, else one whose weight is 0. `draw` may be any number; over
/// numbers that are spread evenly, so is the choice.
#[must_use]
pub fn choose(candidates: &[Candidate], draw: u64) -> Option<NodeId> {
    let rank = candidates.iter().map(|candidate| candidate.rank()).min()?;
    let equals = || candidates.iter().filter(|candidate| candidate.rank() == rank);
    // Those of weight 0 are equal among each other.
    let share = |candidate: &Candidate| u64::from(candidate.weight.max(1));
    let total: u64 = equals().map(share).sum();
    let mut point = ((u128::from(draw) * u128::from(total)) >> 64) as u64;
    equals().find_map(|candidate| {
        let is_hit = point < share(candidate);
        point = point.saturating_sub(share(candidate));
        is_hit.then_some(candidate.node)
    })
}

/// Numbers that are spread evenly, however few of them are taken: each is as far from those before it as the golden ratio has it.
#[derive(Clone, Copy, Debug)]
pub struct Draws(u64);

impl Draws {
    /// Those who begin at different numbers draw different ones.
    #[must_use]
    pub fn begin(at: u64) -> Self {
        Self(at.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let weight = prop_oneof![2 => Just(0), 6 => 1..=1_000_u16];
        (prop::collection::vec(weight, 1..7), 0..8_usize).prop_map(|(weights, leader)| {
            let made = weights.into_iter().enumerate();
            made.map(|(place, weight)| Candidate { node: NodeId(place as u64 + 1), weight, leads: place == leader })
                .collect()
        })
    }

    fn count(candidates: &[Candidate], at: u64, reads: u64) -> BTreeMap<NodeId, u64> {
        let mut draws = Draws::begin(at);
        let mut counts = BTreeMap::new();
        for _ in 0..reads {
            *counts.entry(choose(candidates, draws.draw()).unwrap()).or_default() += 1;
        }
        counts
    }

    /// sharding C-15, C-17: 100 and 300 are a quarter and three quarters, and the leader is left alone.
    #[test]
    fn weights_of_100_and_300_are_a_quarter_and_three_quarters() {
        let one = |node, weight, leads| Candidate { node: NodeId(node), weight, leads };
        let all = [one(1, 100, true), one(2, 100, false), one(3, 300, false)];

        let counts = count(&all, 7, 10_000);

        assert_eq!(counts.keys().map(|node| node.0).collect::<Vec<_>>(), [2, 3]);
        assert!(counts[&NodeId(2)].abs_diff(2_500) <= 300, "{counts:?}");
    }

    proptest! {
        /// sharding C-15, C-17: whoever is there is asked in proportion to its weight; a follower before the leader, and one whose
        /// weight is 0 only where nobody else is there.
        #[test]
        fn the_choice_follows_ranks_and_weights(all in candidates(), at in any::<u64>()) {
            const READS: u64 = 2_000;
            let counts = count(&all, at, READS);

            let best = all.iter().map(|one| one.rank()).min().unwrap();
            let total: u64 = all.iter().filter(|one| one.rank() == best).map(|one| u64::from(one.weight.max(1))).sum();
            for one in &all {
                let found = counts.get(&one.node).copied().unwrap_or(0);
                if one.rank() == best {
                    let wanted = READS * u64::from(one.weight.max(1)) / total;
                    prop_assert!(found.abs_diff(wanted) <= READS * 3 / 100, "{one:?}: {found} of {wanted}");
                } else {
                    prop_assert_eq!(found, 0, "{:?} was asked beside better ones", one);
                }
            }
        }

        /// Whatever is drawn, somebody who is there is asked, and nobody else.
        #[test]
        fn any_draw_names_one_of_them(all in candidates(), draw in any::<u64>()) {
            let chosen = choose(&all, draw);

            prop_assert!(all.iter().any(|one| Some(one.node) == chosen));
            prop_assert_eq!(choose(&[], draw), None);
        }
    }
}

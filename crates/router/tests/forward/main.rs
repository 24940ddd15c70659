//! Clusters of three nodes under chance: links break, leaders change, news comes late. Requests of a connection and partition
//! are executed in their order, changes once, and everybody is answered once and truly.

mod chance;
mod check;
mod world;

use shardine_router::forward::Mutant;

use crate::world::World;

const SEEDS: u64 = 2_000;

#[test]
fn requests_reach_their_leader_once_and_in_order() {
    let mut seen = world::Seen::default();
    for seed in 1..=SEEDS {
        match World::new(seed, None).run() {
            Ok(tally) => seen.add(&tally),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    let rare = [seen.executed, seen.sent, seen.refused, seen.in_doubt, seen.no_leader, seen.again, seen.old_generation];
    let rare = [rare.as_slice(), &[seen.busy_again]].concat();
    assert!(rare.iter().all(|count| *count > 100), "every kind of trouble was met: {seen:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..=20 {
        let runs = [World::new(seed, None).run(), World::new(seed, None).run()];
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

fn caught(mutant: Mutant, by: &str) {
    let mut violations = (1..=SEEDS).filter_map(|seed| World::new(seed, Some(mutant)).run().err());
    assert!(violations.any(|violation| violation.contains(by)), "{mutant:?} was not noticed");
}

#[test]
fn a_forward_of_a_forward_is_noticed() {
    caught(Mutant::ForwardOfForward, "sent on");
}

#[test]
fn a_hint_that_is_followed_blindly_is_noticed() {
    caught(Mutant::HintFollowedBlindly, "whom the highest term does not name");
}

#[test]
fn an_order_that_a_retry_loses_is_noticed() {
    caught(Mutant::OrderLostByRetry, "out of order");
}

#[test]
fn a_change_that_is_retried_in_doubt_is_noticed() {
    caught(Mutant::RetryInDoubt, "executed twice");
}

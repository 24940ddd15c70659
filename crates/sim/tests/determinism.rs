//! The same seed is the same run: what happened, when, and in which order.

use shardine_sim::{Coordination, Options, Records, Tenant, Theme, run};

fn is_the_same_twice<T: Tenant>(theme: Option<Theme>) {
    for seed in 1..=6 {
        let first = run::<T>(seed, Options { theme, ..Options::default() });
        let second = run::<T>(seed, Options { theme, ..Options::default() });

        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed} of {}", T::NAME);
        assert_eq!((first.events, first.counts), (second.events, second.counts), "seed {seed} of {}", T::NAME);
    }
}

#[test]
fn the_same_seed_run_twice_gives_the_same_trace() {
    is_the_same_twice::<Records>(None);
    is_the_same_twice::<Records>(Some(Theme::Members));
    is_the_same_twice::<Coordination>(None);
}

#[test]
fn different_seeds_are_different_runs() {
    let hashes: Vec<u64> = (1..=4).map(|seed| run::<Records>(seed, Options::default()).trace_hash).collect();

    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]), "{hashes:x?}");
}

#[test]
fn words_change_nothing() {
    let silent = run::<Records>(7, Options::default());
    let told = run::<Records>(7, Options { lines: 50, ..Options::default() });

    assert_eq!(silent.trace_hash, told.trace_hash);
    assert_eq!(told.lines.len(), 50);
}

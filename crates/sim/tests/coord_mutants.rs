//! Each bug that is planted in coordination is caught, by a checker that names what it broke.

use shardine_sim::{CoordMutant, Coordination, Options, hunt, run};

fn is_caught_within(mutant: CoordMutant, seeds: u64) {
    let catch = hunt::<Coordination>(mutant, 1, seeds);

    let (seed, violation) = catch.found.unwrap_or_else(|| panic!("{mutant:?} was not caught in {seeds} seeds"));
    let healthy = run::<Coordination>(seed, Options::default());
    assert_eq!(healthy.violation, None, "seed {seed} must fail because of the bug: {violation:?}");
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    is_caught_within(CoordMutant::AnswerBeforeSync, 30);
}

#[test]
fn a_grant_beyond_the_limit_is_caught() {
    is_caught_within(CoordMutant::GrantsBeyondTheLimit, 30);
}

/// reliability I62.
#[test]
fn a_queue_that_is_served_from_its_end_is_caught() {
    is_caught_within(CoordMutant::LastComeFirstServed, 30);
}

/// reliability I63.
#[test]
fn a_grant_to_the_dead_is_caught() {
    is_caught_within(CoordMutant::GrantsToTheDead, 30);
}

/// reliability I59.
#[test]
fn a_number_of_an_acquire_that_comes_again_is_caught() {
    is_caught_within(CoordMutant::OrderIdsComeAgain, 60);
}

#[test]
fn numbers_that_begin_anew_after_a_restart_are_caught() {
    is_caught_within(CoordMutant::OrderIdsBeginAnew, 60);
}

#[test]
fn an_owner_from_the_queue_who_is_not_told_of_is_caught() {
    is_caught_within(CoordMutant::SilentPromotions, 60);
}

#[test]
fn a_leader_who_leaves_without_a_word_is_caught() {
    is_caught_within(CoordMutant::SilentStepDown, 60);
}

#[test]
fn an_end_of_a_session_that_is_attached_is_caught() {
    is_caught_within(CoordMutant::ExpiresTheAttached, 30);
}

#[test]
fn an_end_of_a_session_without_the_log_is_caught() {
    is_caught_within(CoordMutant::ExpiresWithoutTheLog, 30);
}

#[test]
fn a_missing_grace_period_is_caught() {
    is_caught_within(CoordMutant::NoGrace, 30);
}

#[test]
fn a_leader_without_a_self_check_is_caught() {
    is_caught_within(CoordMutant::NoSelfCheck, 200);
}

#[test]
fn local_strict_reads_are_caught() {
    is_caught_within(CoordMutant::LocalStrictReads, 100);
}

#[test]
fn a_log_cut_before_its_snapshot_is_caught() {
    is_caught_within(CoordMutant::TruncateBeforeSnapshot, 300);
}

//! Each planted bug is caught, by a checker that names what it broke. Without this, no number of green seeds means much.

use shardine_sim::{Mutant, Options, Records, Theme, hunt_about, run};

fn is_caught_within(mutant: Mutant, seeds: u64) {
    is_caught_about(None, mutant, seeds);
}

/// The bug needs something rare, which a theme brings about more often.
fn is_caught_about(theme: Option<Theme>, mutant: Mutant, seeds: u64) {
    let catch = hunt_about::<Records>(theme, mutant, 1, seeds);

    let (seed, violation) = catch.found.unwrap_or_else(|| panic!("{mutant:?} was not caught in {seeds} seeds"));
    let healthy = run::<Records>(seed, Options { theme, ..Options::default() });
    assert_eq!(healthy.violation, None, "seed {seed} must fail because of the bug: {violation:?}");
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    is_caught_within(Mutant::AnswerBeforeSync, 30);
}

#[test]
fn sql_without_a_fence_is_caught() {
    is_caught_within(Mutant::NoSqlFence, 150);
}

#[test]
fn a_kick_of_a_dirty_record_is_caught() {
    is_caught_within(Mutant::KickDirty, 60);
}

#[test]
fn a_retry_that_is_executed_again_is_caught() {
    is_caught_within(Mutant::NoDedup, 60);
}

#[test]
fn a_snapshot_that_does_not_clear_is_caught() {
    is_caught_within(Mutant::SnapshotDoesNotClear, 150);
}

#[test]
fn local_reads_are_caught() {
    is_caught_within(Mutant::LocalReads, 400);
}

#[test]
fn a_reused_read_context_is_caught() {
    is_caught_within(Mutant::ReusedReadContext, 400);
}

#[test]
fn a_forgotten_increment_is_caught() {
    is_caught_within(Mutant::MergedIncrementsForgetOne, 150);
}

/// reliability F22, I47.
#[test]
fn a_load_that_overwrites_is_caught() {
    is_caught_within(Mutant::LoadOverwrites, 100);
}

#[test]
fn a_log_cut_before_its_snapshot_is_caught() {
    is_caught_within(Mutant::TruncateBeforeSnapshot, 300);
}

#[test]
fn a_node_that_believes_every_clock_is_caught() {
    is_caught_within(Mutant::BelievesAllClocks, 100);
}

#[test]
fn a_node_that_believes_its_clock_when_it_starts_is_caught() {
    // Rare: a lead must come to it within two pulses of its start.
    is_caught_about(Some(Theme::Astray), Mutant::BelievesWallAtStart, 2_000);
}

#[test]
fn an_answer_of_sql_to_an_old_question_is_caught() {
    is_caught_within(Mutant::NoLoadTickets, 300);
}

#[test]
fn a_stale_read_without_a_bound_is_caught() {
    is_caught_within(Mutant::StaleWithoutBound, 60);
}

#[test]
fn a_refused_row_that_counts_as_written_is_caught() {
    is_caught_within(Mutant::RefusedIsForgotten, 100);
}

#[test]
fn an_eviction_of_a_dirty_record_is_caught() {
    is_caught_within(Mutant::EvictDirty, 100);
}

#[test]
fn a_flush_answered_before_sql_is_caught() {
    is_caught_within(Mutant::AckBeforeSql, 100);
}

/// reliability I49.
#[test]
fn an_unknown_outcome_that_counts_as_written_is_caught() {
    is_caught_within(Mutant::UnknownCountsAsWritten, 100);
}

#[test]
fn a_conflict_that_counts_as_written_is_caught() {
    is_caught_within(Mutant::ConflictIsWritten, 400);
}

/// reliability I56.
#[test]
fn a_change_answered_before_sql_has_it_is_caught() {
    is_caught_within(Mutant::ThroughBeforeWritten, 100);
}

#[test]
fn an_age_that_counts_from_the_leaders_last_word_is_caught() {
    is_caught_within(Mutant::StaleByTouch, 200);
}

#[test]
fn a_proposal_that_is_forgotten_in_a_hand_over_is_caught() {
    is_caught_within(Mutant::ForgottenProposal, 400);
}

#[test]
fn a_snapshot_installed_before_earlier_writes_is_caught() {
    is_caught_about(Some(Theme::Lagging), Mutant::InstallBeforeEarlierWrites, 400);
}

#[test]
fn a_log_reset_before_its_snapshot_has_a_name_is_caught() {
    is_caught_within(Mutant::ResetBeforeRename, 300);
}

#[test]
fn a_lane_that_keeps_it_to_itself_that_another_should_cut_is_caught() {
    is_caught_within(Mutant::QuietLane, 400);
}

/// reliability F30: whoever has lost its disk has forgotten its votes and what it acknowledged.
#[test]
fn a_lost_disk_under_the_same_number_is_caught() {
    is_caught_about(Some(Theme::Members), Mutant::SameNumberAgain, 60);
}

/// reliability I6: who has no vote does not count.
#[test]
fn a_learner_that_counts_is_caught() {
    is_caught_about(Some(Theme::Members), Mutant::CountsLearners, 60);
}

/// reliability I4: suspicion makes a replica listen to others, and does not give its vote back.
#[test]
fn a_vote_that_is_forgotten_on_suspicion_is_caught() {
    is_caught_within(Mutant::ForgetsVotes, 300);
}

/// write-back 77: until the old lease is over, nobody else takes it.
#[test]
fn a_lease_that_is_not_waited_for_is_caught() {
    is_caught_within(Mutant::LeaseNotWaitedFor, 100);
}

#[test]
fn a_purge_that_leaves_no_floor_is_caught() {
    is_caught_within(Mutant::PurgeWithoutFloor, 400);
}

#[test]
fn a_forward_of_a_forward_is_caught() {
    is_caught_within(Mutant::ForwardOfForward, 200);
}

#[test]
fn a_request_given_back_behind_those_who_came_since_is_caught() {
    is_caught_within(Mutant::GivenBackLast, 200);
}

#[test]
fn a_change_that_is_retried_in_doubt_is_caught() {
    is_caught_within(Mutant::RetryInDoubt, 200);
}

/// sharding P-7: what the disk has of a replica's term, vote and log stays as it is when the split that it was born of is applied again.
#[test]
fn a_replay_of_a_split_that_begins_the_child_anew_is_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::ForgottenInfancy, 400);
}

#[test]
fn a_replay_of_a_split_that_gives_the_childs_vote_back_is_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::InfantVotesAgain, 400);
}

#[test]
fn results_that_are_left_behind_in_a_split_are_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::DedupLeftBehind, 400);
}

#[test]
fn dirty_marks_that_are_left_behind_in_a_split_are_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::DirtyLeftBehind, 400);
}

#[test]
fn an_epoch_that_is_checked_on_arrival_only_is_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::EpochOnArrivalOnly, 400);
}

#[test]
fn a_right_half_that_is_elected_before_the_split_is_applied_is_caught() {
    is_caught_about(Some(Theme::Splits), Mutant::BornBeforeApplied, 400);
}

//! When a node is suspected, and when not.

use super::*;
use crate::limits::PULSE_MS;

const LILI: NodeId = NodeId(7);

/// Lili is linked and has pulsed up to `until_ms`, every `gap_ms`; this node has looked all the while.
fn pulsing(gap_ms: u64, until_ms: u64) -> Liveness {
    let mut liveness = Liveness::default();
    liveness.opened(LILI, 0);
    for now_ms in (10..=until_ms).step_by(10) {
        if now_ms % gap_ms == 0 {
            liveness.heard(LILI, now_ms);
        }
        assert_eq!(liveness.look(now_ms), [], "at {now_ms}");
    }
    liveness
}

/// When a node that is silent from now on is suspected.
fn suspected_at(liveness: &mut Liveness, from_ms: u64) -> u64 {
    let mut times = (from_ms..from_ms + 5_000).step_by(10);
    times.find(|now_ms| liveness.look(*now_ms) == [Change::Suspected(LILI)]).expect("a suspicion")
}

#[test]
fn silence_of_six_pulses_is_suspect() {
    let mut liveness = pulsing(PULSE_MS, 1_000);

    assert_eq!(suspected_at(&mut liveness, 1_000), 1_000 + SILENCE_MS_MIN);
    assert!(liveness.is_suspected(LILI));
    assert!(!liveness.is_heard(LILI));
}

#[test]
fn a_node_with_gaps_gets_four_of_them() {
    let mut liveness = pulsing(100, 1_000);

    assert_eq!(suspected_at(&mut liveness, 1_000), 1_400);
}

#[test]
fn gaps_of_more_than_a_minute_ago_are_forgotten() {
    let mut liveness = pulsing(100, 1_000);

    for now_ms in (1_000..70_000).step_by(50) {
        liveness.heard(LILI, now_ms);
        liveness.look(now_ms);
    }

    assert_eq!(suspected_at(&mut liveness, 70_000), 69_950 + SILENCE_MS_MIN);
}

#[test]
fn nobody_is_waited_for_longer_than_an_election_takes() {
    let mut liveness = pulsing(50, 1_000);
    suspected_at(&mut liveness, 1_000);
    (1_300..6_000).step_by(50).for_each(|now_ms| drop(liveness.look(now_ms)));

    assert_eq!(liveness.heard(LILI, 6_000), Some(Change::Cleared(LILI)));

    assert_eq!(suspected_at(&mut liveness, 6_000), 6_000 + SILENCE_MS_MAX);
}

#[test]
fn a_closed_link_and_a_refused_dial_are_suspect_together_only() {
    let mut liveness = pulsing(50, 1_000);

    assert_eq!(liveness.refused(LILI, 1_000), None, "another link stands");
    liveness.closed(LILI, 1_010);
    assert_eq!(liveness.look(1_010), []);
    assert_eq!(liveness.refused(LILI, 1_020), Some(Change::Suspected(LILI)));
    assert_eq!(liveness.refused(LILI, 1_030), None, "said once");

    assert_eq!(liveness.opened(LILI, 1_100), Some(Change::Cleared(LILI)));
    assert!(liveness.is_heard(LILI));
}

#[test]
fn the_time_between_two_links_is_no_gap() {
    let mut liveness = pulsing(50, 1_000);
    liveness.closed(LILI, 1_000);
    (1_000..1_250).step_by(50).for_each(|now_ms| drop(liveness.look(now_ms)));

    liveness.opened(LILI, 1_250);

    assert_eq!(suspected_at(&mut liveness, 1_250), 1_250 + SILENCE_MS_MIN);
}

#[test]
fn a_pause_of_this_node_is_not_held_against_the_others() {
    let mut liveness = pulsing(50, 1_000);

    assert_eq!(liveness.look(9_000), [], "nobody has looked for eight seconds");
    liveness.heard(LILI, 9_000);

    assert_eq!(suspected_at(&mut liveness, 9_000), 9_000 + SILENCE_MS_MIN, "nor does it count as a gap");
}

#[test]
fn a_node_that_was_silent_before_the_pause_has_no_more_time_than_it_had() {
    let mut liveness = pulsing(50, 1_000);
    (1_000..1_250).step_by(50).for_each(|now_ms| drop(liveness.look(now_ms)));

    assert_eq!(liveness.look(9_200), []);

    assert_eq!(suspected_at(&mut liveness, 9_200), 9_300);
}

#[test]
fn whoever_says_that_it_stops_is_believed() {
    let mut liveness = pulsing(50, 1_000);

    assert_eq!(liveness.left(LILI, 1_010), Some(Change::Suspected(LILI)));
}

#[test]
fn a_first_word_may_take_a_while() {
    let mut liveness = Liveness::default();
    liveness.watch(LILI, 0);

    assert_eq!(suspected_at(&mut liveness, 0), FIRST_WORD_MS);
    assert_eq!(liveness.heard(NodeId(8), 2_000), None, "nobody asked about that one");
}

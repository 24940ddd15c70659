//! Who is asked for what.

use super::*;
use crate::core::interval::{Cut, Interval};
use crate::core::map::{Map, Report, Trust};
use crate::core::shard::{Hold, Shard};

#[derive(Clone, Debug)]
struct Fake(Standing);

impl Rated for Fake {
    fn standing(&self, _now: Moment) -> Standing {
        self.0
    }
}

const ACTIVITY: Activity = Activity { silence_max: Duration::from_secs(30), in_flight_max: 100 };

fn well() -> Standing {
    Standing { last_good: Some(Moment::from_micros(0)), cost: 100, ..Standing::default() }
}

fn view(hosts: &[(&str, Interval, Standing)]) -> std::sync::Arc<View<Fake>> {
    let mut map = Map::default();
    let names: Vec<String> = hosts.iter().map(|(name, ..)| (*name).to_owned()).collect();
    map.set_hosts(&names, |_, slot| Fake(hosts[slot.0 as usize].2));
    for (slot, (name, interval, _)) in (0..).map(Slot).zip(hosts) {
        let shard =
            Shard { dc: String::new(), host: String::new(), incarnation: 1, epoch: 1, interval: *interval, hold: None };
        map.report(slot, name, Report { shard, sent: 1 }, Trust::NewerOnly);
    }
    map.view()
}

fn ground(view: &View<Fake>, seconds: u64) -> Ground<'_, Fake> {
    Ground { view, now: Moment::from_micros(seconds * 1_000_000), activity: ACTIVITY, roll: 0 }
}

fn named(view: &View<Fake>, split: &Split) -> Vec<(String, Vec<u32>)> {
    split.shares().map(|(member, keys)| (view.member(member).address.to_string(), keys.to_vec())).collect()
}

fn all(view: &View<Fake>, positions: &[u64], seconds: u64) -> (Vec<(String, Vec<u32>)>, Vec<u32>) {
    let keys: Vec<u32> = (0..).take(positions.len()).collect();
    let split = ground(view, seconds).to_all(&Wanted { positions, keys: &keys }, |_, _| true);
    (named(view, &split), split.unknown)
}

fn best(view: &View<Fake>, positions: &[u64]) -> Vec<(String, Vec<u32>)> {
    let keys: Vec<u32> = (0..).take(positions.len()).collect();
    named(view, &ground(view, 1).to_best(&Wanted { positions, keys: &keys }, |_, _| true))
}

#[test]
fn kit_a_18_every_host_gets_exactly_the_keys_of_its_interval() {
    let view = view(&[
        ("a", Interval::new(0, 10), well()),
        ("b", Interval::to_end(10), well()),
        ("idle", Interval::new(100, 200), well()),
        ("c", Interval::WHOLE, well()),
    ]);

    let (shares, unknown) = all(&view, &[3, 10, u64::MAX], 1);

    let expected = [("a", vec![0]), ("b", vec![1, 2]), ("c", vec![0, 1, 2])];
    assert_eq!(shares, expected.map(|(name, keys)| (name.to_owned(), keys)));
    assert!(unknown.is_empty());
}

#[test]
fn kit_a_15_data_centres_may_be_cut_differently() {
    let (three, five) = (Cut::even(3), Cut::even(5));
    let mut hosts: Vec<(String, Interval)> = (0..3).map(|n| (format!("x{n}"), three.interval(n))).collect();
    hosts.extend((0..5).map(|n| (format!("y{n}"), five.interval(n))));
    let hosts: Vec<(&str, Interval, Standing)> = hosts.iter().map(|(name, i)| (name.as_str(), *i, well())).collect();
    let view = view(&hosts);
    let positions: Vec<u64> = (0..100u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();

    let (shares, unknown) = all(&view, &positions, 1);

    assert!(unknown.is_empty());
    for (name, keys) in shares {
        let (_, interval, _) = hosts.iter().find(|(host, ..)| *host == name).unwrap();
        let expected: Vec<u32> = (0..100u32).filter(|key| interval.contains(positions[*key as usize])).collect();
        assert_eq!(keys, expected, "{name}");
    }
}

#[test]
fn kit_a_14_a_silent_host_is_asked_only_where_nobody_else_is() {
    let silent = well();
    let heard = Standing { last_good: Some(Moment::from_micros(59_000_000)), ..well() };
    let view = view(&[("silent", Interval::new(0, 20), silent), ("heard", Interval::new(10, 30), heard)]);

    let (shares, unknown) = all(&view, &[5, 15], 60);

    assert_eq!(shares, [("silent".to_owned(), vec![0]), ("heard".to_owned(), vec![1])]);
    assert!(unknown.is_empty());
    assert_eq!(all(&view, &[15], 30).0.len(), 2, "with its thirtieth second it is not silent yet");
}

#[test]
fn a_host_with_too_much_to_do_counts_as_silent() {
    let busy = Standing { in_flight: 100, ..well() };
    let view = view(&[("busy", Interval::WHOLE, busy), ("free", Interval::WHOLE, well())]);

    assert_eq!(all(&view, &[5], 1).0, [("free".to_owned(), vec![0])]);
}

#[test]
fn a_key_of_nobody_is_told() {
    let view = view(&[("a", Interval::new(0, 10), well())]);

    assert_eq!(all(&view, &[5, 10], 1).1, [1]);
}

#[test]
fn the_cheapest_host_that_is_not_busy_is_the_best() {
    let dear = Standing { cost: 1_000, ..well() };
    let busy = Standing { in_flight: 50, ..well() };
    let suspect = Standing { cost: 1, is_suspect: true, ..well() };
    let hosts =
        [("dear", Interval::WHOLE, dear), ("busy", Interval::WHOLE, busy), ("suspect", Interval::WHOLE, suspect)];

    assert_eq!(best(&view(&hosts), &[1, 2])[0].0, "dear");
    assert_eq!(best(&view(&hosts[1..]), &[1, 2])[0].0, "busy");
    assert_eq!(best(&view(&hosts[2..]), &[1, 2])[0].0, "suspect");
}

#[test]
fn chance_decides_between_equals() {
    let view = view(&[("a", Interval::WHOLE, well()), ("b", Interval::WHOLE, well())]);
    let wanted = Wanted { positions: &[7], keys: &[0] };
    let mut seen: Vec<String> = (0..16)
        .map(|roll| named(&view, &Ground { roll, ..ground(&view, 1) }.to_best(&wanted, |_, _| true))[0].0.clone())
        .collect();

    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["a", "b"]);
}

/// Two hosts of one data centre that both claim shard 3; `a` by the later claim.
fn claimed_twice(a: Standing, b: Standing) -> std::sync::Arc<View<Fake>> {
    let mut map = Map::default();
    map.set_hosts(&["a".to_owned(), "b".to_owned()], |_, slot| Fake([a, b][slot.0 as usize]));
    for (slot, name, generation) in [(Slot(0), "a", 40), (Slot(1), "b", 1)] {
        let hold = Some(Hold { shard: 3, generation });
        let (dc, host, interval) = ("vla".to_owned(), name.to_owned(), Interval::WHOLE);
        let shard = Shard { dc, host, incarnation: 1, epoch: 1, interval, hold };
        map.report(slot, name, Report { shard, sent: 1 }, Trust::NewerOnly);
    }
    map.view()
}

fn to_everybody(view: &View<Fake>, seconds: u64) -> Vec<String> {
    all(view, &[5], seconds).0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn of_two_hosts_that_claim_one_shard_the_later_claim_is_asked() {
    let view = claimed_twice(well(), Standing { cost: 1, ..well() });

    assert_eq!(to_everybody(&view, 1), ["a"]);
    assert_eq!(best(&view, &[5])[0].0, "a", "although b is cheaper");
}

#[test]
fn the_later_claim_of_a_host_that_is_gone_hides_nobody() {
    let suspect = Standing { is_suspect: true, ..well() };
    let heard = Standing { last_good: Some(Moment::from_micros(59_000_000)), ..well() };

    let (failing, silent) = (claimed_twice(suspect, well()), claimed_twice(well(), heard));

    assert!(to_everybody(&failing, 1).contains(&"b".to_owned()));
    assert_eq!(best(&failing, &[5])[0].0, "b");
    assert_eq!(to_everybody(&silent, 60), ["b"]);
}

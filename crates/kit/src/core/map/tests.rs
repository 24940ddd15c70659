//! What the map believes, and of whom.

use proptest::prelude::*;

use super::*;
use crate::core::interval::Interval;
use crate::core::shard::Hold;

fn addresses(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn map(names: &[&str]) -> Map<()> {
    let mut map = Map::default();
    map.set_hosts(&addresses(names), |_, _| ());
    map
}

fn shard(age: (u64, u64), interval: Interval) -> Shard {
    let (incarnation, epoch) = age;
    Shard { dc: "vla".into(), host: "h".into(), incarnation, epoch, interval, hold: None }
}

fn say(map: &mut Map<()>, address: &str, shard: Shard, sent: u64) -> News {
    let slot = map.by_address[address];
    map.report(slot, address, Report { shard, sent }, Trust::NewerOnly)
}

fn hosts_of(map: &mut Map<()>, key: u64) -> Vec<String> {
    let view = map.view();
    view.covering(key).iter().map(|number| view.member(*number).address.to_string()).collect()
}

#[test]
fn kit_a_5_a_greater_incarnation_or_epoch_is_newer() {
    let mut map = map(&["a"]);
    let (old, new) = (Interval::new(0, 10), Interval::new(10, 20));

    assert_eq!(say(&mut map, "a", shard((1, 7), old), 1), News::Changed);
    assert_eq!(say(&mut map, "a", shard((1, 8), new), 2), News::Changed);
    assert_eq!(say(&mut map, "a", shard((1, 7), old), 3), News::Old, "an older epoch, though asked later");
    assert_eq!(say(&mut map, "a", shard((2, 1), old), 4), News::Changed, "a restart counts from the beginning");

    assert_eq!(map.known("a").unwrap().interval, old);
}

#[test]
fn kit_a_5_of_equal_epochs_the_request_that_was_sent_later_wins() {
    let mut map = map(&["a"]);
    let (old, new) = (Interval::new(0, 10), Interval::new(10, 20));

    assert_eq!(say(&mut map, "a", shard((1, 1), new), 8), News::Changed);
    assert_eq!(say(&mut map, "a", shard((1, 1), old), 5), News::Old, "a late reply to an early ping");

    assert_eq!(map.known("a").unwrap().interval, new);
}

/// kit A-5: what was said again was said later.
#[test]
fn a_word_that_was_repeated_is_as_new_as_its_last_time() {
    let mut map = map(&["a"]);
    let (old, new) = (Interval::new(0, 10), Interval::new(10, 20));
    say(&mut map, "a", shard((1, 1), new), 1);
    assert_eq!(say(&mut map, "a", shard((1, 1), new), 9), News::Same);

    assert_eq!(say(&mut map, "a", shard((1, 1), old), 5), News::Old);

    assert_eq!(map.known("a").unwrap().interval, new);
}

/// Hosts come and go for as long as a client lives.
#[test]
fn the_places_of_hosts_that_are_gone_are_used_again() {
    let (mut map, mut slots) = (map(&["a", "b"]), BTreeSet::new());

    for number in 0..100 {
        map.set_hosts(&addresses(&["a", &format!("b{number}")]), |_, slot| {
            slots.insert(slot);
        });
    }

    assert_eq!(slots.len(), 1);
}

#[test]
fn a_host_whose_clock_went_back_is_believed_again_in_the_end() {
    let mut map = map(&["a"]);
    say(&mut map, "a", shard((9, 1), Interval::new(0, 10)), 1);
    let report = Report { shard: shard((3, 1), Interval::new(10, 20)), sent: 2 };

    assert_eq!(map.report(Slot(0), "a", report.clone(), Trust::NewerOnly), News::Old);
    assert_eq!(map.report(Slot(0), "a", report, Trust::Anything), News::Changed);
}

#[test]
fn the_same_again_changes_nothing() {
    let mut map = map(&["a"]);
    say(&mut map, "a", shard((1, 1), Interval::WHOLE), 1);
    let before = map.view();

    assert_eq!(say(&mut map, "a", shard((1, 1), Interval::WHOLE), 2), News::Same);

    assert!(Arc::ptr_eq(&before, &map.view()), "the searchable form is not made anew");
}

#[test]
fn kit_a_13_a_host_that_left_the_list_is_in_the_map_no_more() {
    let mut map = map(&["a", "b"]);
    say(&mut map, "a", shard((1, 1), Interval::WHOLE), 1);
    say(&mut map, "b", shard((1, 1), Interval::WHOLE), 2);
    assert_eq!(hosts_of(&mut map, 5), ["a", "b"]);

    map.set_hosts(&addresses(&["b", "c"]), |_, _| ());

    assert_eq!(hosts_of(&mut map, 5), ["b"]);
    let late = Report { shard: shard((1, 2), Interval::WHOLE), sent: 3 };
    assert_eq!(map.report(Slot(0), "a", late, Trust::NewerOnly), News::Old, "its place belongs to c now");
    assert_eq!(map.known("c"), None);
}

#[test]
fn a_shard_that_was_claimed_again_is_its_new_holders() {
    let mut map = map(&["a", "b"]);
    let held = |generation| Shard { hold: Some(Hold { shard: 3, generation }), ..shard((1, 1), Interval::new(0, 10)) };

    say(&mut map, "b", held(8), 1);
    say(&mut map, "a", held(7), 2);

    let outdone =
        |view: &View<()>, number| view.member(number).outdone_by.map(|by| view.member(by).address.to_string());
    let view = map.view();
    assert_eq!(
        (outdone(&view, 0), outdone(&view, 1)),
        (Some("b".to_owned()), None),
        "in whatever order the replies came"
    );
}

/// kit A-54: claims are compared within one shard of one data centre and nowhere else, and only a later one counts.
#[test]
fn a_claim_says_nothing_about_another_shard_or_another_data_centre() {
    let claim = |dc: &str, number, generation| {
        let hold = Some(Hold { shard: number, generation });
        Shard { dc: dc.into(), hold, ..self::shard((1, 1), Interval::WHOLE) }
    };
    for other in [claim("vla", 4, 9), claim("sas", 3, 9), claim("vla", 3, 2), shard((1, 1), Interval::WHOLE)] {
        let mut map = map(&["a", "b"]);
        say(&mut map, "a", claim("vla", 3, 2), 1);

        say(&mut map, "b", other.clone(), 2);

        assert!(map.view().members().iter().all(|member| member.outdone_by.is_none()), "{other:?}");
    }
}

/// Says a thing of every host, in every order, and looks whether the newest of each is what remains.
fn reports() -> impl Strategy<Value = Vec<(usize, (u64, u64), u64, u64)>> {
    let age = (0u64..3, 0u64..3);
    prop::collection::vec((0usize..3, age, 0u64..8, 1u64..8), 1..30)
}

proptest! {
    /// kit A-16: as a model, over hosts whose intervals overlap as they like.
    #[test]
    fn older_information_never_evicts_newer(reports in reports()) {
        let names = ["a", "b", "c"];
        let mut map = map(&names);
        let mut model: BTreeMap<usize, ((u64, u64), u64, Interval)> = BTreeMap::new();
        for (sent, (host, age, lo, length)) in (0u64..).zip(reports) {
            // Every other reply is late: it was asked for before the one before it.
            let sent = if sent % 2 == 0 { sent + 2 } else { sent };
            let interval = Interval::new(lo, lo + length);
            say(&mut map, names[host], shard(age, interval), sent);
            let newest = model.entry(host).or_insert((age, sent, interval));
            if (newest.0, newest.1) <= (age, sent) {
                *newest = (age, sent, interval);
            }
        }
        for key in 0..16 {
            let expected: Vec<&str> =
                model.iter().filter(|(_, (_, _, interval))| interval.contains(key)).map(|(host, _)| names[*host]).collect();
            let mut found = hosts_of(&mut map, key);
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}

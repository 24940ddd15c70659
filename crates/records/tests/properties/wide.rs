//! A record of many fields is a tree, one of few is packed. Nobody can tell which: both answer as a plain map would, and
//! a replica that packs it for a snapshot goes on as the one that did not.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use shardine_model::limits::PACKED_FIELDS_MAX;
use shardine_model::{Answer, FieldRef, Outcome as Done, Value};
use shardine_records::Lookup;

use crate::history::{Leader, Outcome, Step};
use crate::snapshots::{chunks, restore};

/// Fields set (to a value) and taken away, by number.
type Change = Vec<(u8, Option<u8>)>;

/// Numbers around the border between the two forms, so that records cross it both ways.
fn change() -> impl Strategy<Value = Change> {
    let few = vec((0..100u8, prop_oneof![2 => (0..9u8).prop_map(Some), 1 => Just(None)]), 1..6);
    let many = (0..100u8, 1..80u8, prop_oneof![Just(Some(1)), Just(None)])
        .prop_map(|(first, count, value)| (0..count).map(|step| ((first + step) % 100, value)).collect());
    prop_oneof![3 => few, 1 => many]
}

fn line(change: &Change) -> String {
    let steps: Vec<String> = change
        .iter()
        .map(|(field, value)| match value {
            Some(value) => format!("f{field}={value}"),
            None => format!("f{field}.unset"),
        })
        .collect();
    format!("upsert kv:w {} give=new", steps.join(" "))
}

proptest! {
    #[test]
    fn wide_and_packed_records_answer_as_a_map_does(changes in vec(change(), 1..25), cut in 0..25usize) {
        let mut leader = Leader::new(1);
        let mut restored = None;
        let mut model: BTreeMap<String, u8> = BTreeMap::new();

        for (place, change) in changes.iter().enumerate() {
            if place == cut {
                restored = Some((restore(9, &chunks(&mut leader.records)), leader.log.len(), leader.outcomes.len()));
            }
            leader.take(&Step::Requests(vec![line(change)], 1));
            let before = model.clone();
            for (field, value) in change {
                match value {
                    Some(value) => model.insert(format!("f{field}"), *value),
                    None => model.remove(&format!("f{field}")),
                };
            }

            let came = model.keys().filter(|name| !before.contains_key(*name)).count();
            let went = before.keys().filter(|name| !model.contains_key(*name)).count();
            let Some(Outcome::Answered(Answer::One(reply))) = leader.outcomes.last() else { panic!("one answer each") };
            let Done::Done { changed, .. } = &reply.outcome else { panic!("nothing here is refused") };
            prop_assert_eq!(*changed as usize, came + went, "{} fields before", before.len());
            prop_assert_eq!(fields(&leader), model.clone());
        }

        // The replica made from a snapshot on the way gives the same answers, field by field in the same order.
        let Some((mut records, log, outcomes)) = restored else { return Ok(()) };
        let mut retold = crate::history::Outcomes::default();
        for entry in &leader.log[log..] {
            records.apply(entry, &mut retold).unwrap();
        }
        prop_assert_eq!(&retold.0[..], &leader.outcomes[outcomes..]);
        prop_assert_eq!(records.state_hash(), leader.records.state_hash());
        prop_assert_eq!(records.bytes(), leader.records.bytes());
    }
}

#[test]
fn the_form_of_a_record_follows_from_its_fields() {
    let mut leader = Leader::new(1);
    let set = |count: usize| {
        let fields: Vec<String> = (0..count).map(|field| format!("f{field}=1")).collect();
        format!("replace kv:w {}", fields.join(" "))
    };

    for count in [PACKED_FIELDS_MAX, PACKED_FIELDS_MAX + 1, PACKED_FIELDS_MAX * 4, PACKED_FIELDS_MAX] {
        leader.take(&Step::Requests(vec![set(count)], 1));

        assert_eq!(fields(&leader).len(), count);
        assert_eq!(restore(5, &chunks(&mut leader.records)).bytes(), leader.records.bytes());
    }
}

fn fields(leader: &Leader) -> BTreeMap<String, u8> {
    let row = shardine_story::words::address(leader.records.catalogue(), "kv:w");
    let Lookup::Live(view) = leader.records.get(row.position(), row) else { return BTreeMap::new() };
    let listed = view.fields.iter().map(|entry| {
        let FieldRef::Name(name) = entry.field else { panic!("kv names its fields") };
        let value = match entry.value.to_owned() {
            Value::Blob(text) => String::from_utf8(text).unwrap().parse().unwrap(),
            other => panic!("kv holds blobs, not {other:?}"),
        };
        assert_eq!(view.fields.get(entry.field), Some(entry.value), "listed and looked up are the same");
        (String::from_utf8(name.to_vec()).unwrap(), value)
    });
    let all: Vec<(String, u8)> = listed.collect();
    assert_eq!(view.fields.count(), all.len());
    all.into_iter().collect()
}

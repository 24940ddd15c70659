//! Replicas agree: whatever the seed of their tables, however requests were grouped, and whether they followed the log
//! from its beginning or began with a snapshot (records 69-72).

use proptest::prelude::*;
use shardine_model::entry::{LoadedRow, open_commands};
use shardine_model::{Entry, RequestEpoch, Timestamp, Version};
use shardine_records::{CutStep, Records};

use crate::history::{Leader, Outcomes, replay, requests, steps, tables};
use crate::snapshots::{chunks, rest_of_cut, restore, sum, sum_of};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// records 69: nothing in apply depends on the order of a hash table.
    /// reliability I11, I16.
    #[test]
    fn w12_the_same_log_makes_the_same_state(steps in steps(), seed in any::<u64>()) {
        let mut leader = Leader::follow(&steps);

        let mut follower = replay(seed, &leader.log);

        prop_assert_eq!(sum(&mut follower), sum(&mut leader.records));

        prop_assert_eq!(follower.state_hash(), leader.records.state_hash());
        prop_assert_eq!(derived(&follower), derived(&leader.records));
    }

    /// records 70: a snapshot and the log behind it are as good as the whole log, to the last answer.
    #[test]
    fn records_70_a_snapshot_replaces_the_log_before_it(steps in steps(), at in any::<prop::sample::Index>()) {
        let mut leader = Leader::follow(&steps);
        let at = at.index(leader.log.len());
        let mut before = replay(1, &leader.log[..at]);

        let mut restored = restore(2, &chunks(&mut before));

        prop_assert_eq!(restored.state_hash(), before.state_hash());
        prop_assert_eq!(sum(&mut restored), sum(&mut before));
        for entry in &leader.log[at..] {
            let (mut told, mut retold) = (Outcomes::default(), Outcomes::default());
            before.apply(entry, &mut told).unwrap();
            restored.apply(entry, &mut retold).unwrap();
            prop_assert_eq!(told.0, retold.0);
        }
        prop_assert_eq!(restored.state_hash(), leader.records.state_hash());
        prop_assert_eq!(sum(&mut restored), sum(&mut leader.records));
        prop_assert_eq!(derived(&restored), derived(&leader.records));
    }

    /// reliability I33: sums are equal where states are, and nowhere else.
    #[test]
    fn sums_tell_states_apart(steps in steps()) {
        let leader = Leader::follow(&steps);
        let mut records = replay(1, &[]);
        let (mut hash, mut found) = (records.state_hash(), sum(&mut records));
        for entry in &leader.log {
            records.apply(entry, &mut Outcomes::default()).unwrap();
            let (next_hash, next_found) = (records.state_hash(), sum(&mut records));
            prop_assert_eq!(next_hash == hash, next_found == found);
            (hash, found) = (next_hash, next_found);
        }
    }

    /// records 72: a cut that is written out while entries are applied is the state at its beginning.
    #[test]
    fn records_72_a_cut_is_one_moment(
        steps in steps(),
        at in any::<prop::sample::Index>(),
        pace in 0..4usize,
        many in 0..3_000usize,
    ) {
        let leader = Leader::follow(&steps);
        let at = at.index(leader.log.len());
        let mut records = replay(1, &leader.log[..at]);
        fill(&mut records, many);
        let (expected, summed) = (records.state_hash(), sum(&mut records));

        records.begin_cut();
        let mut written = Vec::new();
        for entry in &leader.log[at..] {
            records.apply(entry, &mut Outcomes::default()).unwrap();
            fill(&mut records, many / 8);
            for _ in 0..pace {
                if records.is_cutting() && let CutStep::Chunk(chunk) = records.cut_step() {
                    written.push(chunk);
                }
            }
        }
        if records.is_cutting() {
            written.extend(rest_of_cut(&mut records));
        }

        prop_assert_eq!(restore(2, &written).state_hash(), expected);
        prop_assert_eq!(sum_of(&written), summed);
    }

    /// records 54, 56: how requests are grouped into entries changes neither the state nor any answer.
    #[test]
    fn records_54_56_groups_change_nothing(requests in requests(), cuts in proptest::collection::vec(0..5usize, 30)) {
        let leader = Leader::new(3);
        let (mut one_by_one, mut grouped) = (empty(3), empty(4));
        let (mut answers, mut grouped_answers) = (Outcomes::default(), Outcomes::default());

        for line in &requests {
            one_by_one.apply(&leader.entry(std::slice::from_ref(line)), &mut answers).unwrap();
        }
        let mut rest = &requests[..];
        for size in cuts {
            let (group, behind) = rest.split_at(size.min(rest.len()));
            grouped.apply(&leader.entry(group), &mut grouped_answers).unwrap();
            rest = behind;
        }
        grouped.apply(&leader.entry(rest), &mut grouped_answers).unwrap();

        prop_assert_eq!(answers.0, grouped_answers.0);
        prop_assert_eq!(one_by_one.state_hash(), grouped.state_hash());
    }

    /// records 2, 3, 4, 6: a version names one content, and the next one is always above it, whatever happens:
    /// deletes, kicks, loads, expiries, purged tombstones, an emptied table.
    #[test]
    fn records_6_a_version_names_one_content(steps in steps()) {
        let mut leader = Leader::new(1);
        let mut seen: std::collections::BTreeMap<(shardine_model::RowKeyBuf, u64), (i64, Vec<u8>)> = Default::default();

        for step in &steps {
            leader.take(step);

            let mut now = Vec::new();
            leader.records.scan(&everything(), |_, row, view| {
                let mut packed = Vec::new();
                view.fields.pack(&mut packed);
                now.push(((row.to_owned(), view.version.magnitude()), (view.version.0, packed)));
            });
            for (name, content) in now {
                let first = seen.entry(name.clone()).or_insert_with(|| content.clone());
                prop_assert_eq!(&*first, &content, "{:?} had another content before", name);
            }
        }
    }
}

/// records 60: what SQL says of a deleted or missing row beside its version is no part of the state.
#[test]
fn records_60_an_absent_row_is_loaded_without_fields() {
    let loaded = |fields: &[u8], version: i64| {
        let mut records = empty(1);
        let row = shardine_story::words::address(records.catalogue(), "notes:a");
        let entry = Entry::Load(vec![LoadedRow { row, version: Version(version), fields }]);
        records.apply(&entry.to_bytes(), &mut Outcomes::default()).unwrap();
        (records.state_hash(), records.bytes())
    };
    let field = [1, 1, 20];

    assert_eq!(loaded(&field, -4), loaded(&[], -4));
    assert_eq!(loaded(&field, 0), loaded(&[], 0));
    assert_ne!(loaded(&field, 4), loaded(&[], 4));
}

fn everything() -> shardine_records::Scan<'static> {
    let from = shardine_records::ScanFrom::Position(shardine_model::Position(0));
    shardine_records::Scan { table: None, from, limit: usize::MAX, whole_positions: false }
}

/// What is kept beside the records, as far as it shows.
fn derived(records: &Records) -> (u64, shardine_records::Dirty, u64, usize, Option<Timestamp>) {
    let dirty = records.dirty_versions(None).len();
    (records.live_count(None), records.dirty(None), records.bytes(), dirty, records.next_expiry())
}

fn empty(seed: u64) -> Records {
    let mut records = Records::new(seed);
    for table in tables() {
        let entry = Entry::definition(table).to_bytes();
        records.apply(&entry, &mut Outcomes::default()).unwrap();
    }
    records
}

/// Adds many records, so that the index splits while it is being cut.
fn fill(records: &mut Records, many: usize) {
    let first = records.live_count(None);
    let mut entry = Vec::new();
    open_commands(&mut entry, records.clock(), RequestEpoch::FIRST);
    for number in first..first + many as u64 {
        let line = format!("set kv:fill{number} n=1");
        shardine_story::words::request(records.catalogue(), &line).unwrap().encode(&mut entry);
    }
    records.apply(&entry, &mut Outcomes::default()).unwrap();
}

//! A shard is parted at the cost of segments, not of rows, and its halves have together what the whole had.

use shardine_model::entry::{LoadedRow, RefusedRow, open_commands};
use shardine_model::{Bound, Entry, Position, RequestEpoch, RowImage, RowKey, TableId, Timestamp, Version};
use shardine_records::{Nobody, Records};
use shardine_story::words;

/// As many rows as a segment has at most; whoever parts a shard looks at those of one.
const SEGMENT_ROWS_MAX: usize = 896;
const ROWS: usize = 40_000;
const USERS: TableId = TableId(2);

/// Rows with an end, dirty rows, tombstones, absences and dead letters, each every few.
fn shard() -> Records {
    let mut records = Records::new(7);
    let table = words::table(records.catalogue(), &["users", "age:int64", "sql"]);
    records.apply(&Entry::definition(table).to_bytes(), &mut Nobody).expect("a definition");
    let keys: Vec<String> = (0..ROWS / 2).map(|number| number.to_string()).collect();
    let row = |key: &'static str| RowKey { table: USERS, key: key.as_bytes(), sort: b"" };
    let keys: Vec<&'static str> = keys.into_iter().map(|key| &*key.leak()).collect();
    let image = RowImage::default();
    let version = |place: usize| if place.is_multiple_of(3) { Version(0) } else { Version(2) };
    let load = |(place, key): (usize, &&'static str)| LoadedRow {
        row: row(key),
        version: version(place),
        fields: &image.packed,
    };
    let loads = Entry::Load(keys.iter().enumerate().map(load).collect()).to_bytes();
    records.apply(&loads, &mut Nobody).expect("a load");
    for (place, key) in keys.iter().enumerate() {
        let mut lines = vec![format!("set kv:{key} f=1 lives={}", 1_000 + place % 97)];
        if place.is_multiple_of(5) {
            lines.push(format!("set users:{key} age={place}"));
        }
        if place.is_multiple_of(7) {
            lines.push(format!("delete kv:{key}"));
        }
        let mut entry = Vec::new();
        open_commands(&mut entry, Timestamp(1_000 + place as u64), RequestEpoch::FIRST);
        for line in lines {
            words::request(records.catalogue(), &line).expect("a request").encode(&mut entry);
        }
        records.apply(&entry, &mut Nobody).expect("commands");
    }
    let dirty = records.dirty_versions(None);
    let refused = dirty.iter().step_by(10).map(|dirty| {
        let row = dirty.row.as_ref();
        RefusedRow { row, version: dirty.version, error: "no" }
    });
    let entry = Entry::Refused { at: Timestamp(30_000), rows: refused.collect() }.to_bytes();
    records.apply(&entry, &mut Nobody).expect("refusals");
    records
}

/// Everything that is derived from rows, in numbers.
fn numbers(records: &Records) -> [u64; 8] {
    let (all, before) = (Timestamp(u64::MAX), Timestamp(u64::MAX));
    [
        records.rows_hash(),
        records.bytes(),
        records.live_count(None),
        records.dirty(None).rows,
        records.dirty(None).bytes,
        records.due_expiries(all).count() as u64,
        records.due_purges(before).count() as u64,
        records.dead_letter_count() as u64,
    ]
}

#[test]
fn halves_have_what_the_whole_had_and_few_rows_are_looked_at() {
    let mut left = shard();
    let whole = numbers(&left);
    assert!(whole[1..].iter().all(|number| *number > 100), "the shard has some of everything: {whole:?}");

    let split = left.split_off(&Bound::at(Position(0x6123_4567_89ab_cdef)));

    assert!(split.rows_touched <= SEGMENT_ROWS_MAX, "{} rows were looked at", split.rows_touched);
    let (left_numbers, right_numbers) = (numbers(&left), numbers(&split.right));
    for (place, whole) in whole.into_iter().enumerate() {
        assert_eq!(left_numbers[place].wrapping_add(right_numbers[place]), whole, "number {place}");
    }
    let share = right_numbers[2] * 100 / whole[2];
    assert!((50..75).contains(&share), "{share} % lie behind the bound");
    assert_eq!(left.bounds().hi, Some(Bound::at(Position(0x6123_4567_89ab_cdef))));
    assert_eq!(split.right.bounds().lo, Bound::at(Position(0x6123_4567_89ab_cdef)));
}

/// write-back 84: in portions as all at once, also where segments are parted and joined between two of them.
#[test]
fn dirty_rows_are_found_in_portions() {
    let mut records = shard();
    let all: Vec<_> = records.dirty_versions(None).into_iter().map(|dirty| dirty.row).collect();

    let (mut found, mut from, mut portions) = (Vec::new(), Some(Bound::default()), 0);
    while let Some(place) = from {
        let mut rows = Vec::new();
        from = records.dirty_from(&place, 100, &mut rows);
        assert!(rows.len() >= 100 || from.is_none(), "a portion is full: {}", rows.len());
        assert!(rows.len() < 100 + SEGMENT_ROWS_MAX, "and no more than full: {}", rows.len());
        found.extend(rows.into_iter().map(|dirty| dirty.row));
        portions += 1;
        let mut entry = Vec::new();
        open_commands(&mut entry, Timestamp(9_000), RequestEpoch::FIRST);
        for number in 0..500 {
            let line = format!("set kv:more{portions}-{number} f=1");
            words::request(records.catalogue(), &line).expect("a request").encode(&mut entry);
        }
        records.apply(&entry, &mut Nobody).expect("commands");
    }

    assert!(portions > 20, "{portions}");
    found.dedup();
    assert_eq!(found, all);
}

/// What a new leader looks at for its queue: segments that have dirty rows, and no others.
#[test]
fn segments_without_dirty_rows_are_not_looked_at() {
    let mut records = shard();
    let rows = records.dirty_versions(None);
    let (kept, written) = rows.split_at(3);
    let written = written.iter().map(|dirty| (dirty.row.as_ref(), dirty.version)).collect();
    records.apply(&Entry::Written(written).to_bytes(), &mut Nobody).expect("confirmations");

    let dirty: Vec<_> = records.dirty_versions(None).into_iter().map(|dirty| dirty.row).collect();

    let expected: Vec<_> = kept.iter().map(|dirty| dirty.row.clone()).collect();
    assert_eq!(dirty, expected);
    let segments = (0..records.segment_count()).filter(|segment| records.has_dirty_in(*segment, None)).count();
    assert!(segments <= 3 && records.segment_count() > 30, "{segments} of {}", records.segment_count());
}

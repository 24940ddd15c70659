//! Golden bytes of snapshot chunks. They are frozen: snapshots out there hold them. The rows of a chunk stand in no
//! particular order, so each of these holds one key.

#[path = "support/snapshots.rs"]
mod snapshots;
#[path = "support/words.rs"]
mod words;

use shardine_model::entry::{LoadedRow, RefusedRow, open_commands};
use shardine_model::{Entry, ReplicaId, RowImage, RowKey, Table, TableId, Timestamp, Version, limits};
use shardine_records::{Nobody, Records, Restore};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

fn define(records: &mut Records, definition: &str) {
    let table: Table = words::table(records.catalogue(), &definition.split_whitespace().collect::<Vec<_>>());
    records.apply(&Entry::Schema(Box::new(table)).to_bytes(), &mut Nobody).expect("a definition");
}

fn ask(records: &mut Records, line: &str) {
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(300));
    words::request(records.catalogue(), line).expect("a request").encode(&mut entry);
    records.apply(&entry, &mut Nobody).expect("a request");
}

/// Cuts, compares, and reads back.
fn assert_chunk(mut records: Records, golden: &[&str]) {
    let chunks = snapshots::chunks(&mut records);
    assert_eq!(chunks.len(), 1, "a small shard has one chunk");
    assert_eq!(hex(&chunks[0]), golden.concat());
    let restored = snapshots::restore(9, &chunks);
    assert_eq!(restored.state_hash(), records.state_hash());
}

#[test]
fn golden_bytes_of_an_empty_shard() {
    assert_chunk(
        Records::new(1),
        &["010100000800000000000000000000010201026b7601020100000000e807008088b2a0020000", "0102"],
    );
}

/// records 67: the flag is part of the state, and of the snapshot.
#[test]
fn golden_bytes_of_a_suspended_shard() {
    let mut records = Records::new(1);
    let serving = records.state_hash();
    records.apply(&Entry::Suspend.to_bytes(), &mut Nobody).expect("a suspension");
    assert_ne!(records.state_hash(), serving);

    assert_chunk(records, &["010100000800000000000000000000010201026b7601020100000000e807008088b2a002000001", "0102"]);
}

/// A record with an expiry, a kept result, the clock.
#[test]
fn golden_bytes_of_a_dynamic_record() {
    let mut records = Records::new(1);
    ask(&mut records, "set kv:a f=x expires=5000 as=7/1");

    assert_chunk(
        records,
        &[
            "0101ac02000800000000000000000000010201026b7601020100000000e807008088b2a00200010107000101080102000001028827",
            "0102010161000200882706000166050178",
        ],
    );
}

/// A dirty row, the lease.
#[test]
fn golden_bytes_of_a_row_with_sql() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64=18 name:string=anon sql");
    let row = words::address(records.catalogue(), "users:lili");
    let image = RowImage::default();
    let loaded = LoadedRow { row, version: Version(-3), fields: &image.packed };
    records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
    ask(&mut records, "set users:lili age=10");
    let lease = Entry::Lease { holder: ReplicaId(2), term: 5, length_ms: 10_000 };
    records.apply(&lease.to_bytes(), &mut Nobody).expect("a lease");

    assert_chunk(
        records,
        &[
            "0101ac02010205904e0800000000000000000000020201026b7601020100000000e807008088b2a002000202057573657273010103020103616765012402046e616d650404616e6f6e000000e807008088b2a0020000",
            "010202046c696c690008050003010114",
        ],
    );
}

/// write-back 113: dead letters are part of the state, and end the head of a snapshot.
#[test]
fn golden_bytes_of_a_dead_letter() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64 sql");
    let row = words::address(records.catalogue(), "users:lili");
    let loaded = LoadedRow { row, version: Version(0), fields: &[] };
    records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
    ask(&mut records, "set users:lili age=10");
    let before = records.state_hash();
    let refused = RefusedRow { row, version: Version(1), error: "no" };
    records
        .apply(&Entry::Refused { at: Timestamp(400), rows: vec![refused] }.to_bytes(), &mut Nobody)
        .expect("a refusal");
    assert_ne!(records.state_hash(), before);

    assert_chunk(
        records,
        &[
            "01019003000800000000000000000000020201026b7601020100000000e807008088b2a0020002020575736572730101020101036167650100000000e807008088b2a0020000020102046c696c690002026e6f0190039003",
            "010202046c696c690002000003010114",
        ],
    );
}

/// write-back 113: the list ends at its limit, and an error at its length.
#[test]
fn write_back_113_dead_letters_are_bounded() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64 sql");
    let long = "ä".repeat(limits::DEAD_LETTER_ERROR_BYTES_MAX);
    for number in 0..limits::DEAD_LETTERS_MAX + 5 {
        let key = format!("u{number}");
        let row = RowKey { table: TableId(2), key: key.as_bytes(), sort: b"" };
        let loaded = LoadedRow { row, version: Version(0), fields: &[] };
        records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
        ask(&mut records, &format!("set users:{key} age=1"));
        let rows = vec![RefusedRow { row, version: Version(1), error: &long }];
        records.apply(&Entry::Refused { at: Timestamp(400), rows }.to_bytes(), &mut Nobody).expect("a refusal");
    }

    assert_eq!(records.dead_letter_count(), limits::DEAD_LETTERS_MAX);
    assert!(records.dead_letters().all(|(_, letter)| letter.error.len() <= limits::DEAD_LETTER_ERROR_BYTES_MAX));
}

/// Rows of a partition, a tombstone among them, and a floor.
#[test]
fn golden_bytes_of_sorted_rows() {
    let mut records = Records::new(1);
    define(&mut records, "chat text:string sort=at:int64");
    ask(&mut records, "set chat:room@1 text=a");
    ask(&mut records, "set chat:room@2 text=b");
    ask(&mut records, "delete chat:room@2");
    ask(&mut records, "set chat:room@3 text=c");
    ask(&mut records, "delete chat:room@3");
    let row = words::address(records.catalogue(), "chat:room@3");
    records.apply(&Entry::Purge(vec![(row, Version(-2))]).to_bytes(), &mut Nobody).expect("a purge");

    assert_chunk(
        records,
        &[
            "0101ac020008000000000000000000010202020201026b7601020100000000e807008088b2a002000202046368617401000201010474657874040001026174010000e807008088b2a0020000",
            "01020204726f6f6d08800000000000000102000004010401610204726f6f6d08800000000000000203000000",
        ],
    );
}

/// What is unknown is refused by name, never guessed (records 73).
#[test]
fn records_73_unknown_sections_are_refused() {
    let refused = |item: &[u8]| {
        let mut restore = Restore::new(Records::new(1));
        let range = "0301000111000000010101000800000000000000000000000000";
        restore.push(&bytes(range)).expect("the first section");
        restore.push(&[&[3, 1, 1], item].concat()).unwrap_err().to_string()
    };

    assert_eq!(
        refused(&[99, 1, 0, 0, 0, 1]),
        "the snapshot has section 99 in version 1, which is not known here: upgrade this node"
    );
    assert_eq!(
        refused(&[2, 2, 0, 0, 0, 2, 0]),
        "the snapshot has section 2 in version 2, which is not known here: upgrade this node"
    );
}

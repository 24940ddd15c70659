//! Golden bytes of snapshot chunks. They are frozen: snapshots out there hold them. The rows of a chunk stand in no
//! particular order, so each of these holds one key.

#[path = "support/words.rs"]
mod words;

use shardine_model::entry::{LoadedRow, open_commands};
use shardine_model::{Entry, NodeId, RowImage, Table, Timestamp, Version};
use shardine_records::{CutStep, Nobody, Records};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
fn assert_chunks(mut records: Records, golden: &[&str]) {
    records.begin_cut();
    let mut chunks = Vec::new();
    while let CutStep::Chunk(chunk) = records.cut_step() {
        chunks.push(chunk);
    }
    assert_eq!(chunks.len(), golden.len(), "the head, and the rows");
    for (chunk, golden) in chunks.iter().zip(golden) {
        assert_eq!(hex(chunk), *golden);
    }
    let mut restored = Records::new(9);
    chunks.iter().for_each(|chunk| restored.restore_chunk(chunk).expect("golden bytes are readable"));
    assert_eq!(restored.state_hash(), records.state_hash());
}

#[test]
fn golden_bytes_of_an_empty_shard() {
    assert_chunks(Records::new(1), &["010100000800000000000000000000010101026b76010201000000", "0102"]);
}

/// A record with an expiry, a kept result, the clock.
#[test]
fn golden_bytes_of_a_dynamic_record() {
    let mut records = Records::new(1);
    ask(&mut records, "set kv:a f=x expires=5000 as=7/1");

    assert_chunks(
        records,
        &[
            "0101ac02000800000000000000000000010101026b76010201000001010700010106010200000100",
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
    let lease = Entry::Lease { holder: NodeId(2), term: 5, length_ms: 10_000 };
    records.apply(&lease.to_bytes(), &mut Nobody).expect("a lease");

    assert_chunks(
        records,
        &[
            "0101ac02010205904e0800000000000000000000020101026b7601020100000102057573657273010103020103616765012402046e616d650404616e6f6e0000",
            "010202046c696c690008050003010114",
        ],
    );
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

    assert_chunks(
        records,
        &[
            "0101ac020008000000000000000000010202020101026b76010201000001020463686174010002010104746578740400010261740100",
            "01020204726f6f6d08800000000000000102000004010401610204726f6f6d08800000000000000203000000",
        ],
    );
}

/// What is unknown is refused by name, never guessed (record-cache 73).
#[test]
fn record_cache_73_unknown_chunks_are_refused() {
    let refused = |chunk: &[u8]| Records::new(1).restore_chunk(chunk).unwrap_err().to_string();

    assert_eq!(refused(&[2, 1]), "chunk format holds 2, which has no meaning");
    assert_eq!(refused(&[1, 3]), "chunk kind holds 3, which has no meaning");
    assert_eq!(refused(&[1, 2, 1]), "bytes end inside key");
}

//! Snapshots on disk: whole or not there, checked in every byte, and frozen in their form.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::fs;
use std::path::Path;

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_store::snapshot::{CHUNK_BYTES_MAX, decode_all, remove_unfinished};
use shardine_store::{Error, SnapshotReader, SnapshotWriter};

const SHARD: ShardId = ShardId(3);

fn meta(index: u64) -> SnapshotMeta {
    let membership = Membership { learners: vec![ReplicaId(9)], ..Membership::of([1, 2].map(ReplicaId)) };
    SnapshotMeta { index, term: 2, membership, conf_index: 0 }
}

fn write(dir: &Path, index: u64, chunks: &[&[u8]]) -> std::path::PathBuf {
    let mut writer = SnapshotWriter::create(dir, SHARD, &meta(index)).unwrap();
    for chunk in chunks {
        writer.push(chunk).unwrap();
    }
    writer.finish().unwrap()
}

fn read(dir: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = SnapshotReader::newest(dir, SHARD)?.unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

#[test]
fn a_snapshot_has_these_bytes_for_ever() {
    let dir = tempfile::tempdir().unwrap();

    let path = write(dir.path(), 5, &[b"lili", b""]);

    let hex: String = fs::read(path).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "7368617264736e70",                         // magic
            "0100000003000000",                         // version, shard 3
            "0500000000000000",                         // index 5
            "0200000000000000",                         // term 2
            "0200000001000000000000000200000000000000", // two voters
            "010000000900000000000000",                 // one learner
            "74abfc93",                                 // crc
            "040000005f9a94ea6c696c69",                 // chunk: 4 bytes, crc, lili
            "0000000000000000",                         // chunk: nothing
            "ffffffff",                                 // the end
            "02000000000000000400000000000000",         // two chunks, four bytes
            "dd93e6f4",                                 // crc
        )
    );
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let big = vec![7; 9 << 20];

    let path = write(dir.path(), 5, &[b"lili", b"", &big]);

    let reader = SnapshotReader::newest(dir.path(), SHARD).unwrap().unwrap();
    assert_eq!(*reader.meta(), meta(5));
    assert_eq!(reader.path(), path);
    assert_eq!(reader.bytes(), fs::metadata(&path).unwrap().len());
    let chunks = read(dir.path()).unwrap();
    assert_eq!(chunks, [b"lili".to_vec(), Vec::new(), big]);
    assert_eq!(decode_all(&fs::read(path).unwrap()).unwrap(), (meta(5), chunks));
}

#[test]
fn a_shard_without_a_snapshot_has_none() {
    let dir = tempfile::tempdir().unwrap();

    assert!(SnapshotReader::newest(dir.path(), SHARD).unwrap().is_none());
}

#[test]
fn the_newest_replaces_the_older_ones() {
    let dir = tempfile::tempdir().unwrap();
    let older = write(dir.path(), 99, &[b"old"]);

    write(dir.path(), 100, &[b"new"]);

    assert_eq!(read(dir.path()).unwrap(), [b"new"]);
    assert!(!older.exists());
}

#[test]
fn an_unfinished_snapshot_does_not_count_and_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let older = write(dir.path(), 5, &[b"old"]);
    let mut writer = SnapshotWriter::create(dir.path(), SHARD, &meta(6)).unwrap();
    writer.push(b"new").unwrap();
    let shard_dir = older.parent().unwrap();
    let crashed = shard_dir.join("00000000000000000007.unfinished");
    fs::copy(shard_dir.join("00000000000000000006.unfinished"), &crashed).unwrap();

    drop(writer);
    let chunks = read(dir.path()).unwrap();
    remove_unfinished(dir.path()).unwrap();

    assert_eq!(chunks, [b"old"]);
    assert!(!crashed.exists());
    assert_eq!(fs::read_dir(shard_dir).unwrap().count(), 1);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 5, &[b"lili", b"", b"users"]);
    let good = fs::read(path).unwrap();

    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);

        assert!(decode_all(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed_and_so_is_an_addition() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 5, &[b"lili", b"", b"users"]);
    let good = fs::read(path).unwrap();

    for len in 0..good.len() {
        assert!(decode_all(&good[..len]).is_err(), "cut at {len}");
    }
    assert!(decode_all(&[good, vec![0]].concat()).is_err());
}

#[test]
fn damage_names_the_file_and_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 5, &[b"lili"]);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(4).position(|window| window == b"lili").unwrap();
    bytes[at] = b'L';
    fs::write(&path, bytes).unwrap();

    let text = read(dir.path()).unwrap_err().to_string();

    assert!(text.contains("00000000000000000005.snap"), "{text}");
    assert!(text.contains("chunk 1 does not match its checksum"), "{text}");
    assert!(text.contains("put the file back from a copy"), "{text}");
}

#[test]
fn a_snapshot_under_a_foreign_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 5, &[b"lili"]);
    fs::rename(&path, path.with_file_name("00000000000000000006.snap")).unwrap();

    assert!(matches!(read(dir.path()), Err(Error::SnapshotDamaged { .. })));
}

#[test]
fn a_claimed_length_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 5, &[b"lili"]);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(4).position(|window| window == b"lili").unwrap() - 8;
    bytes[at..at + 4].copy_from_slice(&(CHUNK_BYTES_MAX as u32 + 1).to_le_bytes());

    let text = decode_all(&bytes).unwrap_err().to_string();

    assert!(text.contains("chunk 1 claims"), "{text}");
    let mut writer = SnapshotWriter::create(dir.path(), SHARD, &meta(6)).unwrap();
    let error = writer.push(&vec![0; CHUNK_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, Error::ChunkTooLarge { .. }), "{error}");
}

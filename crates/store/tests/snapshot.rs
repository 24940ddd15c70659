//! Snapshots on disk: whole or not there, checked in every byte, and frozen in their form.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use common::node::{REPLICA, SHARD, identity, meta};
use common::{Ground, on_both};
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_store::snapshot::{CHUNK_BYTES_MAX, Header, Origin, decode_all};
use shardine_store::{DataDir, Error, Identity, MemoryDisk, Options, Storage};

/// The bytes of a snapshot with these chunks.
fn bytes_of(chunks: &[&[u8]]) -> Vec<u8> {
    let ground = Ground::Memory(MemoryDisk::new(1));
    let path = ground.start().cut(&meta(5), chunks);
    ground.read(&path)
}

fn chunks_of(storage: &Storage) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = storage.snapshot(SHARD)?.unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

#[test]
fn a_snapshot_has_these_bytes_for_ever() {
    let ground = Ground::Memory(MemoryDisk::new(1));
    let leaving = Membership {
        voters: [7].map(ReplicaId).to_vec(),
        learners: [300].map(ReplicaId).to_vec(),
        outgoing: [7, 8, 9].map(ReplicaId).to_vec(),
        learners_next: [9].map(ReplicaId).to_vec(),
        auto_leave: true,
    };
    let meta = SnapshotMeta { index: 5, term: 2, membership: leaving, conf_index: 4 };
    let node = ground.start();
    let mut writer = node.storage.cut_snapshot(ShardId((1 << 30) + 3), ReplicaId(7), &meta).unwrap();
    [&b"lili"[..], b""].iter().for_each(|chunk| writer.push(chunk).unwrap());

    let path = writer.finish().unwrap();

    let hex: String = ground.read(&path).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "7368617264736e70",                 // magic
            "0200000046000000",                 // version, length of the rest
            "c1000000000000000000000000000000", // cluster
            "030000400201",                     // the third group of coordination, coordination, cut here
            "0700000000000000",                 // replica 7
            "0500000000000000",                 // index 5
            "0200000000000000",                 // term 2
            "0400000000000000",                 // conf index 4
            "010701ac020307080901",             // voter 7, learner 300, outgoing 7 8 9
            "0901",                             // learner next 9, leaves by itself
            "03ccc4ff",                         // crc
            "040000005f9a94ea6c696c69",         // chunk: 4 bytes, crc, lili
            "0000000000000000",                 // chunk: nothing
            "ffffffff",                         // the end
            "02000000000000000400000000000000", // two chunks, four bytes
            "99d79b0e",                         // crc
        )
    );
}

#[test]
fn what_is_written_is_read_back() {
    on_both(|ground| {
        let node = ground.start();
        let big = vec![7; 900 << 10];

        let path = node.cut(&meta(5), &[b"lili", b"", &big]);

        let reader = node.storage.snapshot(SHARD).unwrap().unwrap();
        assert_eq!((reader.meta(), reader.replica()), (&meta(5), REPLICA));
        assert_eq!(reader.path(), path);
        assert_eq!(reader.bytes(), ground.read(&path).len() as u64);
        let chunks = chunks_of(&node.storage).unwrap();
        assert_eq!(chunks, [b"lili".to_vec(), Vec::new(), big]);
        let header =
            Header { cluster: identity().cluster, shard: SHARD, replica: REPLICA, origin: Origin::Cut, meta: meta(5) };
        assert_eq!(decode_all(&ground.read(&path)).unwrap(), (header, chunks));
    });
}

#[test]
fn a_shard_without_a_snapshot_has_none() {
    on_both(|ground| assert!(ground.start().storage.snapshot(SHARD).unwrap().is_none()));
}

#[test]
fn the_newest_replaces_the_older_ones() {
    on_both(|ground| {
        let node = ground.start();
        node.cut(&meta(99), &[b"old"]);

        let newest = node.cut(&meta(100), &[b"new"]);

        assert_eq!(chunks_of(&node.storage).unwrap(), [b"new"]);
        assert_eq!(ground.files("snap"), [newest]);
    });
}

#[test]
fn one_that_is_overtaken_is_not_kept() {
    on_both(|ground| {
        let node = ground.start();
        let mut slow = node.storage.cut_snapshot(SHARD, REPLICA, &meta(50)).unwrap();
        slow.push(b"old").unwrap();
        let newest = node.cut(&meta(60), &[b"new"]);

        slow.finish().unwrap();

        assert_eq!(ground.files("snap"), [newest]);
    });
}

#[test]
fn whoever_reads_one_reads_it_to_the_end() {
    on_both(|ground| {
        let node = ground.start();
        node.cut(&meta(50), &[b"old"]);
        let mut reader = node.storage.snapshot(SHARD).unwrap().unwrap();

        node.cut(&meta(60), &[b"new"]);

        assert_eq!(reader.next_chunk().unwrap(), Some(b"old".to_vec()));
        assert_eq!(reader.next_chunk().unwrap(), None);
    });
}

/// reliability I32.
#[test]
fn an_unfinished_snapshot_does_not_count_and_is_removed_at_the_start() {
    on_both(|ground| {
        let node = ground.start();
        let older = node.cut(&meta(5), &[b"old"]);
        let mut writer = node.storage.cut_snapshot(SHARD, REPLICA, &meta(6)).unwrap();
        writer.push(b"new").unwrap();
        let crashed = ground.crash();

        drop(writer);
        assert_eq!(chunks_of(&node.storage).unwrap(), [b"old"]);
        assert!(ground.files("unfinished").is_empty(), "who gives up cleans up");

        assert_eq!(crashed.files("unfinished").len(), 1);
        let again = crashed.start();
        assert!(crashed.files("unfinished").is_empty());
        assert_eq!(again.storage.snapshot(SHARD).unwrap().unwrap().path().file_name(), older.file_name());
    });
}

/// reliability I29.
#[test]
fn every_flipped_bit_is_noticed() {
    let good = bytes_of(&[b"lili", b"", b"users"]);

    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);

        assert!(decode_all(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn the_header_of_another_snapshot_is_noticed() {
    let ground = Ground::Memory(MemoryDisk::new(1));
    let node = ground.start();
    let [five, six] = [5, 6].map(|index| ground.read(&node.cut(&meta(index), &[b"lili"])));
    let header = 16 + u32::from_le_bytes([five[12], five[13], five[14], five[15]]) as usize;

    assert!(decode_all(&five).is_ok() && decode_all(&six).is_ok());
    assert!(decode_all(&[&five[..header], &six[header..]].concat()).is_err());
}

#[test]
fn every_cut_is_noticed_and_so_is_an_addition() {
    let good = bytes_of(&[b"lili", b"", b"users"]);

    for len in 0..good.len() {
        assert!(decode_all(&good[..len]).is_err(), "cut at {len}");
    }
    assert!(decode_all(&[good, vec![0]].concat()).is_err());
}

#[test]
fn damage_names_the_file_and_the_remedy() {
    on_both(|ground| {
        let node = ground.start();
        let path = node.cut(&meta(5), &[b"lili"]);
        let mut bytes = ground.read(&path);
        let at = bytes.windows(4).position(|window| window == b"lili").unwrap();
        bytes[at] = b'L';
        ground.put(&path, &bytes);

        let text = chunks_of(&node.storage).unwrap_err().to_string();

        assert!(text.contains("00000000000000000001-00000000000000000005.snap"), "{text}");
        assert!(text.contains("chunk 1 does not match its checksum"), "{text}");
        assert!(text.contains("put the file back from a copy"), "{text}");
    });
}

#[test]
fn a_snapshot_under_a_foreign_name_is_refused() {
    on_both(|ground| {
        let node = ground.start();
        let path = node.cut(&meta(5), &[b"lili"]);
        for name in ["00000000000000000001-00000000000000000006.snap", "00000000000000000002-00000000000000000005.snap"]
        {
            let foreign = path.with_file_name(name);
            ground.put(&foreign, &ground.read(&path));

            let error = chunks_of(&node.storage).unwrap_err();
            assert!(matches!(error, Error::SnapshotDamaged { .. }), "{error}");
            ground.remove(&foreign);
        }
        assert!(chunks_of(&node.storage).is_ok());
    });
}

#[test]
fn a_snapshot_of_another_cluster_is_refused_by_name() {
    on_both(|ground| {
        let node = ground.start();
        let path = node.cut(&meta(5), &[b"lili"]);
        let other = Ground::Memory(MemoryDisk::new(1));
        let data = DataDir::lock_on(other.disk(), other.dir()).unwrap();
        data.adopt(&Identity { cluster: 0xc2, ..identity() }).unwrap();
        let storage = Storage::open(&data, Options { fill_ahead: false, ..common::SMALL }).unwrap();
        let foreign = storage.cut_snapshot(SHARD, REPLICA, &meta(5)).unwrap().finish().unwrap();

        ground.put(&path, &other.read(&foreign));

        let error = chunks_of(&node.storage).unwrap_err();
        assert!(matches!(error, Error::AnotherCluster { found: 0xc2, .. }), "{error}");
    });
}

#[test]
fn another_format_is_refused_by_name() {
    let mut bytes = bytes_of(&[b"lili"]);

    bytes[8] = 1;
    assert!(matches!(decode_all(&bytes), Err(Error::OlderFormat { found: 1, .. })));
    bytes[8] = 3;
    assert!(matches!(decode_all(&bytes), Err(Error::NewerFormat { found: 3, .. })));
}

#[test]
fn a_claimed_length_is_not_believed() {
    let mut bytes = bytes_of(&[b"lili"]);
    let at = bytes.windows(4).position(|window| window == b"lili").unwrap() - 8;
    bytes[at..at + 4].copy_from_slice(&(CHUNK_BYTES_MAX as u32 + 1).to_le_bytes());

    let text = decode_all(&bytes).unwrap_err().to_string();

    assert!(text.contains("chunk 1 claims"), "{text}");
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decode_all(&bytes).unwrap_err().to_string().contains("its header claims"));
    let node = Ground::Memory(MemoryDisk::new(1)).start();
    let mut writer = node.storage.cut_snapshot(SHARD, REPLICA, &meta(6)).unwrap();
    let error = writer.push(&vec![0; CHUNK_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, Error::ChunkTooLarge { .. }), "{error}");
}

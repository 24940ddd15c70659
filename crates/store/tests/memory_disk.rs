//! The disk in memory keeps what a disk promises, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io;
use std::path::Path;

use shardine_store::MemoryDisk;
use shardine_store::disk::memory::Fault;
use shardine_store::disk::{Cache, Disk};

const DIR: &str = "/data";
const FILE: &str = "/data/file";
const OTHER: &str = "/data/other";

/// A disk with one durable file of 2,000 sevens.
fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new(1);
    disk.put(Path::new(FILE), &[7; 2_000]);
    disk
}

fn write(disk: &MemoryDisk, bytes: &[u8], offset: u64) {
    disk.open(Path::new(FILE), Cache::Through).unwrap().write_at(bytes, offset).unwrap();
}

fn sync(disk: &MemoryDisk) {
    disk.open(Path::new(FILE), Cache::Through).unwrap().sync().unwrap();
}

fn content(disk: &MemoryDisk) -> Vec<u8> {
    disk.get(Path::new(FILE)).unwrap()
}

/// Numbers that differ from run to run of a loop, and are the same in every run of the test.
fn choices(seed: u64) -> impl FnMut(u64) -> u64 {
    let disk = MemoryDisk::new(seed);
    move |end| disk.draw() % end
}

/// What a crash leaves, over many crashes.
fn outcomes<T: Ord>(disk: &MemoryDisk, look: impl Fn(&MemoryDisk) -> T) -> Vec<T> {
    let mut seen: Vec<T> = (0..400)
        .map(|seed| {
            let crashed = disk.fork();
            crashed.crash(&mut choices(seed));
            look(&crashed)
        })
        .collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn what_was_synced_is_kept_and_the_rest_may_be_torn_at_sectors() {
    let disk = disk();
    write(&disk, &[8; 100], 0);
    sync(&disk);
    write(&disk, &[9; 1_000], 500);

    let seen = outcomes(&disk, content);

    // Sectors 0, 1 and 2 are touched, and each may be kept without the others.
    assert_eq!(seen.len(), 8);
    for bytes in seen {
        assert_eq!(bytes[..100], [8; 100]);
        assert_eq!((&bytes[100..500], &bytes[1_500..]), (&[7; 400][..], &[7; 500][..]));
        for (from, to) in [(500, 512), (512, 1_024), (1_024, 1_500)] {
            let sector = &bytes[from..to];
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
        }
    }
}

#[test]
fn a_later_write_may_be_kept_without_an_earlier_one() {
    let disk = disk();
    write(&disk, &[8; 10], 0);
    write(&disk, &[9; 10], 1_024);

    let seen = outcomes(&disk, |disk| (content(disk)[0], content(disk)[1_024]));

    assert_eq!(seen, [(7, 7), (7, 9), (8, 7), (8, 9)]);
}

#[test]
fn names_are_kept_when_their_directory_is_synced() {
    let disk = disk();
    disk.rename(Path::new(FILE), Path::new(OTHER)).unwrap();

    assert_eq!(outcomes(&disk, MemoryDisk::files), [[Path::new(FILE)], [Path::new(OTHER)]]);
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk.remove(Path::new(OTHER)).unwrap();
    assert_eq!(outcomes(&disk, |disk| disk.files().len()), [0, 1]);
    assert_eq!(disk.fork().files().len(), 0, "who is not hit by the crash sees it as it is");
}

#[test]
fn a_file_goes_with_a_directory_that_was_never_synced() {
    let disk = disk();
    let (dir, file) = (Path::new("/data/new"), Path::new("/data/new/file"));
    disk.create_dir(dir).unwrap();
    disk.create(file).unwrap().sync().unwrap();
    disk.sync_dir(dir).unwrap();

    assert_eq!(outcomes(&disk, |disk| disk.get(file).is_some()), [false, true]);
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(outcomes(&disk, |disk| disk.get(file).is_some()), [true]);
}

#[test]
fn after_a_failed_sync_only_another_write_helps() {
    let disk = disk();
    write(&disk, &[8; 10], 0);
    disk.fail_after(0, Fault::Error(io::ErrorKind::Other));

    assert!(disk.open(Path::new(FILE), Cache::Through).unwrap().sync().is_err());
    sync(&disk);

    assert_eq!(outcomes(&disk, |disk| content(disk)[0]), [7, 8]);
    disk.kill();
    assert_eq!(content(&disk)[0], 8, "who reads before the power fails is none the wiser");
    write(&disk, &[8; 10], 0);
    sync(&disk);
    assert_eq!(outcomes(&disk, |disk| content(disk)[0]), [8], "written again, it is kept");
}

#[test]
fn whoever_lived_before_the_crash_changes_nothing_after_it() {
    let disk = disk();
    let mut file = disk.open(Path::new(FILE), Cache::Through).unwrap();
    let lock = disk.lock(Path::new(DIR)).unwrap();
    assert!(disk.lock(Path::new(DIR)).unwrap().is_none());

    disk.kill();
    let again = disk.lock(Path::new(DIR)).unwrap();
    drop(lock);

    assert!(again.is_some());
    assert!(disk.lock(Path::new(DIR)).unwrap().is_none(), "a lock of an earlier life frees nothing");
    assert!(file.write_at(&[8], 0).is_err());
    assert_eq!(content(&disk), [7; 2_000]);
}

#[test]
fn a_machine_that_stops_does_nothing_more() {
    let disk = disk();
    disk.fail_after(1, Fault::Stop);
    write(&disk, &[8; 10], 0);

    let mut file = disk.open(Path::new(FILE), Cache::Through).unwrap();
    assert!(file.sync().is_err());
    assert!(file.write_at(&[9; 10], 0).is_err());
    assert!(disk.remove(Path::new(FILE)).is_err());

    assert_eq!(outcomes(&disk, |disk| content(disk)[0]), [7, 8]);
    disk.kill();
    write(&disk, &[9; 10], 0);
    assert_eq!(content(&disk)[0], 9);
}

#[test]
fn a_full_disk_takes_no_more() {
    let disk = disk();
    disk.limit(Some(2_500));

    write(&disk, &[8; 500], 2_000);
    let mut file = disk.open(Path::new(FILE), Cache::Through).unwrap();
    let error = file.write_at(&[9; 2], 2_499).unwrap_err();

    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    write(&disk, &[8; 500], 0);
}

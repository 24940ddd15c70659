//! What a candidate says when its files are not what it wrote: does it open, and how much of a thousand entries is left?

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{LogEntry, LogEntryKind, LogWrite};

use super::{Candidate, Space};

const ENTRIES: u64 = 1_000;
const INJURED: u64 = 500;

/// Bits are flipped from here before the middle entry's data to here behind its beginning: more than one whole write, so
/// headers and footers are hit as well.
const SWEEP: std::ops::Range<i64> = -60..260;

/// What became of a log with one injury.
#[derive(Default)]
struct Outcomes {
    refused: usize,
    whole: usize,
    shortened: usize,
    fewest: Option<usize>,
}

impl Outcomes {
    fn note(&mut self, left: Result<usize>) {
        match left {
            Err(_) => self.refused += 1,
            Ok(left) if left == ENTRIES as usize => self.whole += 1,
            Ok(left) => {
                self.shortened += 1;
                self.fewest = Some(self.fewest.map_or(left, |fewest| fewest.min(left)));
            }
        }
    }
}

/// What the candidate does about a cut in its last write, and about each of many flipped bits in the middle.
pub fn describe(candidate: &Candidate, dir: &Path) -> Result<String> {
    let copy = dir.with_file_name("copy");
    let original = dir.with_file_name("original");
    write_and_copy(candidate, dir, &original)?;
    // Some stop by panicking; that is a refusal as well, and its message would only spoil the table.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let cut = reopen(candidate, &original, &copy, |bytes, found| bytes[found + 50..].fill(0), ENTRIES);
    let mut flips = Outcomes::default();
    for at in SWEEP.step_by(3) {
        let flip = |bytes: &mut [u8], found: usize| bytes[(found as i64 + at) as usize] ^= 0x10;
        flips.note(reopen(candidate, &original, &copy, flip, INJURED));
    }
    panic::set_hook(hook);
    let cut = cut.map_or_else(|error| format!("refused ({error:#})"), |left| format!("{left} entries left"));
    let fewest = flips.fewest.map_or(String::new(), |fewest| format!(" down to {fewest} entries"));
    Ok(format!(
        "\n{}, {ENTRIES} entries synced. Last one cut: {cut}. One bit flipped in the middle: {} refused, {} opened with everything, {} opened with a loss{fewest}",
        candidate.name, flips.refused, flips.whole, flips.shortened,
    ))
}

/// The copy is taken while the store is open: what a killed process leaves.
fn write_and_copy(candidate: &Candidate, dir: &Path, copy: &Path) -> Result<()> {
    let store = (candidate.open)(dir, Space::Bare)?;
    for index in 1..=ENTRIES {
        let data = [mark(index), vec![0x55; 176]].concat();
        let entry = LogEntry { index, term: 1, kind: LogEntryKind::Normal, data: Bytes::from(data) };
        store.write(vec![LogWrite {
            shard: ShardId(1),
            replica: ReplicaId(1),
            entries: vec![entry],
            hard_state: None,
        }])?;
    }
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    copy_dir(dir, copy)
}

/// Opens an injured copy and counts what is left.
fn reopen(
    candidate: &Candidate,
    original: &Path,
    copy: &Path,
    injure: impl Fn(&mut [u8], usize),
    entry: u64,
) -> Result<usize> {
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    copy_dir(original, copy)?;
    let mark = mark(entry);
    for path in files_below(copy)? {
        let mut bytes = fs::read(&path)?;
        let found = bytes.windows(mark.len()).position(|window| window == mark);
        if let Some(found) = found {
            injure(&mut bytes, found);
            fs::write(&path, bytes)?;
        }
    }
    let count = || -> Result<usize> {
        let store = (candidate.open)(copy, Space::Bare)?;
        Ok(store.entries(ShardId(1))?.len())
    };
    panic::catch_unwind(AssertUnwindSafe(count)).unwrap_or_else(|_| anyhow::bail!("panic"))
}

fn mark(index: u64) -> Vec<u8> {
    format!("<entry number {index:08}>").into_bytes()
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("has a name")?);
        if path.is_dir() {
            copy_dir(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

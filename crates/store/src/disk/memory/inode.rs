//! What is in the files: as the machine sees it, as it is on disk, and the writes between the two.

use std::collections::BTreeMap;

use super::Chooser;
use super::names::Names;

/// What a disk writes whole.
const SECTOR_BYTES: usize = 512;
/// What many do.
const LARGE_SECTOR_BYTES: usize = 4 << 10;

/// What was done to a file and is not on disk yet.
#[derive(Clone, Debug)]
enum Change {
    /// Whole sectors, as they are afterwards.
    Write {
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate,
}

/// Invariant: `kept` with `forsaken` and then all `changes` in order is `now`.
#[derive(Clone, Debug, Default)]
struct Inode {
    now: Vec<u8>,
    kept: Vec<u8>,
    changes: Vec<Change>,
    /// Sectors that a failed sync threw away: the machine takes them for written, and no later sync does anything for them. Only
    /// writing them again does.
    forsaken: BTreeMap<usize, Vec<u8>>,
    /// How many have it open.
    holders: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inodes {
    all: BTreeMap<u64, Inode>,
    next: u64,
}

impl Inodes {
    pub(super) fn add(&mut self) -> u64 {
        self.next += 1;
        self.all.insert(self.next, Inode::default());
        self.next
    }

    pub(super) fn get(&self, number: u64) -> &[u8] {
        &self.all[&number].now
    }

    /// Bytes in all files.
    pub(super) fn bytes(&self) -> u64 {
        self.all.values().map(|inode| inode.now.len() as u64).sum()
    }

    pub(super) fn write(&mut self, number: u64, offset: usize, bytes: &[u8]) {
        let inode = self.inode(number);
        let end = offset + bytes.len();
        if inode.now.len() < end {
            inode.now.resize(end, 0);
        }
        inode.now[offset..end].copy_from_slice(bytes);
        let at = offset - offset % SECTOR_BYTES;
        let to = end.next_multiple_of(SECTOR_BYTES).min(inode.now.len());
        inode.changes.push(Change::Write { at, bytes: inode.now[at..to].to_vec() });
    }

    pub(super) fn truncate(&mut self, number: u64) {
        let inode = self.inode(number);
        inode.now.clear();
        inode.changes.push(Change::Truncate);
    }

    pub(super) fn sync(&mut self, number: u64) {
        let Inode { kept, changes, forsaken, .. } = self.inode(number);
        for change in changes.drain(..) {
            match change {
                Change::Truncate => {
                    kept.clear();
                    forsaken.clear();
                }
                Change::Write { at, bytes } => {
                    put_at(kept, at, &bytes);
                    forsaken.retain(|place, _| !(at..at + bytes.len()).contains(place));
                }
            }
        }
    }

    /// A sync has failed.
    pub(super) fn forsake(&mut self, number: u64) {
        let Inode { changes, forsaken, .. } = self.inode(number);
        for change in changes.drain(..) {
            if let Change::Write { at, bytes } = change {
                forsaken.extend(sectors(at, &bytes, SECTOR_BYTES).map(|(at, sector)| (at, sector.to_vec())));
            }
        }
    }

    pub(super) fn flip(&mut self, number: u64, bit: u64) {
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let inode = self.inode(number);
        inode.now[byte] ^= mask;
        if let Some(kept) = inode.kept.get_mut(byte) {
            *kept ^= mask;
        }
    }

    pub(super) fn put(&mut self, number: u64, bytes: &[u8]) {
        let inode = self.inode(number);
        (inode.now, inode.kept) = (bytes.to_vec(), bytes.to_vec());
        inode.changes.clear();
        inode.forsaken.clear();
    }

    /// Keeps some of what was not synced, sector by sector.
    pub(super) fn crash(&mut self, choose: &mut Chooser<'_>) {
        for inode in self.all.values_mut().filter(|inode| !inode.changes.is_empty() || !inode.forsaken.is_empty()) {
            for (at, sector) in std::mem::take(&mut inode.forsaken) {
                if choose(2) == 1 {
                    put_at(&mut inode.kept, at, &sector);
                }
            }
            let habit = choose(4);
            let sector_bytes = if choose(2) == 0 { SECTOR_BYTES } else { LARGE_SECTOR_BYTES };
            for change in std::mem::take(&mut inode.changes) {
                let mut is_kept = || match habit {
                    0 => false,
                    1 => true,
                    _ => choose(2) == 1,
                };
                match &change {
                    Change::Truncate if is_kept() => inode.kept.clear(),
                    Change::Truncate => {}
                    Change::Write { at, bytes } => {
                        for (at, sector) in sectors(*at, bytes, sector_bytes).filter(|_| is_kept()) {
                            put_at(&mut inode.kept, at, sector);
                        }
                    }
                }
            }
        }
        for inode in self.all.values_mut() {
            inode.now.clone_from(&inode.kept);
        }
    }

    pub(super) fn hold(&mut self, number: u64) {
        self.inode(number).holders += 1;
    }

    pub(super) fn let_go(&mut self, number: u64, names: &Names) {
        let inode = self.inode(number);
        inode.holders -= 1;
        if inode.holders == 0 && !names.numbers().any(|named| named == number) {
            self.all.remove(&number);
        }
    }

    pub(super) fn let_go_of_all(&mut self) {
        self.all.values_mut().for_each(|inode| inode.holders = 0);
    }

    /// Forgets files that nobody has open and no name leads to, now or after a crash.
    pub(super) fn sweep(&mut self, names: &Names) {
        let mut named: Vec<u64> = names.numbers().collect();
        named.sort_unstable();
        self.all.retain(|number, inode| inode.holders > 0 || named.binary_search(number).is_ok());
    }

    fn inode(&mut self, number: u64) -> &mut Inode {
        self.all.get_mut(&number).expect("a file is there while it has a name or a holder")
    }
}

/// The pieces of a write that are written whole, each with its place.
fn sectors(at: usize, bytes: &[u8], sector_bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = at;
    let mut left = bytes;
    std::iter::from_fn(move || {
        let here = (sector_bytes - at % sector_bytes).min(left.len());
        let (sector, rest) = left.split_at(here);
        let place = at;
        (at, left) = (at + here, rest);
        (!sector.is_empty()).then_some((place, sector))
    })
}

fn put_at(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

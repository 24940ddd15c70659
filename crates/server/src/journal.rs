//! The way to the log for whoever owns groups, a lane or the thread of coordination: one synced write at a time. The log
//! thread waits for the disk, unless the owner has nothing better to do and the disk is quick: then waking a thread, and being
//! woken by it, costs more than the wait.

use std::sync::mpsc::Sender;
use std::time::Duration;

use shardine_host::{Batch, Receipt};
use shardine_model::ShardId;

use crate::log_thread::{LOOK_EVERY, LogThread, LogWriter, Synced};

/// A sync that takes longer is long enough to read sockets in.
const QUICK: Duration = Duration::from_millis(1);
/// Quick syncs that an owner wants to see, for each `QUICK` that a slow one took, before it waits for the disk again: one
/// hiccup is soon forgotten, a stall is not.
const PROOFS: u32 = 8;
/// A larger write is the work of many connections, whose next commands can be read meanwhile.
const SMALL_BYTES: usize = 16 << 10;

/// What the last syncs told of the disk.
struct Disk {
    /// Quick syncs that are still to be seen.
    proofs_left: u32,
}

impl Disk {
    fn unknown() -> Self {
        Self { proofs_left: PROOFS }
    }

    fn note(&mut self, took: Duration) {
        self.proofs_left = if took <= QUICK {
            self.proofs_left.saturating_sub(1)
        } else {
            let times = took.as_nanos().div_ceil(QUICK.as_nanos());
            PROOFS.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)).max(self.proofs_left)
        };
    }

    fn is_quick(&self) -> bool {
        self.proofs_left == 0
    }
}

pub(crate) struct Journal {
    writer: LogWriter,
    /// Gone when the owner closes.
    tasks: Option<Sender<Batch>>,
    disk: Disk,
    writes: u64,
    reads_before: u64,
}

/// What became of a write.
pub(crate) enum Written {
    /// The log thread has it, and will tell.
    UnderWay,
    /// It is on disk. If the log has become large, this shard should be cut.
    Synced { receipt: Receipt, took: Duration, too_large: Option<ShardId> },
}

impl Journal {
    pub fn new(log: &LogThread) -> Self {
        let (writer, tasks) = (log.writer.clone(), Some(log.tasks.clone()));
        Self { writer, tasks, disk: Disk::unknown(), writes: 0, reads_before: 0 }
    }

    /// The log thread has written what it had.
    pub fn synced(&mut self, took: Duration) {
        self.disk.note(took);
    }

    /// Writes everything of one turn. `reads` is how many the owner has served so far: where there are reads, none shall wait
    /// behind the disk; nor shall messages to followers, whose disks can work meanwhile.
    pub fn write(&mut self, batch: Batch, reads: u64, has_followers: bool) -> Written {
        let reads_since = reads - std::mem::replace(&mut self.reads_before, reads);
        self.writes += 1;
        if reads_since == 0 && !has_followers && self.disk.is_quick() && batch.bytes() <= SMALL_BYTES {
            let Synced { receipt, took } = self.writer.write(batch);
            self.disk.note(took);
            let looks = self.writes.is_multiple_of(LOOK_EVERY);
            return Written::Synced { receipt, took, too_large: looks.then(|| self.writer.too_large()).flatten() };
        }
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send(batch);
        }
        Written::UnderWay
    }

    /// The shard to cut when the log has become large.
    pub fn too_large(&self) -> Option<ShardId> {
        self.writer.too_large()
    }

    /// Lets the log thread end when it has written what it has.
    pub fn close(&mut self) {
        self.tasks = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syncs_until_quick(disk: &mut Disk) -> u32 {
        let mut syncs = 0;
        while !disk.is_quick() {
            disk.note(QUICK);
            syncs += 1;
        }
        syncs
    }

    #[test]
    fn a_disk_is_quick_after_some_quick_syncs() {
        assert_eq!(syncs_until_quick(&mut Disk::unknown()), PROOFS);
    }

    #[test]
    fn the_longer_a_sync_took_the_longer_it_is_remembered() {
        let mut disk = Disk::unknown();
        syncs_until_quick(&mut disk);

        disk.note(QUICK * 2);
        assert_eq!(syncs_until_quick(&mut disk), 2 * PROOFS);

        disk.note(QUICK * 100);
        disk.note(QUICK * 2);
        assert_eq!(syncs_until_quick(&mut disk), 100 * PROOFS, "a short one does not excuse the long one before it");
    }
}

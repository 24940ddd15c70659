//! Commands that took long, from when they were read to when they were answered: the way through the log, to other nodes and
//! to SQL included. What memory answers on the spot is not timed. Shared by all lanes of a node.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shardine_model::Timestamp;

use crate::frame::Line;
use crate::queue::SlotId;
use crate::verb::Verb;

/// Redis's defaults.
const SLOWER_THAN_US: i64 = 10_000;
const ENTRIES: usize = 128;

/// More than this is not kept, whatever is asked for.
const ENTRIES_MAX: usize = 10_000;

/// Bytes of a key that are kept.
const KEY_BYTES: usize = 40;

#[derive(Debug)]
pub struct SlowLog {
    /// Negative turns it off.
    slower_than_us: AtomicI64,
    entries_max: AtomicUsize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    newest_first: VecDeque<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) at: Timestamp,
    pub(crate) took_us: u64,
    /// The command's name, its first word, and how many more there were.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) name: Vec<u8>,
}

/// A command that waits for its answer. Small, for there is one per command under way.
pub(crate) struct Begun {
    pub(crate) id: SlotId,
    pub(crate) at_us: u64,
    verb: Verb,
    words: u32,
    key_bytes: u8,
    key: [u8; KEY_BYTES],
}

impl Begun {
    #[inline]
    pub(crate) fn new(id: SlotId, verb: Verb, line: Line<'_>, at_us: u64) -> Self {
        let word = if line.len() > 1 { line.word(1) } else { b"" };
        let (mut key, count) = ([0; KEY_BYTES], word.len().min(KEY_BYTES));
        key[..count].copy_from_slice(&word[..count]);
        Self { id, at_us, verb, words: line.len() as u32, key_bytes: count as u8, key }
    }

    /// As Redis shows commands of which it has not kept everything.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = vec![self.verb.name().as_bytes().to_vec()];
        if self.words > 1 {
            words.push(self.key[..usize::from(self.key_bytes)].to_vec());
        }
        if self.words > 2 {
            words.push(format!("... ({} more arguments)", self.words - 2).into_bytes());
        }
        words
    }
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            slower_than_us: AtomicI64::new(SLOWER_THAN_US),
            entries_max: AtomicUsize::new(ENTRIES),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.slower_than_us() >= 0
    }

    pub(crate) fn slower_than_us(&self) -> i64 {
        self.slower_than_us.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slower_than_us(&self, micros: i64) {
        self.slower_than_us.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn entries_max(&self) -> usize {
        self.entries_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_entries_max(&self, count: usize) {
        self.entries_max.store(count.min(ENTRIES_MAX), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_slow(&self, took_us: u64) -> bool {
        u64::try_from(self.slower_than_us()).is_ok_and(|limit| took_us >= limit)
    }

    pub(crate) fn note(&self, entry: Entry) {
        let mut entries = self.entries();
        let id = entries.next;
        entries.next += 1;
        entries.newest_first.push_front(Entry { id, ..entry });
        entries.newest_first.truncate(self.entries_max());
    }

    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries().newest_first.iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries().newest_first.len()
    }

    pub(crate) fn clear(&self) {
        self.entries().newest_first.clear();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

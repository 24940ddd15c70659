//! The scripts that a node has been told, by the sum of their text. Shared by all its doors; a restart forgets them, as in Redis.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sha1::{Digest, Sha1};

/// Texts that the book may hold before the oldest ones make room: a library has a few dozen scripts, of a few kilobytes.
const BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub struct Book {
    pages: Mutex<Pages>,
    running: Mutex<Vec<Weak<AtomicBool>>>,
    check: Option<Check>,
}

/// Whether a text is a script at all; else the line to answer, without its minus.
pub type Check = fn(&[u8]) -> Result<(), Vec<u8>>;

#[derive(Debug, Default)]
struct Pages {
    by_sum: BTreeMap<[u8; 20], (u64, Arc<[u8]>)>,
    by_age: BTreeMap<u64, [u8; 20]>,
    bytes: usize,
    next: u64,
}

impl Book {
    /// One that takes nothing in but scripts.
    #[must_use]
    pub fn checking(check: Check) -> Self {
        Self { check: Some(check), ..Self::default() }
    }

    pub(crate) fn check(&self, text: &[u8]) -> Result<(), Vec<u8>> {
        self.check.map_or(Ok(()), |check| check(text))
    }

    /// Enters a script that runs for long; it is to end once the flag is set.
    #[must_use]
    pub fn enter(&self) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|flag| flag.strong_count() > 0);
        running.push(Arc::downgrade(&flag));
        flag
    }

    /// Ends all scripts that run for long. Whether there were any.
    pub fn kill(&self) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let flags: Vec<_> = running.drain(..).filter_map(|flag| flag.upgrade()).collect();
        flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        !flags.is_empty()
    }

    pub fn put(&self, sum: [u8; 20], text: &[u8]) -> Arc<[u8]> {
        let mut pages = self.pages();
        if let Some((_, known)) = pages.by_sum.get(&sum) {
            return Arc::clone(known);
        }
        let (text, age): (Arc<[u8]>, u64) = (text.into(), pages.next);
        pages.next += 1;
        pages.bytes += text.len();
        pages.by_age.insert(age, sum);
        pages.by_sum.insert(sum, (age, Arc::clone(&text)));
        while pages.bytes > BYTES_MAX
            && let Some((_, oldest)) = pages.by_age.pop_first()
        {
            pages.bytes -= pages.by_sum.remove(&oldest).map_or(0, |(_, text)| text.len());
        }
        text
    }

    #[must_use]
    pub fn get(&self, sum: [u8; 20]) -> Option<Arc<[u8]>> {
        self.pages().by_sum.get(&sum).map(|(_, text)| Arc::clone(text))
    }

    pub fn clear(&self) {
        *self.pages() = Pages::default();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.pages().by_sum.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a script goes by.
#[must_use]
pub fn digest(text: &[u8]) -> [u8; 20] {
    Sha1::digest(text).into()
}

#[must_use]
pub fn hex(sum: [u8; 20]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the first line of a script says of it (`#!lua flags=no-writes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether there is such a line at all.
    pub is_there: bool,
    pub no_writes: bool,
}

impl Header {
    /// Reads the first line. What is wrong with it is told in Redis' words, without the prefix.
    pub fn of(text: &[u8]) -> Result<Self, String> {
        if !text.starts_with(b"#!") {
            return Ok(Self::default());
        }
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.len() == text.len() {
            return Err("Invalid script shebang".into());
        }
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(format!("Unexpected engine in script shebang: {engine}"));
        }
        let mut header = Self { is_there: true, no_writes: false };
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("Unknown lua shebang option: {word}"));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => header.no_writes = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    other => return Err(format!("Unexpected flag in script shebang: {other}")),
                }
            }
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_sum() {
        let book = Book::default();
        let sum = digest(b"return 1");
        book.put(sum, b"return 1");

        assert_eq!(hex(sum), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(book.get(sum).as_deref(), Some(&b"return 1"[..]));
        book.clear();
        assert_eq!(book.get(sum), None);
    }

    #[test]
    fn the_oldest_scripts_make_room() {
        let book = Book::default();
        let large = |mark: u8| vec![mark; BYTES_MAX / 2];
        for mark in 0..3 {
            book.put(digest(&large(mark)), &large(mark));
        }

        assert_eq!(book.len(), 2);
        assert_eq!(book.get(digest(&large(0))), None);
    }

    #[test]
    fn the_first_line_says_what_a_script_may() {
        assert_eq!(Header::of(b"return 1"), Ok(Header::default()));
        assert_eq!(Header::of(b"#!lua\nreturn 1"), Ok(Header { is_there: true, no_writes: false }));
        assert_eq!(
            Header::of(b"#!lua flags=no-writes,allow-oom\nreturn 1"),
            Ok(Header { is_there: true, no_writes: true })
        );
        assert_eq!(Header::of(b"#!lua name=x\n"), Err("Unknown lua shebang option: name=x".into()));
        assert_eq!(Header::of(b"#!py\n"), Err("Unexpected engine in script shebang: #!py".into()));
        assert_eq!(Header::of(b"#!lua flags=nope\n"), Err("Unexpected flag in script shebang: nope".into()));
        assert_eq!(Header::of(b"#!lua"), Err("Invalid script shebang".into()));
    }
}

//! Spare segments: files of full size whose blocks are written, ready to be written over. Knows no log format.
//!
//! A file that grows costs a journal commit with every sync, and so does one that was only reserved: its blocks have
//! to be marked as written. Both are avoided by writing zeros once and then using the file for as long as possible. One
//! spare is kept ahead by a thread of its own, so that the turn that fills a segment does not wait for the next.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::warn;

use crate::error::Error;
use crate::files;

const ENDING: &str = ".spare";
const FILLING_ENDING: &str = ".filling";

/// Zeros are written and synced in pieces, so that the log's own syncs never queue behind a whole segment of them.
const FILL_BYTES: usize = 1 << 20;

/// The spare segments of a log directory, and the thread that keeps one ahead.
pub(super) struct Spares {
    pool: Arc<Pool>,
    spares_max: usize,
    wake: Option<SyncSender<()>>,
    filler: Option<JoinHandle<()>>,
}

struct Pool {
    dir: PathBuf,
    segment_bytes: usize,
    ready: Mutex<VecDeque<PathBuf>>,
    /// Held while a spare is being made: who needs one waits for it rather than begin a second.
    making: Mutex<()>,
    next_number: AtomicU64,
}

impl Spares {
    /// Takes over the spares of a directory and starts the thread.
    pub(super) fn open(dir: &Path, segment_bytes: usize, spares_max: usize) -> Result<Self, Error> {
        let pool = Arc::new(Pool::open(dir, segment_bytes)?);
        let (wake, woken) = mpsc::sync_channel(1);
        let filler = thread::Builder::new()
            .name("log-spares".to_owned())
            .spawn({
                let pool = Arc::clone(&pool);
                move || run(&pool, &woken)
            })
            .map_err(Error::io("start a thread for", dir))?;
        Ok(Self { pool, spares_max, wake: Some(wake), filler: Some(filler) })
    }

    /// A spare to be written over. The caller renames it.
    pub(super) fn take(&self) -> Result<PathBuf, Error> {
        let taken = self.pool.take_or_make()?;
        if lock(&self.pool.ready).is_empty()
            && let Some(wake) = &self.wake
        {
            // Full means that the thread is about to look anyway.
            let _ = wake.try_send(());
        }
        Ok(taken)
    }

    /// Takes in a segment that nobody needs, or removes it. The caller syncs the directory before the next `take`.
    pub(super) fn give(&self, path: &Path, file_bytes: u64) -> Result<(), Error> {
        let mut ready = lock(&self.pool.ready);
        if ready.len() >= self.spares_max || file_bytes != self.pool.segment_bytes as u64 {
            return files::remove(path);
        }
        let spare = self.pool.next_path(ENDING);
        files::rename(path, &spare)?;
        ready.push_back(spare);
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        (lock(&self.pool.ready).len() * self.pool.segment_bytes) as u64
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(filler) = self.filler.take() {
            let _ = filler.join();
        }
    }
}

impl Pool {
    fn open(dir: &Path, segment_bytes: usize) -> Result<Self, Error> {
        for (_, unfinished) in files::numbered(dir, FILLING_ENDING)? {
            files::remove(&unfinished)?;
        }
        let mut ready = VecDeque::new();
        let mut next_number = 1;
        for (number, path) in files::numbered(dir, ENDING)? {
            let len = fs::metadata(&path).map_err(Error::io("look at", &path))?.len();
            next_number = number.saturating_add(1);
            if len == segment_bytes as u64 {
                ready.push_back(path);
            } else {
                files::remove(&path)?;
            }
        }
        Ok(Self {
            dir: dir.to_path_buf(),
            segment_bytes,
            ready: Mutex::new(ready),
            making: Mutex::new(()),
            next_number: AtomicU64::new(next_number),
        })
    }

    fn take_or_make(&self) -> Result<PathBuf, Error> {
        if let Some(path) = lock(&self.ready).pop_front() {
            return Ok(path);
        }
        let _making = lock(&self.making);
        if let Some(path) = lock(&self.ready).pop_front() {
            return Ok(path);
        }
        self.make()
    }

    fn keep_one_ahead(&self) -> Result<(), Error> {
        let _making = lock(&self.making);
        if lock(&self.ready).is_empty() {
            let path = self.make()?;
            lock(&self.ready).push_back(path);
        }
        Ok(())
    }

    fn make(&self) -> Result<PathBuf, Error> {
        let filling = self.next_path(FILLING_ENDING);
        let mut file = files::create_file(&filling)?;
        fill(&mut file, self.segment_bytes).map_err(Error::io("fill", &filling))?;
        let spare = filling.with_extension(ENDING.trim_start_matches('.'));
        files::rename(&filling, &spare)?;
        files::sync_dir(&self.dir)?;
        Ok(spare)
    }

    fn next_path(&self, ending: &str) -> PathBuf {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("{number:016}{ending}"))
    }
}

fn run(pool: &Pool, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        if let Err(error) = pool.keep_one_ahead() {
            // Not fatal here: the turn that needs the spare tries again, and it can stop the node.
            warn!(%error, "no spare log segment could be prepared");
        }
    }
}

fn fill(file: &mut File, bytes: usize) -> std::io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(bytes)];
    let mut left = bytes;
    while left > 0 {
        let piece = &zeros[..left.min(zeros.len())];
        file.write_all(piece)?;
        file.sync_data()?;
        left -= piece.len();
    }
    file.sync_all()
}

/// The lists are whole at every moment that a panic could leave them in.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4096;

    #[test]
    fn a_given_segment_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::open(dir.path(), BYTES, 1).unwrap();
        let used = dir.path().join("used");
        fs::write(&used, vec![7; BYTES]).unwrap();

        spares.give(&used, BYTES as u64).unwrap();
        let taken = spares.take().unwrap();

        assert_eq!(fs::read(taken).unwrap(), vec![7; BYTES]);
    }

    #[test]
    fn more_than_the_limit_is_removed_and_so_is_an_odd_size() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::open(dir.path(), BYTES, 1).unwrap();
        let used = dir.path().join("used");

        for len in [BYTES + 1, BYTES, BYTES] {
            fs::write(&used, vec![7; len]).unwrap();
            spares.give(&used, len as u64).unwrap();
        }

        assert_eq!(files::numbered(dir.path(), ENDING).unwrap().len(), 1);
        assert!(!used.exists());
    }

    #[test]
    fn an_unfinished_spare_is_removed_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0000000000000003.filling"), b"half").unwrap();

        let spares = Spares::open(dir.path(), BYTES, 1).unwrap();

        assert_eq!(spares.bytes(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

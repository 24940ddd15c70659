//! Spare segments: files of full size whose blocks are written, ready to be written over. Knows no log format.
//!
//! A file that grows costs a journal commit with every sync, and so does one that was only reserved: its blocks have
//! to be marked as written. Both are avoided by writing zeros once and then using the file for as long as possible. One
//! spare is kept ahead by a thread of its own, so that the turn that fills a segment does not wait for the next; without
//! the thread, which the simulator does not want, that turn makes it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::warn;

use super::Options;
use crate::disk::DiskFile;
use crate::error::Error;
use crate::files::Files;

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
    files: Files,
    dir: PathBuf,
    segment_bytes: usize,
    ready: Mutex<VecDeque<PathBuf>>,
    /// Held while a spare is being made: who needs one waits for it rather than begin a second.
    making: Mutex<()>,
    next_number: AtomicU64,
}

impl Spares {
    /// Takes over the spares of a directory, and starts the thread if there shall be one.
    pub(super) fn open(files: &Files, dir: &Path, options: &Options) -> Result<Self, Error> {
        let pool = Arc::new(Pool::open(files, dir, options.segment_bytes)?);
        let mut spares = Self { pool, spares_max: options.spares_max, wake: None, filler: None };
        if options.fill_ahead {
            let (wake, woken) = mpsc::sync_channel(1);
            let pool = Arc::clone(&spares.pool);
            let filler = thread::Builder::new().name("log-spares".to_owned()).spawn(move || run(&pool, &woken));
            spares.filler = Some(filler.map_err(Error::io("start a thread for", dir))?);
            spares.wake = Some(wake);
        }
        Ok(spares)
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
            return self.pool.files.remove(path);
        }
        let spare = self.pool.next_path(ENDING);
        self.pool.files.rename(path, &spare)?;
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
    fn open(files: &Files, dir: &Path, segment_bytes: usize) -> Result<Self, Error> {
        for (_, unfinished) in files.numbered(dir, FILLING_ENDING)? {
            files.remove(&unfinished)?;
        }
        let mut ready = VecDeque::new();
        let mut next_number = 1;
        for (number, path) in files.numbered(dir, ENDING)? {
            next_number = number.saturating_add(1);
            if files.size(&path)? == segment_bytes as u64 {
                ready.push_back(path);
            } else {
                files.remove(&path)?;
            }
        }
        Ok(Self {
            files: files.clone(),
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
        let mut file = self.files.create(&filling)?;
        fill(&mut *file, self.segment_bytes).map_err(Error::io("fill", &filling))?;
        let spare = filling.with_extension(ENDING.trim_start_matches('.'));
        self.files.rename(&filling, &spare)?;
        self.files.sync_dir(&self.dir)?;
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

fn fill(file: &mut dyn DiskFile, bytes: usize) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(bytes)];
    let mut done = 0;
    while done < bytes {
        let piece = &zeros[..(bytes - done).min(zeros.len())];
        file.write_at(piece, done as u64)?;
        file.sync()?;
        done += piece.len();
    }
    Ok(())
}

/// The lists are whole at every moment that a panic could leave them in.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, MemoryDisk};

    const OPTIONS: Options = Options { segment_bytes: 4096, frame_bytes: 4096, spares_max: 1, fill_ahead: true };
    const DIR: &str = "/log";
    const USED: &str = "/log/used";

    fn spares(disk: &MemoryDisk) -> Spares {
        let files = Files::new(Arc::new(disk.clone()));
        files.create_dir(Path::new(DIR)).unwrap();
        Spares::open(&files, Path::new(DIR), &OPTIONS).unwrap()
    }

    #[test]
    fn a_given_segment_is_taken_again() {
        let disk = MemoryDisk::new(1);
        let spares = spares(&disk);
        disk.put(Path::new(USED), &[7; 4096]);

        spares.give(Path::new(USED), 4096).unwrap();
        let taken = spares.take().unwrap();

        assert_eq!(disk.get(&taken).unwrap(), [7; 4096]);
    }

    #[test]
    fn more_than_the_limit_is_removed_and_so_is_an_odd_size() {
        let disk = MemoryDisk::new(1);
        let spares = spares(&disk);

        for len in [4097, 4096, 4096] {
            disk.put(Path::new(USED), &vec![7; len]);
            spares.give(Path::new(USED), len as u64).unwrap();
        }

        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["0000000000000001.spare"]);
    }

    #[test]
    fn an_unfinished_spare_is_removed_at_the_start() {
        let disk = MemoryDisk::new(1);
        disk.put(&Path::new(DIR).join("0000000000000003.filling"), b"half");

        let spares = spares(&disk);

        assert_eq!(spares.bytes(), 0);
        assert!(disk.files().is_empty());
    }

    #[test]
    fn one_is_made_ahead_when_the_last_is_taken() {
        let disk = MemoryDisk::new(1);
        let spares = spares(&disk);

        let first = spares.take().unwrap();
        let second = spares.take().unwrap();

        assert_ne!(first, second);
        assert_eq!(disk.get(&second).unwrap(), [0; 4096]);
    }
}

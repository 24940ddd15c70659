//! The operating system's disk.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::{Cache, DirLock, Disk, DiskFile};

/// Records are other people's data: nobody but the owner of the process may look.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The file that is locked beside the directory itself: a person who wonders why the directory is taken sees it.
const LOCK: &str = "LOCK";

#[cfg(target_os = "linux")]
const PAST_CACHE: OFlags = OFlags::DIRECT;
#[cfg(not(target_os = "linux"))]
const PAST_CACHE: OFlags = OFlags::empty();

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIR_MODE).create(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = options().create(true).truncate(true).mode(FILE_MODE).open(path)?;
        Ok(Box::new(OsFile { file, cache: Cache::Through }))
    }

    fn open(&self, path: &Path, cache: Cache) -> io::Result<Box<dyn DiskFile>> {
        let (file, cache) = match cache {
            Cache::Through => (options().open(path)?, cache),
            Cache::Past => open_past_cache(path)?,
        };
        Ok(Box::new(OsFile { file, cache }))
    }

    fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut file = File::open(path)?;
        bytes.clear();
        bytes.reserve(usize::try_from(file.metadata()?.len()).unwrap_or(0));
        file.read_to_end(bytes)?;
        Ok(())
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Locks the directory itself and a file in it: the file may be deleted by somebody who takes it for a leftover, and
    /// not every file system locks directories.
    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let own = File::open(dir)?;
        match own.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(cause)) if is_unsupported(&cause) => {}
            Err(TryLockError::Error(cause)) => return Err(cause),
        }
        let file = options().create(true).truncate(false).mode(FILE_MODE).open(dir.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(OsLock { _dir: own, _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    /// The standard library seeds its hashers from the operating system, which spares this crate a dependency on a random
    /// source.
    fn draw(&self) -> u64 {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write(b"draw");
        hasher.finish()
    }
}

/// Network file systems lock only what is open for writing, which a directory cannot be.
fn is_unsupported(cause: &io::Error) -> bool {
    let unsupported = [rustix::io::Errno::BADF, rustix::io::Errno::INVAL, rustix::io::Errno::OPNOTSUPP];
    cause.kind() == io::ErrorKind::Unsupported
        || unsupported.iter().any(|errno| cause.raw_os_error() == Some(errno.raw_os_error()))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

fn open_past_cache(path: &Path) -> io::Result<(File, Cache)> {
    match options().custom_flags(PAST_CACHE.bits().cast_signed()).open(path) {
        Ok(file) => Ok((file, Cache::Past)),
        Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok((options().open(path)?, Cache::Through)),
        Err(cause) => Err(cause),
    }
}

/// Closing the files gives the locks back.
#[derive(Debug)]
struct OsLock {
    _dir: File,
    _file: File,
}

impl DirLock for OsLock {}

#[derive(Debug)]
struct OsFile {
    file: File,
    cache: Cache,
}

impl DiskFile for OsFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(done)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_all_at(bytes, offset) {
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput && self.cache == Cache::Past => {
                // The file could be opened like this, and cannot be written like this.
                rustix::fs::fcntl_setfl(&self.file, rustix::fs::fcntl_getfl(&self.file)? - PAST_CACHE)?;
                self.cache = Cache::Through;
                self.file.write_all_at(bytes, offset)
            }
            done => done,
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

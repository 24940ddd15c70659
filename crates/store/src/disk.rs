//! The seam to the disk: everything that this crate does to files, and nothing else. What it means is told elsewhere.
//!
//! There are two disks. [`OsDisk`] is the operating system's. `MemoryDisk` (feature `memory`) forgets in a crash what was
//! not synced, in the worst way that is allowed, and decides everything by numbers that it is given: the simulator and the
//! tests run the rest of this crate on it, unchanged.
//!
//! What a disk promises is little, and it is all that the crate may build on:
//!
//! - A write is durable after the file's next successful `sync`. Until then any of its sectors may be kept or lost, in any order.
//! - A new, renamed or removed name is durable after the next `sync_dir` of its directory. Until then it may be kept or lost.
//!   A rename is kept or lost as a whole.
//! - A sector (512 bytes) is written whole or not at all.
//! - After a failed sync nothing is known about the file.

#[cfg(feature = "memory")]
pub mod memory;
mod os;

use std::fmt::Debug;
use std::io;
use std::path::Path;

#[cfg(feature = "memory")]
pub use self::memory::MemoryDisk;
pub use self::os::OsDisk;

/// Whether writes go through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    Through,
    /// Past it, if the file system lets them. Only whole blocks of [`BLOCK_BYTES`], from memory that begins at a block, are
    /// written to such a file.
    Past,
}

/// What a write past the cache begins and ends at: no disk in use has larger sectors.
pub const BLOCK_BYTES: usize = 4 << 10;

/// A disk with its files. Paths are those of the operating system; a missing file is [`io::ErrorKind::NotFound`].
pub trait Disk: Send + Sync + Debug {
    /// Makes one directory, for its owner alone. Its parent must be there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a file, or empties the one that is there, for its owner alone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there for reading and writing.
    fn open(&self, path: &Path, cache: Cache) -> io::Result<Box<dyn DiskFile>>;

    /// Puts the whole file into `bytes`, whatever was in there.
    fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()>;

    fn is_dir(&self, path: &Path) -> bool;

    /// The names in a directory, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Gives a file another name in the same directory. A file that had the name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory that is empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable as they are.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes a directory for this process until the lock is dropped. `None` if another one has it.
    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>>;

    /// A number that nobody else can foresee.
    fn draw(&self) -> u64;
}

/// An open file. It stays what it is when its name is changed or removed.
pub trait DiskFile: Send + Debug {
    fn size(&self) -> io::Result<u64>;

    /// Reads up to the end of `bytes` or of the file, whichever comes first. Returns how much was read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of it. The file grows if it has to.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written, and the file's length, durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Held while a directory is taken.
pub trait DirLock: Send + Sync + Debug {}

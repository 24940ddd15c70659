//! A disk in memory that is as bad as a disk may be, and always in the same way: what it does is decided by the numbers
//! that it is given. For the simulator and for tests; nothing of it is in a server.
//!
//! A *crash* is a loss of power: of what was not synced it keeps whichever sectors and names the chooser picks. A *kill* is the end
//! of a process: the machine lives on and keeps everything. After either of them whoever still holds a file of the earlier
//! life gets errors, so that a store which is dropped late writes nothing more.

mod faults;
mod inode;
mod names;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::faults::Fault;
use self::faults::{Fate, Faults};
use self::inode::Inodes;
use self::names::{Names, Node};
use super::{BLOCK_BYTES, Cache, DirLock, Disk, DiskFile};

/// Picks a number below the one that it is given, which is at least 1.
pub type Chooser<'a> = dyn FnMut(u64) -> u64 + 'a;

/// A disk in memory. Clones are the same disk; [`MemoryDisk::fork`] makes another one.
#[derive(Clone, Debug)]
pub struct MemoryDisk(Arc<Mutex<World>>);

#[derive(Clone, Debug, Default)]
struct World {
    /// Grows with every crash and kill: what was opened in an earlier life is dead.
    life: u64,
    names: Names,
    inodes: Inodes,
    locked: BTreeSet<PathBuf>,
    faults: Faults,
    draws: u64,
}

impl MemoryDisk {
    /// An empty disk. What it draws follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(World { draws: seed, ..World::default() })))
    }

    /// Another disk with everything that is on this one, synced or not, and nobody who uses it.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut copy = self.world().clone();
        copy.end_life();
        Self(Arc::new(Mutex::new(copy)))
    }

    /// The power fails. Of what was not synced, `choose` decides what is kept.
    pub fn crash(&self, choose: &mut Chooser<'_>) {
        let mut world = self.world();
        world.names.crash(choose);
        world.inodes.crash(choose);
        world.end_life();
    }

    /// The process ends, the machine does not: everything stays, synced or not.
    pub fn kill(&self) {
        self.world().end_life();
    }

    /// How many changes have been made or tried: every call that writes, syncs, names or removes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.world().faults.changes()
    }

    /// Lets the change that comes after so many others fail. `0` is the next one. Replaces what was asked for before.
    pub fn fail_after(&self, changes: u64, fault: Fault) {
        self.world().faults.arm(changes, fault);
    }

    /// The machine stops now: there is no other change until a crash or a kill.
    pub fn stop(&self) {
        self.world().faults.stop();
    }

    /// Whether the machine has stopped, by itself or as it was asked to.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.world().faults.is_stopped()
    }

    /// Limits the bytes of all files together. What would go above fails, half of it written.
    pub fn limit(&self, bytes_max: Option<u64>) {
        self.world().faults.bytes_max = bytes_max;
    }

    /// Flips a bit of a file, as a disk does with time.
    ///
    /// # Panics
    /// If there is no such file or it is shorter.
    pub fn flip(&self, path: &Path, bit: u64) {
        let mut world = self.world();
        let number = world.names.file(path).expect("the file is there");
        world.inodes.flip(number, bit);
    }

    /// Puts bytes in the place of a whole file, synced, as an operator might. Makes it if it is not there.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.world();
        let number = world.names.file(path).unwrap_or_else(|_| {
            let number = world.inodes.add();
            world.names.put(path, Node::File(number));
            number
        });
        world.inodes.put(number, bytes);
    }

    /// The content of a file, as the machine sees it.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        world.names.file(path).ok().map(|number| world.inodes.get(number).to_vec())
    }

    /// All names of files, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.world().names.files()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, world: &mut World, number: u64, cache: Cache) -> Box<dyn DiskFile> {
        world.inodes.hold(number);
        Box::new(MemoryFile { disk: self.clone(), life: world.life, number, cache })
    }
}

impl World {
    fn end_life(&mut self) {
        self.life += 1;
        self.locked.clear();
        self.inodes.let_go_of_all();
        self.inodes.sweep(&self.names);
        self.faults.disarm();
    }

    /// Changes a name if nothing speaks against it. A fault that stops the machine may come after the change.
    fn rename(&mut self, change: impl FnOnce(&mut Names) -> io::Result<()>) -> io::Result<()> {
        match self.faults.judge() {
            Fate::Done => change(&mut self.names),
            Fate::Refused(cause) | Fate::Failed(cause) => Err(cause),
            Fate::Unknown(cause) => change(&mut self.names).and(Err(cause)),
        }
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.world().rename(|names| names.add(path, Node::Dir))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        let number = match world.names.file(path) {
            Ok(number) => {
                match world.faults.judge() {
                    Fate::Done => world.inodes.truncate(number),
                    Fate::Refused(cause) | Fate::Failed(cause) | Fate::Unknown(cause) => return Err(cause),
                }
                number
            }
            Err(_) => {
                let number = world.inodes.add();
                world.rename(|names| names.add(path, Node::File(number)))?;
                number
            }
        };
        Ok(self.file(&mut world, number, Cache::Through))
    }

    fn open(&self, path: &Path, cache: Cache) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        let number = world.names.file(path)?;
        Ok(self.file(&mut world, number, cache))
    }

    fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()> {
        let world = self.world();
        bytes.clear();
        bytes.extend_from_slice(world.inodes.get(world.names.file(path)?));
        Ok(())
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.world().names.is_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.world().names.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "a file stays in its directory");
        self.world().rename(|names| names.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world().rename(|names| names.file(path).and_then(|_| names.remove(path)))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.world().rename(|names| match names.list(path)?.is_empty() {
            true => names.remove(path),
            false => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        if !world.names.is_dir(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match world.faults.judge() {
            Fate::Done => world.names.sync(path),
            Fate::Refused(cause) | Fate::Failed(cause) | Fate::Unknown(cause) => return Err(cause),
        }
        let World { names, inodes, .. } = &mut *world;
        inodes.sweep(names);
        Ok(())
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let mut world = self.world();
        if !world.locked.insert(dir.to_path_buf()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock { disk: self.clone(), life: world.life, dir: dir.to_path_buf() })))
    }

    /// The next number of a sequence that looks random (splitmix64).
    fn draw(&self) -> u64 {
        let mut world = self.world();
        world.draws = world.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = world.draws;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    life: u64,
    dir: PathBuf,
}

impl DirLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.life == self.life {
            world.locked.remove(&self.dir);
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    life: u64,
    number: u64,
    cache: Cache,
}

impl MemoryFile {
    fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.disk.world();
        if world.life == self.life { Ok(world) } else { Err(faults::gone()) }
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.world()?.inodes.get(self.number).len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.world()?;
        let content = world.inodes.get(self.number);
        let from = content.len().min(offset as usize);
        let read = bytes.len().min(content.len() - from);
        bytes[..read].copy_from_slice(&content[from..from + read]);
        Ok(read)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.cache == Cache::Past {
            assert!(bytes.len().is_multiple_of(BLOCK_BYTES), "past the cache only whole blocks are written");
            assert!((offset as usize).is_multiple_of(BLOCK_BYTES), "past the cache a write begins at a block");
            assert!(bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES), "past the cache memory begins at a block");
        }
        let mut world = self.world()?;
        let end = offset as usize + bytes.len();
        let growth = end.saturating_sub(world.inodes.get(self.number).len()) as u64;
        let total = world.inodes.bytes();
        match world.faults.judge_write(total, growth) {
            Fate::Done => world.inodes.write(self.number, offset as usize, bytes),
            Fate::Refused(cause) => return Err(cause),
            Fate::Failed(cause) => {
                world.inodes.write(self.number, offset as usize, &bytes[..bytes.len() / 2]);
                return Err(cause);
            }
            Fate::Unknown(cause) => {
                world.inodes.write(self.number, offset as usize, bytes);
                return Err(cause);
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.world()?;
        match world.faults.judge() {
            Fate::Done => world.inodes.sync(self.number),
            Fate::Failed(cause) => {
                world.inodes.forsake(self.number);
                return Err(cause);
            }
            Fate::Refused(cause) | Fate::Unknown(cause) => return Err(cause),
        }
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.life == self.life {
            let World { names, inodes, .. } = &mut *world;
            inodes.let_go(self.number, names);
        }
    }
}

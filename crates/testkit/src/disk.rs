//! A small disk of a node's own: ext4 in a file, so that it can be full, and can stand still. Only inside of
//! [`crate::namespace`], with whose mounts it goes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::namespace::run;

/// What is written beside the node's own files until nothing fits any more.
const BALLAST: &str = "ballast";
const BLOCK: u64 = 4096;

pub struct Disk {
    mount: PathBuf,
}

impl Disk {
    /// Makes one of so many MiB: a file in memory below `dir`, so that nodes do not wait for each other's disks.
    pub fn make(dir: &Path, mib: u64) -> Result<Disk> {
        let (memory, mount) = (dir.join("memory"), dir.join("disk"));
        fs::create_dir_all(&memory)?;
        fs::create_dir_all(&mount)?;
        run(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&memory))?;
        let image = memory.join("image");
        File::create(&image)?.set_len(mib << 20)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop,discard"]).arg(&image).arg(&mount))?;
        Ok(Disk { mount })
    }

    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Nothing fits any more.
    pub fn fill(&self) -> Result<()> {
        let ballast = File::create(self.mount.join(BALLAST)).context("make the ballast")?;
        let mut length = 0;
        let mut step = 64 << 20;
        while step >= BLOCK {
            match rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), length, step) {
                Ok(()) => length += step,
                Err(_) => step /= 4,
            }
        }
        Ok(())
    }

    pub fn empty(&self) -> Result<()> {
        fs::remove_file(self.mount.join(BALLAST)).context("remove the ballast")
    }

    /// From now on whoever writes waits; reading goes on.
    pub fn freeze(&self) -> Result<()> {
        run(Command::new("fsfreeze").arg("-f").arg(&self.mount))
    }

    pub fn thaw(&self) -> Result<()> {
        run(Command::new("fsfreeze").arg("-u").arg(&self.mount))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever waits for it can be ended only when it moves again; usually it moves, and this fails.
        let _ = self.thaw();
    }
}

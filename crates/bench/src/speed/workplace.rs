//! The folder in which one run keeps the data of its servers. Only one run at a time: two would measure each other.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use shardine_testkit::{Dir, target_dir};

/// A folder on a real disk, held by a lock. Folders of servers are removed with the servers; what a killed run left is
/// removed by the next one.
pub struct Workplace {
    path: PathBuf,
    _lock: File,
}

impl Workplace {
    pub fn open(dir: Option<&Path>) -> Result<Workplace> {
        let path = dir.map_or_else(target_dir, Path::to_path_buf).join("bench-data");
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        let lock = File::create(path.join("lock")).context("make the lock of the benchmark")?;
        if lock.try_lock().is_err() {
            bail!("another benchmark is running in {}", path.display());
        }
        for entry in fs::read_dir(&path)?.filter_map(Result::ok) {
            if entry.file_name() != "lock" {
                fs::remove_dir_all(entry.path()).context("remove what an earlier run left")?;
            }
        }
        Ok(Workplace { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An empty folder for one server.
    pub fn dir(&self) -> Result<Dir> {
        Dir::within(&self.path)
    }
}

//! Folders: a temporary one that goes away with its owner, and the places of the workspace that tests need to find.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A temporary folder, removed when dropped. With `SHARDINE_KEEP` set it stays and its path is told, for a look at what a
/// failed test left behind.
pub struct Dir {
    path: PathBuf,
    /// Absent when the folder is to be kept.
    _guard: Option<TempDir>,
}

impl Dir {
    /// Makes a folder in the system's temporary folder.
    pub fn new() -> Result<Dir> {
        Dir::within(&std::env::temp_dir())
    }

    /// Makes a folder inside `parent`, for measurements that care about the disk below them.
    pub fn within(parent: &Path) -> Result<Dir> {
        let made = tempfile::Builder::new().prefix("shardine-").tempdir_in(parent);
        let guard = made.with_context(|| format!("make a temporary folder in {}", parent.display()))?;
        if std::env::var_os("SHARDINE_KEEP").is_some() {
            let path = guard.keep();
            eprintln!("kept: {}", path.display());
            return Ok(Dir { path, _guard: None });
        }
        Ok(Dir { path: guard.path().to_path_buf(), _guard: Some(guard) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

/// The folder of the root manifest.
pub fn workspace_root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("the crate lies two folders below the root").to_path_buf()
}

/// The folder that cargo builds into.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace_root().join(dir),
        None => workspace_root().join("target"),
    }
}

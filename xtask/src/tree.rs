//! The files of the repository: what git tracks, and what it would track if it were added.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use shardine_testkit::workspace_root;

use crate::cargo;

/// A text file, with its path from the root.
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

impl File {
    pub fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    /// The lines of a Rust file before its tests. Unit tests stand at the end of a file.
    pub fn lines_before_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.take_while(|(_, line)| line.trim() != "#[cfg(test)]")
    }
}

/// All text files of the repository, in the order of their paths.
pub fn files() -> Result<Vec<File>> {
    let mut list = cargo::command("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "-z"]);
    let names = cargo::output(&mut list).context("list the files of the repository")?;
    let mut paths: Vec<&Path> = names.split_terminator('\0').map(Path::new).collect();
    paths.sort();
    Ok(paths.into_iter().filter_map(read).collect())
}

/// Nothing for a file that is not text, or that is deleted but not yet committed so.
fn read(path: &Path) -> Option<File> {
    let text = fs::read_to_string(workspace_root().join(path)).ok()?;
    Some(File { path: path.to_path_buf(), text })
}

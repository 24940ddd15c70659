//! Damage that was found in the log of one group: where, and what is wrong there.

use std::path::{Path, PathBuf};

use shardine_model::ids::ShardId;

use crate::error::Error;

/// The first place at which the log of a group is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    file: PathBuf,
    offset: u64,
    reason: String,
}

impl Damage {
    pub(super) fn new(file: &Path, offset: usize, reason: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), offset: offset as u64, reason: reason.into() }
    }

    /// What whoever asks for the group is told.
    pub(super) fn of(&self, shard: ShardId) -> Error {
        Error::ShardLogDamaged { shard, file: self.file.clone(), offset: self.offset, reason: self.reason.clone() }
    }

    /// What is said when it cannot be told whose damage it is.
    pub(super) fn of_all(self) -> Error {
        Error::LogDamaged { file: self.file, offset: self.offset, reason: self.reason }
    }
}

//! Which file a path leads to, so that a deleted or replaced database is noticed.

use std::io;
use std::path::Path;

/// Device and number of the file. Where the system has none, every file is taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::from_metadata(&found))
    }

    #[cfg(unix)]
    fn from_metadata(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(found.dev(), found.ino())
    }

    #[cfg(not(unix))]
    fn from_metadata(_: &std::fs::Metadata) -> Self {
        Self(0, 0)
    }
}

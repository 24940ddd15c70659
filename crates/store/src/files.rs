//! The few ways in which this crate makes files and directories: private to their owner, and durable by name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Records are other people's data: nobody but the owner of the process may look.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

#[cfg(target_os = "linux")]
const PAST_CACHE: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
const PAST_CACHE: i32 = 0;

/// Makes a directory and its parents unless they are there.
pub(crate) fn create_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path).map_err(Error::io("create directory", path))
}

/// Opens a file for reading and writing, empty.
pub(crate) fn create_file(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(Error::io("create", path))
}

/// Opens a file for reading and writing, with what it holds. Makes it if it is not there.
pub(crate) fn open_file(path: &Path) -> Result<File, Error> {
    kept().open(path).map_err(Error::io("open", path))
}

/// Whether writes go through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Through,
    /// Only whole blocks, from memory that begins at a block, can be written.
    Past,
}

/// Like [`open_file`], but writes go past the page cache if the file system lets them.
pub(crate) fn open_past_cache(path: &Path) -> Result<(File, Cache), Error> {
    match kept().custom_flags(PAST_CACHE).open(path) {
        Ok(file) => Ok((file, Cache::Past)),
        Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok((open_file(path)?, Cache::Through)),
        Err(cause) => Err(Error::io("open", path)(cause)),
    }
}

fn kept() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    options
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::io("rename", from))
}

/// Removes a file. One that is already gone is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(cause)),
        _ => Ok(()),
    }
}

/// Makes renames and removals in a directory survive a power failure.
pub(crate) fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(Error::io("sync directory", path))
}

/// The files of a directory whose names are a number and the given ending, by number. Others are left alone.
pub(crate) fn numbered(dir: &Path, ending: &str) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(ending))
            .and_then(|digits| digits.parse::<u64>().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

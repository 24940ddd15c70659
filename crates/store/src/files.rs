//! The few ways in which this crate treats files, with an error that says which file and what was done to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Cache, Disk, DiskFile};
use crate::error::Error;

/// A disk whose refusals name the file.
#[derive(Clone, Debug)]
pub(crate) struct Files(Arc<dyn Disk>);

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self(disk)
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.0
    }

    /// Makes a directory and its parents unless they are there. Those that it makes survive a power failure.
    pub(crate) fn create_dir(&self, path: &Path) -> Result<(), Error> {
        if self.0.is_dir(path) {
            return Ok(());
        }
        let parent = parent(path);
        if let Some(parent) = parent {
            self.create_dir(parent)?;
        }
        match self.0.create_dir(path) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::io("create directory", path)(cause))
            }
            _ => parent.map_or(Ok(()), |parent| self.sync_dir(parent)),
        }
    }

    /// Makes the name of a directory, and of those above it, survive a power failure: an earlier process may have made them and
    /// come no further.
    pub(crate) fn sync_parents(&self, path: &Path) -> Result<(), Error> {
        let Some(parent) = parent(path) else { return Ok(()) };
        match self.0.sync_dir(parent) {
            // Somebody else's, or of a file system that knows no such thing: whoever made our directory there has seen to it.
            Err(cause) if is_foreign(cause.kind()) => {}
            synced => synced.map_err(Error::io("sync directory", parent))?,
        }
        if parent == Path::new(".") { Ok(()) } else { self.sync_parents(parent) }
    }

    pub(crate) fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, Error> {
        self.0.create(path).map_err(Error::io("create", path))
    }

    pub(crate) fn open(&self, path: &Path, cache: Cache) -> Result<Box<dyn DiskFile>, Error> {
        self.0.open(path, cache).map_err(Error::io("open", path))
    }

    pub(crate) fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.0.read(path, bytes).map_err(Error::io("read", path))
    }

    /// A whole small file. `None` if it is not there.
    pub(crate) fn read_small(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        match self.0.read(path, &mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::io("read", path)(cause)),
        }
    }

    /// Puts a whole small file in the place of the one of this name: after a crash there is the old one or the new one.
    pub(crate) fn replace(&self, dir: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let unfinished = dir.join(format!("{name}.unfinished"));
        let mut file = self.create(&unfinished)?;
        file.write_at(bytes, 0).and_then(|()| file.sync()).map_err(Error::io("write", &unfinished))?;
        self.rename(&unfinished, &dir.join(name))?;
        self.sync_dir(dir)
    }

    pub(crate) fn size(&self, path: &Path) -> Result<u64, Error> {
        self.open(path, Cache::Through)?.size().map_err(Error::io("look at", path))
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.0.rename(from, to).map_err(Error::io("rename", from))
    }

    /// Removes a file. One that is already gone is fine.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Error> {
        match self.0.remove(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(cause)),
            _ => Ok(()),
        }
    }

    /// Makes names in a directory survive a power failure.
    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), Error> {
        self.0.sync_dir(path).map_err(Error::io("sync directory", path))
    }

    /// The files of a directory whose names are a number and the given ending, by number. Others are left alone.
    pub(crate) fn numbered(&self, dir: &Path, ending: &str) -> Result<Vec<(u64, PathBuf)>, Error> {
        let names = self.0.list(dir).map_err(Error::io("list", dir))?;
        let number = |name: &str| name.strip_suffix(ending)?.parse::<u64>().ok();
        let mut found: Vec<(u64, PathBuf)> =
            names.iter().filter_map(|name| Some((number(name)?, dir.join(name)))).collect();
        found.sort();
        Ok(found)
    }
}

/// The directory that a name is in.
fn parent(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

fn is_foreign(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(kind, InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

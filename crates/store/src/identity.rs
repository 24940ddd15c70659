//! Whose directory this is: one process at a time, one node, one cluster. Draws no identities, only keeps them.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use shardine_model::ids::NodeId;

use crate::error::Error;
use crate::files;

const LOCK: &str = "LOCK";
const IDENTITY: &str = "IDENTITY";
const LOG: &str = "log";
const SNAPSHOTS: &str = "snapshots";

/// Raised when a version writes a data directory that an older one must not touch.
const FORMAT: u32 = 1;

/// Which node of which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: u128,
    pub node: NodeId,
}

impl Identity {
    /// Readable on purpose: this is the first file that somebody opens who wonders what the directory is.
    fn encode(&self) -> String {
        let text = format!("shardine data {FORMAT}\ncluster {:032x}\nnode {}\n", self.cluster, self.node);
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc {crc:08x}\n")
    }

    fn decode(bytes: &[u8], file: &Path) -> Result<Self, Error> {
        let damaged = |reason: &str| Error::IdentityDamaged { file: file.to_path_buf(), reason: reason.to_owned() };
        let text = str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');

        let format = value("shardine data").and_then(|value| value.parse().ok());
        let format: u32 = format.ok_or_else(|| damaged("its first line is not readable"))?;
        if format > FORMAT {
            return Err(Error::NewerFormat { file: file.to_path_buf(), found: format, known: FORMAT });
        }
        let cluster = value("cluster").and_then(|value| u128::from_str_radix(value, 16).ok());
        let node = value("node").and_then(|value| value.parse().ok());
        let identity = Self {
            cluster: cluster.ok_or_else(|| damaged("its cluster is not readable"))?,
            node: NodeId(node.ok_or_else(|| damaged("its node is not readable"))?),
        };
        // There is one way to write an identity, so the checksum need not be taken apart.
        if identity.encode().as_bytes() == bytes {
            Ok(identity)
        } else {
            Err(damaged("it does not match its checksum"))
        }
    }
}

/// A data directory that this process holds for itself until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Closing the file gives the lock back.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it.
    pub fn lock(path: &Path) -> Result<Self, Error> {
        files::create_dir(path)?;
        let lock_path = path.join(LOCK);
        let lock = files::open_file(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_path_buf(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { dir: path.to_path_buf() }),
            Err(TryLockError::Error(cause)) => Err(Error::io("lock", &lock_path)(cause)),
        }
    }

    /// Who the directory belongs to. `None` if it is new.
    pub fn identity(&self) -> Result<Option<Identity>, Error> {
        let path = self.path.join(IDENTITY);
        match fs::read(&path) {
            Ok(bytes) => Identity::decode(&bytes, &path).map(Some),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                if self.log_dir().exists() || self.snapshot_dir().exists() {
                    return Err(Error::IdentityMissing { file: path });
                }
                Ok(None)
            }
            Err(cause) => Err(Error::io("read", &path)(cause)),
        }
    }

    /// Gives a new directory to this identity, or checks that it belongs to it already. To be called before the log
    /// is opened: data without an identity is refused.
    pub fn adopt(&self, identity: Identity) -> Result<(), Error> {
        match self.identity()? {
            None => self.write(identity),
            Some(found) if found.cluster != identity.cluster => {
                Err(Error::AnotherCluster { dir: self.path.clone(), found: found.cluster, expected: identity.cluster })
            }
            Some(found) if found.node != identity.node => {
                Err(Error::AnotherNode { dir: self.path.clone(), found: found.node, expected: identity.node })
            }
            Some(_) => Ok(()),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.path.join(LOG)
    }

    #[must_use]
    pub fn snapshot_dir(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    fn write(&self, identity: Identity) -> Result<(), Error> {
        let unfinished = self.path.join("IDENTITY.unfinished");
        let mut file = files::create_file(&unfinished)?;
        file.write_all(identity.encode().as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(Error::io("write", &unfinished))?;
        files::rename(&unfinished, &self.path.join(IDENTITY))?;
        files::sync_dir(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LILI: Identity = Identity { cluster: 0x0123_4567_89ab_cdef_0011_2233_4455_6677, node: NodeId(7) };

    fn adopted() -> (tempfile::TempDir, DataDir) {
        let parent = tempfile::tempdir().unwrap();
        let data = DataDir::lock(&parent.path().join("data")).unwrap();
        data.adopt(LILI).unwrap();
        (parent, data)
    }

    #[test]
    fn an_identity_has_these_bytes_for_ever() {
        assert_eq!(LILI.encode(), "shardine data 1\ncluster 0123456789abcdef0011223344556677\nnode 7\ncrc fe41db6a\n");
    }

    #[test]
    fn an_identity_survives_the_process() {
        let (_parent, data) = adopted();
        let path = data.path().to_path_buf();
        drop(data);

        let data = DataDir::lock(&path).unwrap();

        assert_eq!(data.identity().unwrap(), Some(LILI));
        data.adopt(LILI).unwrap();
    }

    #[test]
    fn a_second_process_is_refused() {
        let (_parent, data) = adopted();

        let error = DataDir::lock(data.path()).unwrap_err();

        assert!(matches!(error, Error::InUse { .. }));
        assert!(error.to_string().contains("stop that one"), "{error}");
    }

    #[test]
    fn a_directory_of_another_cluster_or_node_is_refused() {
        let (_parent, data) = adopted();

        let cluster = data.adopt(Identity { cluster: 1, ..LILI });
        let node = data.adopt(Identity { node: NodeId(8), ..LILI });

        assert!(matches!(cluster, Err(Error::AnotherCluster { .. })));
        assert!(matches!(node, Err(Error::AnotherNode { .. })));
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let (_parent, data) = adopted();
        let newer = "shardine data 2\nsomething else\n";
        fs::write(data.path().join(IDENTITY), newer).unwrap();

        let error = data.identity().unwrap_err();

        assert!(matches!(error, Error::NewerFormat { found: 2, .. }), "{error}");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = LILI.encode().into_bytes();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);

            assert!(Identity::decode(&bad, Path::new("IDENTITY")).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn data_without_an_identity_is_refused() {
        let (_parent, data) = adopted();
        fs::create_dir(data.log_dir()).unwrap();
        fs::remove_file(data.path().join(IDENTITY)).unwrap();

        let error = data.adopt(LILI).unwrap_err();

        assert!(matches!(error, Error::IdentityMissing { .. }), "{error}");
    }

    #[test]
    fn nobody_else_may_look() {
        let (_parent, data) = adopted();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

        assert_eq!(mode(data.path()), 0o700);
        assert_eq!(mode(&data.path().join(IDENTITY)), 0o600);
        assert_eq!(mode(&data.path().join(LOCK)), 0o600);
    }
}

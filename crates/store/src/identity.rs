//! Whose directory this is: one process at a time, one node, one cluster. Draws no identities, only keeps them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardine_model::ids::NodeId;

use crate::disk::{DirLock, Disk, OsDisk};
use crate::error::Error;
use crate::files::Files;

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
    files: Files,
    path: PathBuf,
    _lock: Box<dyn DirLock>,
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it.
    pub fn lock(path: &Path) -> Result<Self, Error> {
        Self::lock_on(Arc::new(OsDisk), path)
    }

    /// Like [`DataDir::lock`], on another disk than the operating system's.
    pub fn lock_on(disk: Arc<dyn Disk>, path: &Path) -> Result<Self, Error> {
        let files = Files::new(disk);
        files.create_dir(path)?;
        match files.disk().lock(path).map_err(Error::io("lock", path))? {
            Some(lock) => Ok(Self { files, path: path.to_path_buf(), _lock: lock }),
            None => Err(Error::InUse { dir: path.to_path_buf() }),
        }
    }

    /// Who the directory belongs to. `None` if it is new.
    pub fn identity(&self) -> Result<Option<Identity>, Error> {
        let path = self.path.join(IDENTITY);
        match self.files.read_small(&path)? {
            Some(bytes) => Identity::decode(&bytes, &path).map(Some),
            None if [self.log_dir(), self.snapshot_dir()].iter().any(|dir| self.files.disk().is_dir(dir)) => {
                Err(Error::IdentityMissing { file: path })
            }
            None => Ok(None),
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
        self.files.replace(&self.path, IDENTITY, identity.encode().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
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
    fn a_second_process_is_refused_also_when_the_lock_file_was_deleted() {
        let (_parent, data) = adopted();
        fs::remove_file(data.path().join("LOCK")).unwrap();

        assert!(matches!(DataDir::lock(data.path()), Err(Error::InUse { .. })));
        drop(data);
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
        assert_eq!(mode(&data.path().join("LOCK")), 0o600);
    }
}

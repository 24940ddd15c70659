//! The directory of a node: one process at a time, one node, one cluster, and a count of its starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{DirLock, Disk, OsDisk};
use crate::error::Error;
use crate::files::Files;
use crate::identity::{self, Identity, IdentityFile};
use crate::node_file::NodeFile;

const IDENTITY: &str = "IDENTITY";
const LOG: &str = "log";
const SNAPSHOTS: &str = "snapshots";

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
        files.sync_parents(path)?;
        match files.disk().lock(path).map_err(Error::io("lock", path))? {
            Some(lock) => Ok(Self { files, path: path.to_path_buf(), _lock: lock }),
            None => Err(Error::InUse { dir: path.to_path_buf() }),
        }
    }

    /// Who the directory belongs to. `None` if it is new.
    pub fn identity(&self) -> Result<Option<Identity>, Error> {
        Ok(self.read()?.map(|file| file.identity))
    }

    /// Gives a new directory to this identity, or checks that it belongs to it already, and counts the start. Returns how many
    /// there have been: the incarnation of the node, which is on disk when this returns and was never given before. To be called
    /// once in a process, before anything else is done with the directory.
    pub fn adopt(&self, identity: &Identity) -> Result<u64, Error> {
        identity::check_name(&identity.name)?;
        let mut file = match self.read()? {
            None => IdentityFile { identity: identity.clone(), starts: 0, is_log_begun: false },
            Some(file) => self.check(file, identity)?,
        };
        file.starts += 1;
        self.write(&file)?;
        Ok(file.starts)
    }

    /// How often a node was started on it.
    pub fn starts(&self) -> Result<u64, Error> {
        Ok(self.read()?.map_or(0, |file| file.starts))
    }

    /// Whether it holds nothing besides a name, if that: a start that ended while the node took its place in a cluster has left it.
    /// Nothing was promised under it.
    pub fn is_unused(&self) -> Result<bool, Error> {
        let is_unused = |file: &IdentityFile| !file.is_log_begun && !file.identity.name.is_empty();
        let has_map = || self.files.read_small(&self.path.join(NodeFile::Map.name())).map(|bytes| bytes.is_some());
        match self.read()? {
            None => Ok(true),
            Some(file) => Ok(is_unused(&file) && !has_map()?),
        }
    }

    /// Takes the name off a directory that holds nothing else, so that another one can be given to it. Says whether it is new now.
    pub fn begin_anew(&self) -> Result<bool, Error> {
        if !self.is_unused()? {
            return Ok(false);
        }
        let path = self.path.join(IDENTITY);
        if self.files.read_small(&path)?.is_some() {
            self.files.remove(&path)?;
            self.files.sync_dir(&self.path)?;
        }
        Ok(true)
    }

    fn check(&self, mut file: IdentityFile, expected: &Identity) -> Result<IdentityFile, Error> {
        let (path, found) = (self.path.clone(), &mut file.identity);
        if found.cluster != expected.cluster {
            return Err(Error::AnotherCluster { path, found: found.cluster, expected: expected.cluster });
        }
        if found.node != expected.node {
            return Err(Error::AnotherNode { path, found: found.node, expected: expected.node });
        }
        if found.name.is_empty() {
            found.name.clone_from(&expected.name);
        }
        if !expected.name.is_empty() && found.name != expected.name {
            let (found, expected) = (found.name.clone(), expected.name.clone());
            return Err(Error::AnotherName { path, found, expected });
        }
        Ok(file)
    }

    /// What a file of the node says. `None` if it was never written.
    pub fn load_file(&self, file: NodeFile) -> Result<Option<Vec<u8>>, Error> {
        let (path, cluster) = (self.path.join(file.name()), self.adopted()?.identity.cluster);
        let bytes = self.files.read_small(&path)?;
        bytes.map(|bytes| file.decode(cluster, &bytes, &path)).transpose()
    }

    /// Puts this in the place of what a file of the node said. It is on disk when this returns; if that fails, the one before is.
    /// The same file is written by one thread at a time.
    pub fn save_file(&self, file: NodeFile, content: &[u8]) -> Result<(), Error> {
        let bytes = file.encode(self.adopted()?.identity.cluster, content)?;
        self.files.replace(&self.path, file.name(), &bytes)
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

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// What the file says. It must have been adopted.
    pub(crate) fn adopted(&self) -> Result<IdentityFile, Error> {
        self.read()?.ok_or_else(|| Error::IdentityMissing { file: self.path.join(IDENTITY) })
    }

    /// From now on there must be a log.
    pub(crate) fn note_log(&self) -> Result<(), Error> {
        self.write(&IdentityFile { is_log_begun: true, ..self.adopted()? })
    }

    fn read(&self) -> Result<Option<IdentityFile>, Error> {
        let path = self.path.join(IDENTITY);
        match self.files.read_small(&path)? {
            Some(bytes) => IdentityFile::decode(&bytes, &path).map(Some),
            None if [self.log_dir(), self.snapshot_dir()].iter().any(|dir| self.files.disk().is_dir(dir)) => {
                Err(Error::IdentityMissing { file: path })
            }
            None => Ok(None),
        }
    }

    fn write(&self, file: &IdentityFile) -> Result<(), Error> {
        self.files.replace(&self.path, IDENTITY, file.encode().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use shardine_model::ids::NodeId;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::disk::memory::Fault;

    fn lili() -> Identity {
        Identity { cluster: 0x0123, node: NodeId(7), name: String::new() }
    }

    fn adopted() -> (tempfile::TempDir, DataDir) {
        let parent = tempfile::tempdir().unwrap();
        let data = DataDir::lock(&parent.path().join("data")).unwrap();
        data.adopt(&lili()).unwrap();
        (parent, data)
    }

    #[test]
    fn an_identity_survives_the_process_and_starts_are_counted() {
        let (_parent, data) = adopted();
        let path = data.path().to_path_buf();
        drop(data);

        for start in 2..5 {
            let data = DataDir::lock(&path).unwrap();

            assert_eq!(data.identity().unwrap(), Some(lili()));
            assert_eq!(data.adopt(&lili()).unwrap(), start);
        }
    }

    #[test]
    fn a_name_without_anything_under_it_can_be_taken_back() {
        let parent = tempfile::tempdir().unwrap();
        let data = DataDir::lock(&parent.path().join("data")).unwrap();
        let named = |node| Identity { node: NodeId(node), name: "lili".to_owned(), ..lili() };
        assert!(data.is_unused().unwrap() && data.begin_anew().unwrap(), "it is new");

        data.adopt(&named(4)).unwrap();
        assert!(data.begin_anew().unwrap());
        assert_eq!(data.adopt(&named(5)).unwrap(), 1, "another node, which has never started");

        data.save_file(NodeFile::Map, b"map").unwrap();
        assert!(!data.begin_anew().unwrap(), "it knows its cluster");
        std::fs::remove_file(data.path().join(NodeFile::Map.name())).unwrap();
        data.note_log().unwrap();
        assert!(!data.begin_anew().unwrap(), "it has a log, or has lost one");
        assert_eq!(data.identity().unwrap(), Some(named(5)));
    }

    #[test]
    fn an_incarnation_is_given_once_whenever_the_power_fails() {
        let disk = MemoryDisk::new(1);
        let choices = MemoryDisk::new(2);
        let mut last = 0;

        for changes in (0..8).cycle().take(400) {
            disk.fail_after(changes, Fault::Stop);
            let given = DataDir::lock_on(Arc::new(disk.clone()), Path::new("/data"))
                .and_then(|data| Ok((data.adopt(&lili())?, data)));
            if let Ok((incarnation, _data)) = given {
                assert!(incarnation > last, "{incarnation} was given before");
                last = incarnation;
            }
            disk.crash(&mut |end| choices.draw() % end);
        }
        assert!(last > 50);
    }

    #[test]
    fn a_file_of_the_node_is_the_old_one_or_the_new_one_whenever_the_power_fails() {
        let disk = MemoryDisk::new(1);
        let choices = MemoryDisk::new(2);
        let open = || {
            let data = DataDir::lock_on(Arc::new(disk.clone()), Path::new("/data"))?;
            data.adopt(&lili()).map(|_| data)
        };
        let (mut promised, mut last) = (0_u64, 0_u64);

        for step in 1..400 {
            let data = open().unwrap();
            disk.fail_after(step % 17, Fault::Stop);
            for file in NodeFile::ALL {
                if data.save_file(file, &step.to_be_bytes()).is_ok() && file == NodeFile::Map {
                    promised = step;
                }
            }
            drop(data);
            disk.crash(&mut |end| choices.draw() % end);
            let data = open().unwrap();
            let found = data
                .load_file(NodeFile::Map)
                .unwrap()
                .map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("all of it")));
            assert!(found >= promised.max(last) && found <= step, "{found} after {promised} was promised");
            last = found;
        }
        assert!(promised > 100);
    }

    #[test]
    fn a_new_directory_has_no_files_and_one_that_is_nobodys_is_not_written() {
        let (_parent, data) = adopted();

        assert_eq!(data.load_file(NodeFile::Peers).unwrap(), None);
        let nobodys = DataDir::lock_on(Arc::new(MemoryDisk::new(1)), Path::new("/data")).unwrap();
        assert!(matches!(nobodys.save_file(NodeFile::Peers, b""), Err(Error::IdentityMissing { .. })));
    }

    /// reliability I31.
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

    /// reliability I31.
    #[test]
    fn a_directory_of_another_cluster_or_node_is_refused() {
        let (_parent, data) = adopted();

        let cluster = data.adopt(&Identity { cluster: 1, ..lili() });
        let node = data.adopt(&Identity { node: NodeId(8), ..lili() });

        assert!(matches!(cluster, Err(Error::AnotherCluster { .. })));
        assert!(matches!(node, Err(Error::AnotherNode { .. })));
    }

    #[test]
    fn a_name_is_given_once_and_may_be_left_out() {
        let (_parent, data) = adopted();
        let named = Identity { name: "a".to_owned(), ..lili() };

        data.adopt(&named).unwrap();
        data.adopt(&lili()).unwrap();

        assert_eq!(data.identity().unwrap(), Some(named));
        let other = data.adopt(&Identity { name: "b".to_owned(), ..lili() }).unwrap_err();
        assert!(matches!(other, Error::AnotherName { .. }), "{other}");
    }

    #[test]
    fn data_without_an_identity_is_refused() {
        let (_parent, data) = adopted();
        fs::create_dir(data.log_dir()).unwrap();
        fs::remove_file(data.path().join(IDENTITY)).unwrap();

        let error = data.adopt(&lili()).unwrap_err();

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

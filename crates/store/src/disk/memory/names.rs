//! Names of files and directories: as the machine sees them, as they are on disk, and the changes between the two.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::Chooser;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(u64),
}

/// A change that is not on disk yet: what stands under these names afterwards. They are in one directory.
#[derive(Clone, Debug)]
struct Change(Vec<(PathBuf, Option<Node>)>);

/// Invariant: `kept` with all `changes` in order is `now`.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    now: BTreeMap<PathBuf, Node>,
    kept: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
}

impl Names {
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.now.get(path) {
            Some(Node::File(number)) => Ok(*number),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        is_root(path) || self.now.get(path) == Some(&Node::Dir)
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = self.now.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name()).filter_map(|name| name.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.now.iter().filter(|(_, node)| **node != Node::Dir).map(|(path, _)| path.clone()).collect()
    }

    /// The files that a name leads to, or may lead to after a crash.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let changed = self.changes.iter().flat_map(|Change(effects)| effects).filter_map(|(_, node)| node.as_ref());
        let nodes = self.now.values().chain(self.kept.values()).chain(changed);
        nodes.filter_map(|node| match node {
            Node::File(number) => Some(*number),
            Node::Dir => None,
        })
    }

    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<()> {
        if !path.parent().is_some_and(|parent| self.is_dir(parent)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.is_dir(path) || self.now.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(vec![(path.to_path_buf(), Some(node))]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = Node::File(self.file(from)?);
        self.change(vec![(to.to_path_buf(), Some(node)), (from.to_path_buf(), None)]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.change(vec![(path.to_path_buf(), None)]);
        Ok(())
    }

    /// Makes a name for good, with the directories above it.
    pub(super) fn put(&mut self, path: &Path, node: Node) {
        for dir in path.ancestors().skip(1).filter(|dir| !is_root(dir)) {
            set(&mut self.now, dir, Some(Node::Dir));
            set(&mut self.kept, dir, Some(Node::Dir));
        }
        set(&mut self.now, path, Some(node));
        set(&mut self.kept, path, Some(node));
    }

    pub(super) fn sync(&mut self, dir: &Path) {
        let (synced, left) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.dir() == Some(dir));
        self.changes = left;
        let synced: Vec<Change> = synced;
        synced.iter().for_each(|change| change.apply(&mut self.kept));
    }

    /// Keeps some of the changes. A name goes with the directory that it was in.
    pub(super) fn crash(&mut self, choose: &mut Chooser<'_>) {
        let habit = choose(4);
        for change in std::mem::take(&mut self.changes) {
            let is_kept = match habit {
                0 => false,
                1 => true,
                _ => choose(2) == 1,
            };
            if is_kept {
                change.apply(&mut self.kept);
            }
        }
        // Parents come before what is in them.
        let mut whole: BTreeMap<PathBuf, Node> = BTreeMap::new();
        for (path, node) in std::mem::take(&mut self.kept) {
            let parent = path.parent();
            if parent.is_some_and(|parent| is_root(parent) || whole.get(parent) == Some(&Node::Dir)) {
                whole.insert(path, node);
            }
        }
        self.kept = whole.clone();
        self.now = whole;
    }

    fn change(&mut self, effects: Vec<(PathBuf, Option<Node>)>) {
        let change = Change(effects);
        change.apply(&mut self.now);
        self.changes.push(change);
    }
}

impl Change {
    fn dir(&self) -> Option<&Path> {
        self.0.first().and_then(|(path, _)| path.parent())
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        self.0.iter().for_each(|(path, node)| set(names, path, *node));
    }
}

fn set(names: &mut BTreeMap<PathBuf, Node>, path: &Path, node: Option<Node>) {
    match node {
        Some(node) => names.insert(path.to_path_buf(), node),
        None => names.remove(path),
    };
}

/// Where every path begins: it is always there.
fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

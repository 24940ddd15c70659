//! Nodes: made, changed, dropped. Directories are not kept: one is there as long as there is a node below it.

use std::ops::Bound;

use crate::config::Config;
use crate::ids::NodeNumber;
use crate::limits::NODES_MAX;
use crate::outcome::{Notice, Outcome};
use crate::path::Path;
use crate::state::{Coord, Node};
use crate::status::{Refusal, Status, refuse};

impl Coord {
    pub(crate) fn create_node(&mut self, path: &str, config: &Config, placed: u64) -> Result<Outcome, Refusal> {
        let path = parse(path)?;
        if self.paths.contains_key(&path) {
            // As YDB answers: it is there, and stays as it is (coordination 10).
            return Ok(Outcome::Done);
        }
        path.check()?;
        if placed <= self.given_up && self.given_up > 0 {
            return refuse(Status::Unavailable, format!("the place of {path} was given up meanwhile: try again"));
        }
        if self.is_directory(&path) {
            return refuse(Status::SchemeError, format!("{path} is a directory"));
        }
        if let Some(parent) = path.parents().find(|parent| self.find_node(parent).is_some()) {
            return refuse(Status::SchemeError, format!("/{parent} is a coordination node, not a directory"));
        }
        if self.nodes.len() >= NODES_MAX {
            return refuse(Status::PreconditionFailed, format!("{NODES_MAX} coordination nodes are the limit"));
        }
        self.last_node += 1;
        let number = NodeNumber(self.last_node);
        self.paths.insert(path.clone(), number);
        self.nodes.insert(number, Node::new(path, *config));
        Ok(Outcome::Done)
    }

    pub(crate) fn alter_node(&mut self, path: &str, config: &Config) -> Result<Outcome, Refusal> {
        let number = self.known(path)?;
        let node = self.nodes.get_mut(&number).expect("paths name nodes");
        if let Some(cut) = &mut self.cut {
            cut.save_node(number, node);
        }
        node.config.merge(config);
        Ok(Outcome::Done)
    }

    /// Its sessions need not have ended (coordination 26).
    pub(crate) fn drop_node(&mut self, path: &str, placed: u64, notices: &mut Vec<Notice>) -> Result<Outcome, Refusal> {
        let number = self.known(path)?;
        self.give_up(placed);
        let node = self.nodes.remove(&number).expect("paths name nodes");
        self.paths.remove(&node.path);
        self.bytes -= node.bytes();
        if let Some(cut) = &mut self.cut {
            cut.keep_node(number, node);
        }
        notices.push(Notice::NodeGone { node: number });
        Ok(Outcome::Done)
    }

    /// Nodes that are there stay, whatever the number of their places.
    pub(crate) fn give_up(&mut self, placed: u64) -> Outcome {
        self.given_up = self.given_up.max(placed);
        Outcome::Done
    }

    /// The last place of the map for which no node is made any more.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Whether a node lies below the path.
    #[must_use]
    pub fn has_directory(&self, path: &Path) -> bool {
        self.is_directory(path)
    }

    pub(crate) fn see_node(&self, path: &str) -> Result<Outcome, Refusal> {
        self.known(path).map(|_| Outcome::Done)
    }

    /// The node whose rate limiter is meant (coordination 211).
    pub(crate) fn limiting_node(&self, path: &str) -> Result<NodeNumber, Refusal> {
        let path = parse(path)?;
        match self.paths.get(&path) {
            Some(&number) => Ok(number),
            None if self.is_directory(&path) => refuse(Status::BadRequest, format!("{path} is no coordination node")),
            None => refuse(Status::SchemeError, format!("there is no {path}")),
        }
    }

    fn known(&self, path: &str) -> Result<NodeNumber, Refusal> {
        let path = parse(path)?;
        match self.paths.get(&path) {
            Some(&number) => Ok(number),
            None if self.is_directory(&path) => refuse(Status::SchemeError, format!("{path} is a directory")),
            None => refuse(Status::SchemeError, format!("there is no {path}")),
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        // What is inside need not be the next one: `a-b` stands between `a` and `a/b`.
        let after = self.paths.range((Bound::Excluded(path), Bound::Unbounded));
        after.take_while(|(other, _)| other.as_str().starts_with(path.as_str())).any(|(other, _)| other.is_inside(path))
    }
}

fn parse(path: &str) -> Result<Path, Refusal> {
    Path::parse(path).ok_or_else(|| Refusal::new(Status::BadRequest, "the path is empty"))
}

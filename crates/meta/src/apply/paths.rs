//! Which coordination group a path has.
//!
//! A node is made in two steps: its path gets a place here, then its group makes it. It goes in two steps as well: its group drops
//! it and promises to make none for that place any more, then the place is forgotten here. So the map has every path that any
//! group has, whatever is lost in between, and says alone what is a directory.

use std::collections::BTreeMap;
use std::ops::Bound;

use shardine_model::{ErrorCode, GroupKind, Refusal, ShardId};

use crate::change::Change;
use crate::limits::{PATH_BYTES_MAX, PATHS_MAX};
use crate::map::{Map, Place};
use crate::reply::Reply;
use crate::state::{Meta, refused};

impl Meta {
    /// The first place stands, until its group has given it up and asks for another one.
    pub(super) fn place_path(
        &mut self,
        path: String,
        instead_of: u64,
        group: Option<ShardId>,
    ) -> Result<Reply, Refusal> {
        let group = match self.map.paths.get(&path) {
            Some(place) if place.placed != instead_of => return Ok(Reply::Place(*place)),
            Some(place) => place.group,
            None => {
                check(&path)?;
                self.map.check_free(&path)?;
                self.map.group_for_path(group)?
            }
        };
        let place = Place { group, placed: self.map.version + 1 };
        self.publish(vec![Change::Path(path, Some(place))]);
        Ok(Reply::Place(place))
    }

    /// Nothing happens to a path that was placed anew meanwhile.
    pub(super) fn forget_path(&mut self, path: String, placed: u64) -> Reply {
        if self.map.paths.get(&path).is_some_and(|place| place.placed == placed) {
            self.publish(vec![Change::Path(path, None)]);
        }
        Reply::Done
    }

    pub(super) fn find_path(&self, path: &str) -> Result<Reply, Refusal> {
        match self.map.paths.get(path) {
            Some(place) => Ok(Reply::Place(*place)),
            None => refused(ErrorCode::NotFound, format!("{path} has no place")),
        }
    }
}

/// One text for each path: whoever asks has taken needless slashes away.
fn check(path: &str) -> Result<(), Refusal> {
    if path.len() > PATH_BYTES_MAX {
        return refused(ErrorCode::TooLarge, format!("a path has at most {PATH_BYTES_MAX} bytes"));
    }
    let is_fit = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !part.is_empty()));
    if is_fit { Ok(()) } else { refused(ErrorCode::BadRequest, format!("{path:?} is no path of a node")) }
}

impl Map {
    /// Whether there is a node below a path: it is a directory then.
    #[must_use]
    pub fn is_directory(&self, path: &str) -> bool {
        // What is inside need not be the next one: `/a-b` stands between `/a` and `/a/b`.
        let inside = format!("{path}/");
        let next = self.paths.range::<str, _>((Bound::Included(inside.as_str()), Bound::Unbounded)).next();
        next.is_some_and(|(other, _)| other.starts_with(&inside))
    }

    fn check_free(&self, path: &str) -> Result<(), Refusal> {
        if self.is_directory(path) {
            return refused(ErrorCode::Exists, format!("{path} is a directory"));
        }
        let parents = path.rmatch_indices('/').map(|(at, _)| &path[..at]);
        match parents.into_iter().find(|parent| self.paths.contains_key(*parent)) {
            Some(parent) => refused(ErrorCode::Exists, format!("{parent} is a coordination node, not a directory")),
            None => Ok(()),
        }
    }

    /// The wanted group, or the one with the fewest paths.
    fn group_for_path(&self, wanted: Option<ShardId>) -> Result<ShardId, Refusal> {
        if self.paths.len() >= PATHS_MAX {
            return refused(ErrorCode::TooLarge, format!("{PATHS_MAX} coordination nodes are the limit"));
        }
        let groups = self.groups.keys().copied().filter(|group| group.kind() == GroupKind::Coordination);
        let mut paths: BTreeMap<ShardId, usize> = groups.map(|group| (group, 0)).collect();
        if let Some(group) = wanted {
            let is_there = paths.contains_key(&group);
            let refusal = || Refusal::new(ErrorCode::NotFound, format!("there is no coordination group {group}"));
            return if is_there { Ok(group) } else { Err(refusal()) };
        }
        for place in self.paths.values() {
            paths.entry(place.group).and_modify(|count| *count += 1);
        }
        let emptiest = paths.into_iter().min_by_key(|(group, count)| (*count, *group));
        emptiest.map_or_else(
            || refused(ErrorCode::Unsupported, "the cluster has no coordination group"),
            |(group, _)| Ok(group),
        )
    }
}

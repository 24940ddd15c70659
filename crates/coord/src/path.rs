//! Paths of coordination nodes: compared by their components, so slashes at the ends and doubled ones mean nothing.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{PATH_DEPTH_MAX, PATH_NAME_BYTES_MAX};
use crate::status::{Refusal, Status, refuse};

/// What a name may hold besides letters and digits.
const MARKS: &[u8] = b"!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~";

/// A path without needless slashes. Invariant: at least one component, none empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Box<str>);

impl Path {
    /// `None` if there is no component in it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| Self(parts.join("/").into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it lies inside of `other`, and is not `other` itself.
    #[must_use]
    pub fn is_inside(&self, other: &Path) -> bool {
        self.0.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Its place among so many groups. For ever the same: a node is looked for where it was made.
    #[must_use]
    pub fn place(&self, groups: usize) -> usize {
        (xxh3_64(self.0.as_bytes()) % groups.max(1) as u64) as usize
    }

    /// The directories above it, the nearest first.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.rmatch_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// The rules for what may be made (coordination 30).
    pub fn check(&self) -> Result<(), Refusal> {
        if self.0.split('/').count() > PATH_DEPTH_MAX {
            return refuse(Status::SchemeError, format!("a path has at most {PATH_DEPTH_MAX} parts"));
        }
        match self.0.split('/').find(|name| !is_name(name)) {
            Some(name) => refuse(Status::SchemeError, format!("{name:?} cannot be part of a path")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}", self.0)
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= PATH_NAME_BYTES_MAX
        && name.bytes().any(|byte| byte != b'.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || MARKS.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// coordination 213.
    #[test]
    fn slashes_that_mean_nothing_are_dropped() {
        let path = Path::parse("/local//locks/").unwrap();

        assert_eq!(Path::parse("local/locks"), Some(path.clone()));
        assert_eq!(path.to_string(), "/local/locks");
        assert_eq!(path.name(), "locks");
        assert_eq!(Path::parse("//"), None);
    }

    /// coordination 30.
    #[test]
    fn names_follow_the_rules() {
        let check = |text: &str| Path::parse(text).unwrap().check().map_err(|refusal| refusal.status);

        assert_eq!(check("local/a-b_c.d:e~"), Ok(()));
        assert_eq!(check("local/.hidden"), Ok(()));
        assert_eq!(check("local/with space"), Err(Status::SchemeError));
        assert_eq!(check("local/..."), Err(Status::SchemeError));
        assert_eq!(check("local/é"), Err(Status::SchemeError));
        assert_eq!(check(&"x".repeat(255)), Ok(()));
        assert_eq!(check(&"x".repeat(256)), Err(Status::SchemeError));
        assert_eq!(check(&vec!["d"; 32].join("/")), Ok(()));
        assert_eq!(check(&vec!["d"; 33].join("/")), Err(Status::SchemeError));
    }

    /// Other numbers would lose the nodes of every data directory with more than one group.
    #[test]
    fn a_path_belongs_to_a_group_for_ever() {
        let place = |text: &str| Path::parse(text).unwrap().place(4);

        assert_eq!(["/local/a", "/local/b", "/local/c", "/local/d", "local//a/"].map(place), [1, 0, 2, 2, 1]);
        assert_eq!(Path::parse("/local/a").unwrap().place(1), 0);
    }

    #[test]
    fn parents_come_nearest_first() {
        let path = Path::parse("/local/team/locks").unwrap();

        assert_eq!(path.parents().collect::<Vec<_>>(), ["local/team", "local"]);
        assert!(path.is_inside(&Path::parse("local").unwrap()));
        assert!(!path.is_inside(&Path::parse("loc").unwrap()));
    }
}

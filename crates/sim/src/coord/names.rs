//! The semaphores that a run plays with: few, so that clients meet on them.

use shardine_coord::EPHEMERAL_LIMIT;

/// Where everything happens, and where operators make and drop nodes meanwhile.
pub const PATH: &str = "/local/locks";
pub const SIDE_PATH: &str = "/local/side";

/// A semaphore that everybody knows. Its limit is the same however often it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: &'static str,
    pub limit: u64,
    pub ephemeral: bool,
    /// May be deleted while it is held. Nobody is told then, so what was told before says nothing afterwards.
    pub is_scrap: bool,
}

const fn lasting(text: &'static str, limit: u64) -> Name {
    Name { text, limit, ephemeral: false, is_scrap: false }
}

const fn passing(text: &'static str) -> Name {
    Name { text, limit: EPHEMERAL_LIMIT, ephemeral: true, is_scrap: false }
}

pub const NAMES: [Name; 6] = [
    lasting("door", 1),
    lasting("gate", 3),
    lasting("pool", 5),
    passing("lock"),
    passing("mutex"),
    Name { is_scrap: true, ..lasting("scrap", 2) },
];

//! Every maximum of coordination in one place. Those of YDB are part of the contract (coordination 0).

/// Milliseconds that a detached session may live.
pub const SESSION_TIMEOUT_MS_MAX: u64 = 1_800_000;

pub const DESCRIPTION_BYTES_MAX: usize = 1_024;

pub const PROTECTION_KEY_BYTES_MAX: usize = 16;

pub const SESSIONS_MAX: usize = 1_000_000;

/// Bytes of a semaphore's name.
pub const SEMAPHORE_NAME_BYTES_MAX: usize = 1_024;

/// Bytes of a semaphore's data, and of what an acquire brings along.
pub const DATA_BYTES_MAX: usize = 1 << 20;

pub const SEMAPHORES_MAX: usize = 1_000_000;

/// Milliseconds that an acquire may wait, unless it waits for ever.
pub const ACQUIRE_TIMEOUT_MS_MAX: u64 = 86_400_000;

/// The timeout of an acquire that waits until it is served.
pub const FOREVER_MS: u64 = u64::MAX;

/// The limit of an ephemeral semaphore: taking all of it is an exclusive lock.
pub const EPHEMERAL_LIMIT: u64 = u64::MAX;

/// Resources of a node's rate limiter.
pub const RESOURCES_MAX: usize = 100_000;

/// Bytes of a resource's path; it has as many parts at most as a node's.
pub const RESOURCE_PATH_BYTES_MAX: usize = 1_024;

/// Requests for units that wait in one group.
pub const UNIT_WAITERS_MAX: usize = 100_000;

/// Bytes of one component of a node's path, and how many components there may be.
pub const PATH_NAME_BYTES_MAX: usize = 255;
pub const PATH_DEPTH_MAX: usize = 32;

/// Coordination nodes of one group. Their names and settings open every snapshot, so they should stay a small thing.
pub const NODES_MAX: usize = 10_000;

/// Bytes of one group's state. YDB's own limits multiply to more than any machine has: a million semaphores of a megabyte.
/// Above this nothing may grow, and everything may still be released, deleted and expire.
pub const STATE_BYTES_MAX: u64 = 1 << 30;

/// What one session, semaphore, claim or resource costs besides the bytes that it was given: maps, links and numbers.
pub const SESSION_COST: u64 = 160;
pub const SEMAPHORE_COST: u64 = 256;
pub const CLAIM_COST: u64 = 160;
pub const RESOURCE_COST: u64 = 256;

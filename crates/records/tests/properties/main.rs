//! What holds for every history: replicas agree however they came to their state, and a simple model agrees with them.

#![allow(clippy::unwrap_used, clippy::type_complexity, reason = "a test may fail where it stands")]

mod agreement;
mod cut;
mod history;
mod index;
mod model;
mod scan;
mod sessions;
mod wide;
#[path = "../support/snapshots.rs"]
mod snapshots;

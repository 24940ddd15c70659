//! The client in a world of hosts without a network, on a clock that jumps from event to event: what takes a minute takes no
//! time, and what comes first comes first every time.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod calls;
mod claims;
mod counts;
mod failures;
mod fire;
mod map;
mod modes;
mod providers;
mod standing;
mod world;

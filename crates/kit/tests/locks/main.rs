//! Claims in real stores: one suite for PostgreSQL, MariaDB, SQLite and Shardine's semaphores (kit A-51), and what only
//! a table can show.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod discovery;
mod fire;
mod rig;
mod suite;
mod tables;

//! What every database behind the back door must do, told through the public handle. Each story runs on each database
//! that `Rig::each` knows; stories that need one database's own ways stand in a file of its name.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod family;
mod flush;
mod load;
mod guest;
mod mapped;
mod order;
mod overtime;
mod owner;
mod plans;
mod purge;
mod rig;
mod scan;
mod schema;
mod service;
mod sqlite;
mod tls;
mod types;

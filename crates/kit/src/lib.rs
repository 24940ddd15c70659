//! A kit for teams that write their own sharded, replicated cache services (`docs/kit.md`).
//!
//! A service answers one request: `Get(keys) -> values`, and every server of it has a part of the key space in memory. A team
//! describes its request once ([`Request`]) and has the client: it knows which host serves what and learns it from every
//! reply, asks all replicas at once or one after the other, takes the first answer per key, and comes through restarts, slow
//! hosts and lost data centres. Its servers claim shards ([`Claim`]) in an SQL table or on semaphores of Shardine, and guard
//! what they answer ([`Shard`]).
//!
//! ```no_run
//! use shardine_kit::provider::Fixed;
//! use shardine_kit::{Client, Options, Request};
//!
//! # async fn example<Names: Request<Key = String>>(names: Names) -> anyhow::Result<()> {
//! let hosts = Fixed::new(["10.0.0.1:4100", "10.0.1.1:4100"]);
//! let client = Client::start(names, hosts, Options::default());
//!
//! let found = client.get(&["lili".to_owned(), "bob".to_owned()]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Answers are as old as what the servers have read: the kit keeps no data and agrees on none. For strongly consistent
//! records there is Shardine itself.

#![deny(missing_docs)]

// In the order in which a newcomer should read them.
mod request;
mod options;
mod client;
mod host;
pub mod provider;

mod error;
mod metrics;
mod panics;
mod trace;

mod server;
pub mod claim;

pub mod core;
pub mod wire;

pub use claim::{Claim, ClaimOptions};
pub use client::{Client, Partial};
pub use core::call::{Cause, Fate, Mode};
pub use core::interval::{Cut, Interval};
pub use core::shard::Hold;
pub use core::tenure::{Times, WhileSilent};
pub use error::{Error, HostStatus, Tried, Why};
pub use host::{Dial, Host};
pub use metrics::{ClientMetrics, HostMetrics, ShardMetrics};
pub use options::{How, Options};
pub use request::{Reply, Request};
pub use server::{Answer, Identity, Shard};
pub use trace::{Asked, Trace};

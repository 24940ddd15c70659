//! A client for Rust services: [`records`], straight at the leader of each row (`docs/records.md`), and coordination (locks, leader
//! election, discovery, small configuration), over the same YDB API that YDB's own SDKs use (`docs/coordination.md`).
//!
//! A [`Client`] knows where a cluster is: one address or several, and it hears of the other nodes. A [`Session`] lives on the server and keeps itself alive from here: it answers
//! pings, comes back after a lost connection, by another node if its own is gone, sends again what was not answered, and says when it is over. Everything held
//! is held by a session and goes with it.
//!
//! ```no_run
//! use shardine_client::{Acquire, Client, NodeSettings, SessionOptions};
//!
//! # async fn example() -> Result<(), shardine_client::Error> {
//! let client = Client::new("127.0.0.1:7400")?;
//! client.create_node("/local/locks", NodeSettings::default()).await?;
//! let session = client.start_session("/local/locks", SessionOptions::default()).await?;
//!
//! if session.acquire("nightly-report", Acquire::exclusive().ephemeral()).await? {
//!     tokio::select! {
//!         () = write_the_report() => {}
//!         // Somebody else may hold it now: stop believing in it.
//!         end = session.over() => eprintln!("the lock is lost: {end:?}"),
//!     }
//! }
//! session.stop().await?;
//! # Ok(())
//! # }
//! # async fn write_the_report() {}
//! ```
//!
//! `examples/` has the three recipes of the service's description, and fencing, which is what makes a lock safe for whatever
//! lies outside of it.

#![deny(missing_docs)]

// In the order in which a newcomer should read them.
mod client;
mod session;
pub mod records;
// What they speak of.
mod error;
mod node;
mod semaphore;
// How they speak.
mod connections;
mod dial;
mod doors;

pub use client::Client;
pub use error::{Error, Status};
pub use node::{Consistency, NodeSettings};
pub use records::Records;
pub use semaphore::{Acquire, Change, Claim, Delete, Include, Semaphore, Watch};
pub use session::{Follow, Session, SessionOptions, State, Watching};

//! Recipe: several workers choose a leader among themselves, and all of them know who it is.
//!
//! ```sh
//! cargo run -p shardine-client --example leader_election -- worker-1 &
//! cargo run -p shardine-client --example leader_election -- worker-2 &
//! ```
//!
//! Kill the leader: the other one takes over when the leader's session has expired.

#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::time::Duration;

use anyhow::{Context, Result};
use shardine_client::{Acquire, Client, Error, NodeSettings, Session, SessionOptions, Status, Watch};

const NODE: &str = "/local/recipes";
const SEMAPHORE: &str = "my-service-leader";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let me = std::env::args().nth(1).context("usage: leader_election NAME")?;
    let server = std::env::var("SHARDINE_SERVER").unwrap_or_else(|_| "127.0.0.1:7400".to_owned());
    let client = Client::new(&server)?;
    client.create_node(NODE, NodeSettings::default()).await?;
    let options =
        SessionOptions { timeout: Duration::from_secs(3), description: me.clone(), ..SessionOptions::default() };
    let session = client.start_session(NODE, options).await?;
    // One token, so one leader. Whoever comes first makes it.
    match session.create(SEMAPHORE, 1, "").await {
        Ok(()) | Err(Error::Refused { status: Status::AlreadyExists, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    tokio::select! {
        outcome = lead(&session, &me) => outcome?,
        outcome = follow(&session) => outcome?,
        end = session.over() => println!("the session is over: {end:?}"),
    }
    Ok(())
}

/// Waits in line, with this worker's name for the others to read, and leads when it is its turn.
async fn lead(session: &Session, me: &str) -> Result<(), Error> {
    session.acquire(SEMAPHORE, Acquire::tokens(1).data(me)).await?;
    // For whatever lies outside: see the example `fencing`.
    let fence = session.fence(SEMAPHORE).await?.unwrap_or_default();
    println!("I lead, with order {fence}");
    // The work of a leader goes here. It ends with the session (`main`), and never by itself.
    std::future::pending().await
}

/// Tells who leads, now and after every change.
async fn follow(session: &Session) -> Result<(), Error> {
    let mut leaders = session.follow(SEMAPHORE, Watch::OWNERS);
    loop {
        match leaders.next().await?.owners.first() {
            Some(leader) => println!("{} leads", String::from_utf8_lossy(&leader.data)),
            None => println!("nobody leads"),
        }
    }
}

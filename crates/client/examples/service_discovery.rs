//! Recipe: workers publish their endpoints while they live; clients follow the list.
//!
//! ```sh
//! cargo run -p shardine-client --example service_discovery -- publish 10.0.0.1:80 &
//! cargo run -p shardine-client --example service_discovery -- publish 10.0.0.2:80 &
//! cargo run -p shardine-client --example service_discovery -- follow
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::time::Duration;

use anyhow::{Result, bail};
use shardine_client::{Acquire, Client, Error, NodeSettings, Session, SessionOptions, Status, Watch};

const NODE: &str = "/local/recipes";
const SEMAPHORE: &str = "my-service-endpoints";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let server = std::env::var("SHARDINE_SERVER").unwrap_or_else(|_| "127.0.0.1:7400".to_owned());
    let client = Client::new(&server)?;
    client.create_node(NODE, NodeSettings::default()).await?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["publish", endpoint] => publish(&client, endpoint).await?,
        ["follow"] => follow(&open(&client).await?).await?,
        _ => bail!("usage: service_discovery publish ENDPOINT, or service_discovery follow"),
    }
    Ok(())
}

/// A session with the semaphore there: so many tokens that nobody ever waits for one.
async fn open(client: &Client) -> Result<Session, Error> {
    let options = SessionOptions { timeout: Duration::from_secs(3), ..SessionOptions::default() };
    let session = client.start_session(NODE, options).await?;
    match session.create(SEMAPHORE, u64::MAX, "").await {
        Ok(()) | Err(Error::Refused { status: Status::AlreadyExists, .. }) => Ok(session),
        Err(error) => Err(error),
    }
}

/// Stands in the list for as long as this process lives; with a new session if it lost one.
async fn publish(client: &Client, endpoint: &str) -> Result<(), Error> {
    loop {
        let session = open(client).await?;
        session.acquire(SEMAPHORE, Acquire::tokens(1).data(endpoint)).await?;
        println!("published {endpoint}");
        session.over().await;
    }
}

async fn follow(session: &Session) -> Result<(), Error> {
    let mut lists = session.follow(SEMAPHORE, Watch::OWNERS);
    loop {
        let owners = lists.next().await?.owners;
        let mut endpoints: Vec<_> = owners.iter().map(|owner| String::from_utf8_lossy(&owner.data)).collect();
        endpoints.sort();
        println!("endpoints: {}", endpoints.join(" "));
    }
}

//! Fencing: a record that only the newest owner of a semaphore can write.
//!
//! A lock alone cannot protect what lies outside of it: an owner that stood still for long enough (a paused machine, a slow
//! disk) finds itself writing after its session has expired and somebody else holds the lock. So every write carries the
//! owner's `order_id`, which grows from owner to owner, and the record refuses one that is lower than it has seen.
//!
//! ```sh
//! shardine table create jobs --field fence:uint64 --field result:string
//! cargo run -p shardine-client --example fencing
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use anyhow::{Context, Result};
use shardine_client::records::{Change, ErrorCode, Row};
use shardine_client::{Acquire, Client, NodeSettings, Session, SessionOptions};

const NODE: &str = "/local/recipes";
const LOCK: &str = "nightly-job";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = std::env::var("SHARDINE_SERVER").unwrap_or_else(|_| "127.0.0.1:7400".to_owned());
    let client = Client::new(&server)?;
    client.create_node(NODE, NodeSettings::default()).await?;

    let (first, old_fence) = take_lock(&client).await?;
    println!("the first owner has order {old_fence}: {}", write(&client, old_fence, "from the first").await?);
    println!("and writes again: {}", write(&client, old_fence, "from the first, once more").await?);

    // As if its session had expired while it stood still: the lock goes to the next, and it does not know.
    first.stop().await?;
    let (_second, new_fence) = take_lock(&client).await?;
    println!("the second owner has order {new_fence}: {}", write(&client, new_fence, "from the second").await?);
    println!("the first goes on with order {old_fence}: {}", write(&client, old_fence, "too late").await?);
    Ok(())
}

async fn take_lock(client: &Client) -> Result<(Session, u64)> {
    let session = client.start_session(NODE, SessionOptions::default()).await?;
    session.acquire(LOCK, Acquire::exclusive().ephemeral()).await?;
    let fence = session.fence(LOCK).await?.context("the lock was lost at once")?;
    Ok((session, fence))
}

/// One atomic batch: the record's fence rises to ours, must then be ours, and the result is written. Whoever comes with a
/// lower one fails at the second step, and nothing of the batch is done.
async fn write(client: &Client, fence: u64, result: &str) -> Result<&'static str> {
    let row = Row::new("jobs", "nightly");
    let raise = Change::update(row.clone()).max("fence", fence).or_create();
    let prove = Change::cas(row.clone(), "fence", fence, fence);
    let set = Change::set(row, [("result", result)]);
    match client.records().batch(vec![raise, prove, set]).await {
        Ok(_) => Ok("written"),
        Err(refusal) if refusal.code() == Some(ErrorCode::CasMismatch) => Ok("refused"),
        Err(failure) => Err(failure.into()),
    }
}

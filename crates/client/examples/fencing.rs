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

use anyhow::{Context, Result, bail};
use shardine_client::{Acquire, Client, NodeSettings, Session, SessionOptions};
use shardine_proto::v1;
use shardine_proto::v1::batch_item::Item;
use shardine_proto::v1::operation::Operator;
use shardine_proto::v1::value::Kind;

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
    let row = || Some(v1::Row { table: "jobs".into(), key: b"nightly".to_vec(), sort: Vec::new() });
    let value = |kind| Some(v1::Value { kind: Some(kind) });
    let raise = v1::UpdateRequest {
        row: row(),
        operations: vec![v1::Operation {
            field: "fence".into(),
            operator: Some(Operator::Max(v1::Value { kind: Some(Kind::Uint64(fence)) })),
        }],
        create: true,
        ..v1::UpdateRequest::default()
    };
    let prove = v1::CasRequest {
        row: row(),
        field: "fence".into(),
        old: value(Kind::Uint64(fence)),
        new: value(Kind::Uint64(fence)),
        ..v1::CasRequest::default()
    };
    let field = v1::Field { name: "result".into(), value: value(Kind::String(result.into())), raw_name: Vec::new() };
    let set = v1::SetRequest { row: row(), fields: vec![field], ..v1::SetRequest::default() };
    let items = [Item::Update(raise), Item::Cas(prove), Item::Set(set)];
    let items = items.into_iter().map(|item| v1::BatchItem { item: Some(item) }).collect();
    match client.records().batch(v1::BatchRequest { items, ..v1::BatchRequest::default() }).await {
        Ok(_) => Ok("written"),
        Err(refusal) if is_cas_mismatch(&refusal) => Ok("refused"),
        Err(failure) => bail!("{failure}"),
    }
}

fn is_cas_mismatch(refusal: &tonic::Status) -> bool {
    refusal.metadata().get(shardine_proto::CODE_METADATA).is_some_and(|code| code == "cas_mismatch")
}

//! Recipe: a small configuration that workers take up as soon as it changes.
//!
//! ```sh
//! cargo run -p shardine-client --example configuration -- follow &
//! cargo run -p shardine-client --example configuration -- publish 'workers = 8'
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use anyhow::{Result, bail};
use shardine_client::{Client, Error, NodeSettings, Session, SessionOptions, Status, Watch};

const NODE: &str = "/local/recipes";
const SEMAPHORE: &str = "my-service-config";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let server = std::env::var("SHARDINE_SERVER").unwrap_or_else(|_| "127.0.0.1:7400".to_owned());
    let client = Client::new(&server)?;
    client.create_node(NODE, NodeSettings::default()).await?;
    let session = client.start_session(NODE, SessionOptions::default()).await?;
    // Nobody acquires it; only its data matters.
    match session.create(SEMAPHORE, 1, "").await {
        Ok(()) | Err(Error::Refused { status: Status::AlreadyExists, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["publish", text] => {
            session.update(SEMAPHORE, text).await?;
            session.stop().await?;
        }
        ["follow"] => follow(&session).await?,
        _ => bail!("usage: configuration publish TEXT, or configuration follow"),
    }
    Ok(())
}

async fn follow(session: &Session) -> Result<(), Error> {
    let mut versions = session.follow(SEMAPHORE, Watch::DATA);
    loop {
        let found = versions.next().await?;
        println!("configuration: {}", String::from_utf8_lossy(&found.data));
    }
}

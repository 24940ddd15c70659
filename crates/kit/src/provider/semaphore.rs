//! Service discovery by Shardine: hosts hold a token of one semaphore with their address as data (`docs/coordination.md`).

use std::time::Duration;

use shardine_client::{Acquire, Client, Include, NodeSettings, Session, SessionOptions, Status};
use tokio::sync::Mutex;

use super::{Error, Listing, Provider};

/// Follows the owners of a semaphore.
#[derive(Debug)]
pub struct Discovery {
    place: SemaphoreRef,
    session: Mutex<Option<Session>>,
}

/// Which semaphore, on which node.
#[derive(Clone, Debug)]
struct SemaphoreRef {
    client: Client,
    node: String,
    semaphore: String,
}

impl Discovery {
    /// The owners of this semaphore of this node.
    pub fn new(client: Client, node: impl Into<String>, semaphore: impl Into<String>) -> Self {
        let place = SemaphoreRef { client, node: node.into(), semaphore: semaphore.into() };
        Self { place, session: Mutex::new(None) }
    }

    async fn owners(&self) -> Result<Vec<String>, shardine_client::Error> {
        let mut kept = self.session.lock().await;
        if kept.as_ref().is_none_or(|session| session.state().is_over()) {
            *kept = Some(self.place.open(SessionOptions::default().timeout).await?);
        }
        let Some(session) = kept.as_ref() else { return Ok(Vec::new()) };
        let found = session.describe(&self.place.semaphore, Include { owners: true, waiters: false }).await?;
        let mut hosts: Vec<String> =
            found.owners.into_iter().filter_map(|owner| String::from_utf8(owner.data).ok()).collect();
        hosts.sort();
        hosts.dedup();
        Ok(hosts)
    }
}

impl Provider for Discovery {
    fn hosts(&self) -> Listing<'_> {
        Box::pin(async { self.owners().await.map_err(|error| Error::new(&self.place.semaphore, error)) })
    }
}

impl SemaphoreRef {
    /// A session with the semaphore there: so many tokens that nobody ever waits for one.
    async fn open(&self, timeout: Duration) -> Result<Session, shardine_client::Error> {
        self.client.create_node(&self.node, NodeSettings::default()).await?;
        let options = SessionOptions { timeout, ..SessionOptions::default() };
        let session = self.client.start_session(&self.node, options).await?;
        match session.create(&self.semaphore, u64::MAX, "").await {
            Err(error) if error.status() != Some(Status::AlreadyExists) => Err(error),
            _ => Ok(session),
        }
    }

    /// Holds a token with this address until the session is over.
    async fn stand(&self, address: &str, timeout: Duration) -> Result<(), shardine_client::Error> {
        let session = self.open(timeout).await?;
        session.acquire(&self.semaphore, Acquire::tokens(1).data(address)).await?;
        session.over().await;
        Ok(())
    }
}

/// Stands in the list with this address for as long as the future lives, with a new session whenever one is lost. The host
/// leaves the list `timeout` after its last sign of life.
pub async fn announce(client: Client, node: &str, semaphore: &str, address: &str, timeout: Duration) {
    let place = SemaphoreRef { client, node: node.to_owned(), semaphore: semaphore.to_owned() };
    loop {
        if let Err(error) = place.stand(address, timeout).await {
            tracing::warn!(%address, %error, "not in the list of hosts");
            // Whatever keeps it from the list need not be asked for it without a pause.
            tokio::time::sleep(timeout / 3).await;
        }
    }
}

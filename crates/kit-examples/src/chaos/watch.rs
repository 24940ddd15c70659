//! Asks every server again and again what it serves, beside all clients, and lets the verdict know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use super::verdict::{Seen, Verdict};
use crate::goals::HitsBatch;
use crate::goals::goals_matcher_client::GoalsMatcherClient;

const PERIOD: Duration = Duration::from_millis(100);
/// Whoever takes longer is not well.
const PATIENCE: Duration = Duration::from_millis(400);

/// Watches for as long as what it returns lives.
pub fn start(addresses: &[String], verdict: &Arc<Mutex<Verdict>>) -> anyhow::Result<JoinSet<()>> {
    let mut watching = JoinSet::new();
    for (server, address) in addresses.iter().enumerate() {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
        watching.spawn(watch(server, channel, Arc::clone(verdict)));
    }
    Ok(watching)
}

async fn watch(server: usize, channel: Channel, verdict: Arc<Mutex<Verdict>>) {
    let mut stub = GoalsMatcherClient::new(channel);
    loop {
        let sent = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, stub.match_sharded(HitsBatch { hits: Vec::new() })).await;
        let shard = answer.ok().and_then(Result::ok).and_then(|answer| answer.into_inner().shard);
        let seen = Seen { sent, heard: Instant::now(), shard };
        verdict.lock().unwrap_or_else(PoisonError::into_inner).see(server, seen);
        tokio::time::sleep(PERIOD).await;
    }
}

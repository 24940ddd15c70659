//! Many clients that each do the same thing over and over.

use std::time::Instant;

use anyhow::Result;
use tokio::task::JoinSet;

/// How often all clients together did something before the time was up.
pub async fn count<C, F>(
    clients: Vec<C>,
    until: Instant,
    act: impl Fn(C, usize) -> F + Clone + Send + 'static,
) -> Result<f64>
where
    C: Send + 'static,
    F: Future<Output = Result<C>> + Send,
{
    let mut running = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let act = act.clone();
        running.spawn(async move {
            let mut times = 0;
            while Instant::now() < until {
                client = act(client, number).await?;
                times += 1;
            }
            anyhow::Ok(times)
        });
    }
    let mut all = 0;
    for times in running.join_all().await {
        all += times?;
    }
    Ok(f64::from(all))
}

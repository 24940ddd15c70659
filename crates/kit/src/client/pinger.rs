//! The round of all hosts: reads the list again, and asks everybody on it, known or new, what it serves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Heard, Inner};
use crate::host::Host;
use crate::provider::{Error, Provider};
use crate::request::Request;

/// Pings at once. More would only wait for each other in one process.
const AT_ONCE: usize = 256;

/// Asks around once per period, and more often while a call waits for a host, until the client is gone.
pub(super) async fn run<R: Request>(client: Weak<Inner<R>>, provider: Box<dyn Provider>) {
    loop {
        let begun = Instant::now();
        let Some(inner) = client.upgrade() else { return };
        round(&inner, provider.as_ref()).await;
        let (usual, quick) = (begun + inner.options.ping_period, begun + inner.options.search_period);
        let quick = quick.min(usual);
        if inner.waiting.load(Ordering::Relaxed) == 0 {
            tokio::select! {
                () = sleep_until(usual) => continue,
                () = inner.wait_begun.notified() => {}
            }
        }
        sleep_until(quick).await;
    }
}

async fn round<R: Request>(inner: &Arc<Inner<R>>, provider: &dyn Provider) {
    // A provider that hangs must not keep the hosts that are known from being asked.
    let listed = timeout(inner.options.ping_period, provider.hosts()).await;
    match listed.unwrap_or_else(|_| Err(Error::new("the provider", "no list within a period"))) {
        Ok(list) if list.is_empty() => inner.metrics.failed_lists.one(),
        Ok(list) => {
            let dial = &inner.options.dial;
            inner.map().set_hosts(&list, |address, slot| Arc::new(Host::new(address, slot, dial.clone())));
            inner.changes.send_replace(());
        }
        Err(error) => {
            inner.metrics.failed_lists.one();
            tracing::warn!(%error, "the list of hosts cannot be read, the last one is kept");
        }
    }
    let hosts: Vec<Arc<Host>> = inner.map().hosts().cloned().collect();
    stream::iter(hosts).for_each_concurrent(AT_ONCE, |host| ping(inner, host)).await;
}

async fn ping<R: Request>(inner: &Inner<R>, host: Arc<Host>) {
    inner.metrics.pings.one();
    let sent = inner.next_sent();
    let asked = inner.request.encode(&[]);
    match timeout(inner.options.host_timeout, inner.request.call(&host, asked)).await {
        Ok(outcome) => {
            if let Heard::Failed(status) = inner.learn(&host, sent, outcome) {
                inner.metrics.failed_pings.one();
                tracing::debug!(host = host.address(), %status, "ping failed");
            }
        }
        Err(_) => {
            inner.metrics.failed_pings.one();
            host.doubt(inner.now());
        }
    }
}

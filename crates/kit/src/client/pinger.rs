//! The round of all hosts: reads the list again, and asks everybody on it, known or new, what it serves. A list that hangs
//! keeps nobody from being asked, and a panic in the service's code or in the provider's fails what it was in.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;

use super::{Heard, Inner};
use crate::host::Host;
use crate::options::PERIOD_MIN;
use crate::panics;
use crate::provider::{Error, Listing, Provider};
use crate::request::Request;

/// Pings at once. More would only wait for each other in one process.
const AT_ONCE: usize = 256;
/// "Never", where a clock has to be able to count to it.
const LONG: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Asks around once per period, and more often while a call waits for a host, until it is dropped.
pub(super) async fn run<R: Request>(inner: Arc<Inner<R>>, provider: Box<dyn Provider>) {
    let mut listing: Option<Listing<'_>> = None;
    let mut pings = Pings::new(&inner);
    loop {
        let begun = Instant::now();
        if listing.is_none() {
            listing = Some(read(provider.as_ref(), inner.options.ping_period.max(PERIOD_MIN)));
        }
        let known: Vec<Arc<Host>> = inner.map().hosts().cloned().collect();
        pings.ask(known);
        loop {
            let is_waited_for = inner.waiting.load(Ordering::Relaxed) > 0;
            tokio::select! {
                biased;
                listed = next_of(&mut listing) => {
                    listing = None;
                    pings.ask(take_over(&inner, listed));
                }
                Some(address) = pings.running.next() => { pings.asked.remove(&address); }
                () = sleep_until(due(&inner, begun, is_waited_for)) => break,
                () = inner.wait_begun.notified(), if !is_waited_for => {}
            }
        }
    }
}

/// When the next round begins.
fn due<R: Request>(inner: &Inner<R>, begun: Instant, is_waited_for: bool) -> Instant {
    let usual = inner.options.ping_period.min(LONG);
    let period = if is_waited_for { usual.min(inner.options.search_period) } else { usual };
    begun + period.max(PERIOD_MIN)
}

/// Reads the list, within a period.
fn read(provider: &dyn Provider, period: Duration) -> Listing<'_> {
    Box::pin(async move {
        let listed = timeout(period, panics::caught(async { provider.hosts().await })).await;
        let listed = listed.map_err(|_| Error::new("the provider", "no list within a period"))?;
        listed.map_err(|panic| Error::new("the provider", panic))?
    })
}

async fn next_of(listing: &mut Option<Listing<'_>>) -> Result<Vec<String>, Error> {
    match listing {
        Some(listing) => listing.await,
        None => std::future::pending().await,
    }
}

/// Takes the list over into the map, and says who is new. One that cannot be read, or is empty, leaves the last in place.
fn take_over<R: Request>(inner: &Inner<R>, listed: Result<Vec<String>, Error>) -> Vec<Arc<Host>> {
    let mut new = Vec::new();
    match listed {
        Ok(list) if list.is_empty() => inner.metrics.failed_lists.one(),
        Ok(list) => {
            inner.map().set_hosts(&list, |address, slot| {
                let host = Arc::new(Host::new(address, slot, &inner.options));
                new.push(Arc::clone(&host));
                host
            });
            inner.changes.send_replace(());
        }
        Err(error) => {
            inner.metrics.failed_lists.one();
            tracing::warn!(%error, "the list of hosts cannot be read, the last one is kept");
        }
    }
    new
}

type Pinging = Pin<Box<dyn Future<Output = Arc<str>> + Send>>;

/// Pings on their way: one at a time to each host.
struct Pings<R> {
    inner: Arc<Inner<R>>,
    running: FuturesUnordered<Pinging>,
    asked: BTreeSet<Arc<str>>,
    at_once: Arc<Semaphore>,
}

impl<R: Request> Pings<R> {
    fn new(inner: &Arc<Inner<R>>) -> Self {
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        Self { inner: Arc::clone(inner), running: FuturesUnordered::new(), asked: BTreeSet::new(), at_once }
    }

    fn ask(&mut self, hosts: Vec<Arc<Host>>) {
        for host in hosts {
            let address: Arc<str> = Arc::from(host.address());
            if self.asked.insert(Arc::clone(&address)) {
                let (inner, at_once) = (Arc::clone(&self.inner), Arc::clone(&self.at_once));
                self.running.push(Box::pin(async move {
                    // Never closed.
                    let _permit = at_once.acquire().await;
                    ping(&inner, host).await;
                    address
                }));
            }
        }
    }
}

async fn ping<R: Request>(inner: &Inner<R>, host: Arc<Host>) {
    inner.metrics.pings.one();
    let (sent, within) = (inner.next_sent(), inner.options.host_timeout);
    let asking = panics::caught(async { inner.call(&host, inner.request.encode(&[]), within).await });
    match timeout(within, asking).await {
        Ok(outcome) => {
            let outcome = outcome.unwrap_or_else(|panic| Err(Status::internal(panic)));
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

//! The client of a service: what it knows, and what it learns. One call is in `fetch.rs`, the round of all hosts in
//! `pinger.rs`; what they decide is decided in `core`.

mod fetch;
mod pinger;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::{Response, Status};

use crate::core::budget::{Budget, Shares};
use crate::core::map::{Map, News, Report, Trust};
use crate::core::moment::{Moment, micros};
use crate::core::plan::Rated;
use crate::core::view::View;
use crate::error::Error;
use crate::host::Host;
use crate::metrics::{ClientCounters, ClientMetrics, HostMetrics};
use crate::options::{How, Options};
use crate::panics;
use crate::provider::Provider;
use crate::request::{Reply, Request};
use crate::trace::Trace;
use crate::wire;
use fetch::Fetch;

/// What was found, by id.
pub type Found<R> = HashMap<<R as Request>::Id, <R as Request>::Value>;
/// Why not everything was.
pub type Failure<R> = Error<<R as Request>::Id>;

/// What was found, and what was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial<I: Eq + std::hash::Hash, V> {
    /// By id.
    pub found: HashMap<I, V>,
    /// In the order of the keys.
    pub missing: Vec<I>,
}

/// A client of a service. Clones are the same client; with the last of them it stops to ask hosts what they serve. Needs
/// tokio's runtime.
pub struct Client<R: Request> {
    inner: Arc<Inner<R>>,
    _pinger: Arc<Pinger>,
}

impl<R: Request> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), _pinger: Arc::clone(&self._pinger) }
    }
}

impl<R: Request> std::fmt::Debug for Client<R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// The task that asks around; ends with the last client.
struct Pinger(JoinHandle<()>);

impl Drop for Pinger {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) struct Inner<R> {
    request: R,
    options: Options,
    map: Mutex<Map<Arc<Host>>>,
    /// Wakes those who wait for a host when the map has changed.
    changes: watch::Sender<()>,
    budget: Mutex<Budget>,
    started: Instant,
    last_sent: AtomicU64,
    /// Calls that wait for a host; while there are any, hosts are asked more often.
    waiting: AtomicUsize,
    wait_begun: Notify,
    metrics: ClientCounters,
}

/// gRPC writes a timeout down in eight digits; a day is long enough for anybody.
const GRPC_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What came of a request, as it is counted: each of them ends in one of these ways.
#[derive(Clone, Copy)]
enum End {
    Answered,
    Refused,
    Failed,
    TimedOut,
    Cancelled,
    Late,
}

/// What a host answered, once the map knows it too.
pub(crate) enum Heard<R: Request> {
    Reply(Reply<R::Id, R::Value>),
    Failed(Status),
}

impl<R: Request> Client<R> {
    /// Begins to ask around. Calls may be made at once: they wait until their hosts are known.
    pub fn start(request: R, provider: impl Provider, options: Options) -> Self {
        let inner = Arc::new(Inner {
            request,
            map: Mutex::default(),
            changes: watch::Sender::new(()),
            budget: Mutex::new(Budget::new(Shares {
                hedge_percent: options.hedge_percent,
                retry_percent: options.retry_percent,
                retry_reserve: options.retry_reserve,
            })),
            started: Instant::now(),
            last_sent: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            wait_begun: Notify::new(),
            metrics: ClientCounters::default(),
            options,
        });
        let pinger = tokio::spawn(pinger::run(Arc::clone(&inner), Box::new(provider)));
        Self { inner, _pinger: Arc::new(Pinger(pinger)) }
    }

    /// The values of all keys.
    ///
    /// # Errors
    ///
    /// If a single key is without a value at the end, the error names it, and nothing is returned.
    pub async fn get(&self, keys: &[R::Key]) -> Result<Found<R>, Failure<R>> {
        self.get_how(keys, How::default()).await
    }

    /// The same, otherwise than the client usually asks.
    pub async fn get_how(&self, keys: &[R::Key], how: How) -> Result<Found<R>, Failure<R>> {
        let Some(fetch) = self.fetch(keys, how)? else { return Ok(HashMap::new()) };
        fetch.run().await.strict().0
    }

    /// Whatever is found, and what is not.
    ///
    /// # Errors
    ///
    /// [`Error::Duplicate`] only.
    pub async fn get_partial(&self, keys: &[R::Key], how: How) -> Result<Partial<R::Id, R::Value>, Failure<R>> {
        match self.fetch(keys, how)? {
            Some(fetch) => Ok(fetch.run().await.partial()),
            None => Ok(Partial { found: HashMap::new(), missing: Vec::new() }),
        }
    }

    /// As [`Client::get_how`], and what was done for it. Without a trace, nothing was.
    pub async fn get_traced(&self, keys: &[R::Key], how: How) -> (Result<Found<R>, Failure<R>>, Option<Trace<R::Id>>) {
        match self.fetch(keys, how) {
            Ok(Some(fetch)) => {
                let (outcome, trace) = fetch.run().await.strict();
                (outcome, Some(trace()))
            }
            Ok(None) => (Ok(HashMap::new()), None),
            Err(error) => (Err(error), None),
        }
    }

    /// A call that has something to ask for.
    fn fetch<'a>(&'a self, keys: &'a [R::Key], how: How) -> Result<Option<Fetch<'a, R>>, Failure<R>> {
        self.inner.metrics.calls.one();
        if keys.is_empty() {
            return Ok(None);
        }
        Fetch::new(&self.inner, keys, how).map(Some)
    }

    /// What the client has done so far.
    #[must_use]
    pub fn metrics(&self) -> ClientMetrics {
        self.inner.metrics.snapshot()
    }

    /// The same by host, for those that are on the list now.
    #[must_use]
    pub fn host_metrics(&self) -> Vec<(String, HostMetrics)> {
        self.inner.map().hosts().map(|host| (host.address().to_owned(), host.metrics().snapshot())).collect()
    }

    /// All counters as Prometheus reads them, those of hosts with the label `host`.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        self.metrics().to_prometheus() + &HostMetrics::to_prometheus_by("host", &self.host_metrics())
    }

    /// What each host is known to serve, by address. Hosts that nothing is known of are not in it.
    #[must_use]
    pub fn hosts(&self) -> Vec<(String, wire::Shard)> {
        let map = self.inner.map();
        let known = map.hosts().filter_map(|host| Some((host.address(), map.known(host.address())?)));
        known.map(|(address, shard)| (address.to_owned(), shard.clone().into())).collect()
    }

    /// Waits until what is known of the hosts is as wanted. For tests and for programs that start slowly on purpose; calls
    /// wait by themselves.
    pub async fn wait_for_hosts(&self, mut is_wanted: impl FnMut(&[(String, wire::Shard)]) -> bool) {
        let mut changes = self.inner.changes.subscribe();
        while !is_wanted(&self.hosts()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

impl<R: Request> Inner<R> {
    pub(crate) fn now(&self) -> Moment {
        Moment::from_micros(micros(self.started.elapsed()))
    }

    fn map(&self) -> MutexGuard<'_, Map<Arc<Host>>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> Arc<View<Arc<Host>>> {
        self.map().view()
    }

    fn next_sent(&self) -> u64 {
        self.last_sent.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes in what a host answered, whatever the answer was for: the map is repaired from every reply.
    fn learn(&self, host: &Arc<Host>, sent: u64, outcome: Result<Response<R::Answered>, Status>) -> Heard<R> {
        let decoded = outcome.and_then(|answered| {
            let decoded = panics::caught_now(|| self.request.decode(answered.into_inner()));
            // It would panic the next time too.
            decoded.unwrap_or_else(|panic| Err(Status::data_loss(format!("decode {panic}"))))
        });
        match decoded {
            Ok(mut reply) => {
                if let Some(shard) = reply.shard.take() {
                    self.report(host, sent, shard);
                }
                Heard::Reply(reply)
            }
            Err(status) => {
                match wire::stamped(&status) {
                    Some(shard) => self.report(host, sent, shard),
                    None => host.doubt(self.now()),
                }
                Heard::Failed(status)
            }
        }
    }

    /// Calls the service's stub, with the time that is left as the request's timeout. A panic of it is its failure.
    async fn call(&self, host: &Host, message: R::Asked, within: Duration) -> Result<Response<R::Answered>, Status> {
        let mut asked = tonic::Request::new(message);
        asked.set_timeout(within.min(GRPC_TIMEOUT_MAX));
        let called = panics::caught(async { self.request.call(host, asked).await }).await;
        called.unwrap_or_else(|panic| Err(Status::internal(format!("call {panic}"))))
    }

    /// Counts what came of a request, once.
    fn count(&self, host: &Host, end: End) {
        let (all, of_host) = (&self.metrics, host.metrics());
        let counters = match end {
            End::Answered => [&all.answers, &of_host.answers],
            End::Refused => [&all.refusals, &of_host.refusals],
            End::Failed => [&all.errors, &of_host.errors],
            End::TimedOut => [&all.timeouts, &of_host.timeouts],
            End::Cancelled => [&all.cancelled, &of_host.cancelled],
            End::Late => [&all.late_replies, &of_host.late_replies],
        };
        counters.into_iter().for_each(crate::metrics::Counter::one);
    }

    fn report(&self, host: &Arc<Host>, sent: u64, shard: wire::Shard) {
        let now = self.now();
        let silence = host.standing(now).last_good.map(|last| now.since(last));
        let trust = match silence.is_some_and(|silence| silence > self.options.activity().silence_max) {
            true => Trust::Anything,
            false => Trust::NewerOnly,
        };
        let report = Report { shard: shard.into(), sent };
        let news = self.map().report(host.slot(), host.address(), report, trust);
        if news != News::Old {
            host.heard(now);
        }
        if news == News::Changed {
            self.metrics.map_changes.one();
            self.changes.send_replace(());
        }
    }
}

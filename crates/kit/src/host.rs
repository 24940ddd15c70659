//! A host as the client keeps it: the way to it, and how it did lately.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use crate::core::latency::Latency;
use crate::core::map::Slot;
use crate::core::moment::{Moment, micros};
use crate::core::plan::{Rated, Standing};
use crate::metrics::HostCounters;
use crate::options::Options;

/// Says how to connect to an address, for services with settings of their own (TLS, say).
pub type Dial = Arc<dyn Fn(&str) -> Result<Endpoint, tonic::transport::Error> + Send + Sync>;

/// How long a host is avoided after it let somebody wait: first so long, then twice as long each time, until it answers.
const AVOIDED_MIN: Duration = Duration::from_millis(100);
const AVOIDED_MAX: Duration = Duration::from_secs(10);
/// "Never", where a moment is kept as a number.
const NEVER: u64 = u64::MAX;
/// The moving mean of what a request costs takes an eighth of each new one.
const MEAN_SHARE: u64 = 8;

/// A host of the service.
pub struct Host {
    address: Arc<str>,
    slot: Slot,
    dial: Option<Dial>,
    reply_bytes_max: usize,
    channel: OnceLock<Channel>,
    in_flight: AtomicU32,
    last_good: AtomicU64,
    cost: AtomicU64,
    p95: AtomicU64,
    latency: Mutex<Latency>,
    avoided_until: AtomicU64,
    /// How often in a row it let somebody wait.
    doubts: AtomicU32,
    /// The same for answers without all values, and for errors: a ping that it answers does not make up for them.
    short_until: AtomicU64,
    shortfalls: AtomicU32,
    metrics: HostCounters,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Host({})", self.address)
    }
}

impl Host {
    pub(crate) fn new(address: &Arc<str>, slot: Slot, options: &Options) -> Self {
        Self {
            address: Arc::clone(address),
            slot,
            dial: options.dial.clone(),
            reply_bytes_max: options.reply_bytes_max,
            channel: OnceLock::new(),
            in_flight: AtomicU32::new(0),
            last_good: AtomicU64::new(NEVER),
            cost: AtomicU64::new(0),
            p95: AtomicU64::new(NEVER),
            latency: Mutex::new(Latency::default()),
            avoided_until: AtomicU64::new(0),
            doubts: AtomicU32::new(0),
            short_until: AtomicU64::new(0),
            shortfalls: AtomicU32::new(0),
            metrics: HostCounters::default(),
        }
    }

    /// As the provider named it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The connection to it, for a stub of tonic's: made when it is first used, and made again when it is lost.
    ///
    /// # Panics
    ///
    /// Outside of tokio's runtime.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.get_or_init(|| self.endpoint().connect_lazy()).clone()
    }

    /// The largest reply that the client wants of it ([`Options::reply_bytes_max`]), for the stub's `max_decoding_message_size`.
    #[must_use]
    pub fn reply_bytes_max(&self) -> usize {
        self.reply_bytes_max
    }

    fn endpoint(&self) -> Endpoint {
        let made = match &self.dial {
            Some(dial) => dial(&self.address),
            None => Endpoint::from_shared(with_scheme(&self.address)),
        };
        made.unwrap_or_else(|error| {
            // An address that is none cannot be reached, like one where nobody listens.
            tracing::warn!(address = %self.address, %error, "not an address");
            Endpoint::from_static("http://0.0.0.0:0")
        })
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// Counts a request that is on its way, for as long as what it returns lives.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// It has answered.
    pub(crate) fn heard(&self, now: Moment) {
        self.last_good.store(now.micros(), Ordering::Relaxed);
        self.doubts.store(0, Ordering::Relaxed);
        self.avoided_until.store(0, Ordering::Relaxed);
    }

    /// How long an answer with all values took.
    pub(crate) fn took(&self, time: Duration) {
        self.shortfalls.store(0, Ordering::Relaxed);
        self.short_until.store(0, Ordering::Relaxed);
        let (took, before) = (micros(time), self.cost.load(Ordering::Relaxed));
        let mean = if before == 0 { took } else { before - before / MEAN_SHARE + took / MEAN_SHARE };
        self.cost.store(mean.max(1), Ordering::Relaxed);
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.record(took);
        self.p95.store(latency.p95().unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// It let somebody wait, or failed.
    pub(crate) fn doubt(&self, now: Moment) {
        if now.micros() < self.avoided_until.load(Ordering::Relaxed) {
            return;
        }
        let doubts = self.doubts.fetch_add(1, Ordering::Relaxed);
        self.avoided_until.store(now.after(avoided_for(doubts)).micros(), Ordering::Relaxed);
    }

    /// It answered, and had not all values.
    pub(crate) fn fell_short(&self, now: Moment) {
        if now.micros() < self.short_until.load(Ordering::Relaxed) {
            return;
        }
        let shortfalls = self.shortfalls.fetch_add(1, Ordering::Relaxed);
        self.short_until.store(now.after(avoided_for(shortfalls)).micros(), Ordering::Relaxed);
    }

    pub(crate) fn metrics(&self) -> &HostCounters {
        &self.metrics
    }
}

impl Rated for Arc<Host> {
    fn standing(&self, now: Moment) -> Standing {
        self.as_ref().standing(now)
    }
}

impl Rated for Host {
    fn standing(&self, now: Moment) -> Standing {
        let known = |value: &AtomicU64| Some(value.load(Ordering::Relaxed)).filter(|value| *value != NEVER);
        Standing {
            last_good: known(&self.last_good).map(Moment::from_micros),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            cost: self.cost.load(Ordering::Relaxed),
            is_suspect: now.micros() < self.avoided_until.load(Ordering::Relaxed)
                || now.micros() < self.short_until.load(Ordering::Relaxed),
            p95: known(&self.p95),
        }
    }
}

/// A request that is on its way.
pub(crate) struct Busy(Arc<Host>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// For how long, after it has failed so often before.
fn avoided_for(times: u32) -> Duration {
    (AVOIDED_MIN * (1 << times.min(10))).min(AVOIDED_MAX)
}

fn with_scheme(address: &str) -> String {
    match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Arc<Host> {
        Arc::new(Host::new(&Arc::from("a:1"), Slot(0), &Options::default()))
    }

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1_000)
    }

    #[test]
    fn a_host_is_avoided_for_longer_each_time_until_it_answers() {
        let host = host();

        host.doubt(at(0));
        assert!(host.standing(at(99)).is_suspect && !host.standing(at(100)).is_suspect);
        host.doubt(at(100));
        assert!(host.standing(at(299)).is_suspect && !host.standing(at(300)).is_suspect);
        host.heard(at(150));
        assert!(!host.standing(at(150)).is_suspect);
        host.doubt(at(200));
        assert!(!host.standing(at(300)).is_suspect);
    }

    /// Who is doubted by many at once has failed once.
    #[test]
    fn a_host_that_is_avoided_already_is_not_avoided_for_longer() {
        let (doubted, short) = (host(), host());

        for at in [at(0), at(50), at(99)] {
            doubted.doubt(at);
            short.fell_short(at);
        }
        for host in [doubted, short] {
            assert!(host.standing(at(99)).is_suspect && !host.standing(at(100)).is_suspect);
            host.doubt(at(100));
            host.fell_short(at(100));
            assert!(host.standing(at(299)).is_suspect);
        }
    }

    #[test]
    fn a_host_without_all_values_is_avoided_for_longer_each_time_until_it_has_them() {
        let host = host();
        host.fell_short(at(0));
        host.fell_short(at(100));
        host.heard(at(150));
        assert!(
            host.standing(at(299)).is_suspect && !host.standing(at(300)).is_suspect,
            "a ping does not make up for it"
        );
        host.fell_short(at(300));

        host.took(Duration::from_millis(1));

        assert!(!host.standing(at(300)).is_suspect);
        host.fell_short(at(400));
        assert!(host.standing(at(499)).is_suspect && !host.standing(at(500)).is_suspect, "it begins anew");
    }

    #[test]
    fn no_host_is_avoided_for_longer_than_ten_seconds() {
        let (host, mut now) = (host(), 0);
        for _ in 0..40 {
            host.doubt(at(now));
            now += 10_000;
            assert!(!host.standing(at(now)).is_suspect);
        }
        assert!(host.standing(at(now - 1)).is_suspect);
    }

    /// One slow answer does not make a host dear, and one quick answer does not make it cheap.
    #[test]
    fn a_hosts_cost_is_a_moving_mean() {
        let host = host();
        let took = |millis| {
            host.took(Duration::from_millis(millis));
            host.standing(at(0)).cost
        };

        assert_eq!([took(8), took(80), took(0)], [8_000, 17_000, 14_875]);
    }

    #[test]
    fn a_request_counts_for_as_long_as_it_is_on_its_way() {
        let host = host();

        let busy = host.busy();
        assert_eq!(host.standing(at(0)).in_flight, 1);
        drop(busy);

        assert_eq!(host.standing(at(0)).in_flight, 0);
    }
}

//! The guard of what a server answers: every `Get` goes through it, and nothing is answered that is not served at that
//! moment. Reads no data itself.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tonic::Status;

use crate::claim::Lease;
use crate::core::interval::Interval;
use crate::core::moment::micros;
use crate::core::shard::{self, Hold};
use crate::metrics::{ShardCounters, ShardMetrics};
use crate::wire;

/// Who a server is. The host is its address, as clients are to find it, and unique: it is what a restarted server gets its
/// shard back by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The data centre.
    pub dc: String,
    /// The address.
    pub host: String,
}

impl Identity {
    /// A server of this data centre at this address.
    pub fn new(dc: impl Into<String>, host: impl Into<String>) -> Self {
        Self { dc: dc.into(), host: host.into() }
    }
}

/// What this server serves. Clones are the same shard.
#[derive(Clone, Debug)]
pub struct Shard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    identity: Identity,
    incarnation: u64,
    serving: RwLock<Serving>,
    metrics: ShardCounters,
}

#[derive(Clone, Debug)]
struct Serving {
    epoch: u64,
    interval: Interval,
    /// The claim, for as long as it is proven; `None` where a service has no claims.
    lease: Option<(u32, Lease)>,
}

/// What goes into the reply's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<V> {
    /// Empty if not all keys matched.
    pub values: Vec<V>,
    /// Whether all keys are of this shard.
    pub all_matched: bool,
    /// What is served, for the reply.
    pub shard: wire::Shard,
}

impl Shard {
    /// A server that serves nothing yet.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, micros);
        Self::with_incarnation(identity, started)
    }

    /// The same with a number of one's own, which has to grow with every start of this host.
    #[must_use]
    pub fn with_incarnation(identity: Identity, incarnation: u64) -> Self {
        let serving = RwLock::new(Serving { epoch: 0, interval: Interval::EMPTY, lease: None });
        Self { inner: Arc::new(Inner { identity, incarnation, serving, metrics: ShardCounters::default() }) }
    }

    /// Serves this from now on, without a claim: somebody else sees to it that nobody else in the data centre does.
    pub fn serve(&self, interval: Interval) {
        self.change(interval, None);
    }

    /// Serves this for as long as a claim holds ([`crate::Claim::open`]).
    pub(crate) fn serve_under(&self, interval: Interval, hold: Hold, lease: Lease) {
        self.change(interval, Some((hold.shard, lease)));
    }

    /// Serves nothing from now on.
    pub fn vacate(&self) {
        self.change(Interval::EMPTY, None);
    }

    fn change(&self, interval: Interval, lease: Option<(u32, Lease)>) {
        let mut serving = self.inner.serving.write().unwrap_or_else(PoisonError::into_inner);
        *serving = Serving { epoch: serving.epoch + 1, interval, lease };
    }

    /// What is served at this moment: nothing if the claim is not proven any more, also if nobody has noticed that yet.
    #[must_use]
    pub fn interval(&self) -> Interval {
        self.now().interval
    }

    /// The same as clients read it.
    #[must_use]
    pub fn describe(&self) -> wire::Shard {
        self.now().into()
    }

    /// What the guard has seen so far.
    #[must_use]
    pub fn metrics(&self) -> ShardMetrics {
        self.inner.metrics.snapshot()
    }

    fn now(&self) -> shard::Shard {
        let serving = self.inner.serving.read().unwrap_or_else(PoisonError::into_inner);
        let is_proven = serving.lease.as_ref().is_none_or(|(_, lease)| lease.is_proven());
        let Identity { dc, host } = self.inner.identity.clone();
        shard::Shard {
            dc,
            host,
            incarnation: self.inner.incarnation,
            epoch: serving.epoch,
            interval: if is_proven { serving.interval } else { Interval::EMPTY },
            hold: serving.lease.as_ref().map(|(shard, lease)| Hold { shard: *shard, generation: lease.generation() }),
        }
    }

    /// Answers a `Get`. `read` is called if all keys are of this shard, and has to bring one value per key. It is looked at
    /// again when the values are there: if the shard went away meanwhile, they are not given out. So the answer belongs to
    /// the one interval that it names.
    ///
    /// # Errors
    ///
    /// Those of `read`, with what this server serves added for the client.
    pub async fn get<K, V>(
        &self,
        keys: &[K],
        sharding_key: impl Fn(&K) -> u64,
        read: impl AsyncFnOnce(&[K]) -> Result<Vec<V>, Status>,
    ) -> Result<Answer<V>, Status> {
        let metrics = &self.inner.metrics;
        metrics.gets.one();
        let has_all = |interval: Interval| keys.iter().all(|key| interval.contains(sharding_key(key)));
        let before = self.now();
        if !has_all(before.interval) {
            metrics.refusals.one();
            return Ok(Answer { values: Vec::new(), all_matched: false, shard: before.into() });
        }
        if keys.is_empty() {
            return Ok(Answer { values: Vec::new(), all_matched: true, shard: before.into() });
        }
        let watched = Watched { shard: self, is_done: false };
        let read = read(keys).await;
        watched.done();
        let after = self.now();
        match read {
            Ok(_) if !has_all(after.interval) => {
                metrics.late_refusals.one();
                Ok(Answer { values: Vec::new(), all_matched: false, shard: after.into() })
            }
            Ok(values) => {
                metrics.keys.add(keys.len() as u64);
                Ok(Answer { values, all_matched: true, shard: after.into() })
            }
            Err(status) => {
                metrics.errors.one();
                Err(wire::stamp(status, &after.into()))
            }
        }
    }
}

/// Counts a request whose caller went away: its future is dropped where it stands.
struct Watched<'a> {
    shard: &'a Shard,
    is_done: bool,
}

impl Watched<'_> {
    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shard.inner.metrics.cancelled.one();
        }
    }
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;

//! One call as it runs: performs what `core::call` decides, and brings it what comes of it. Runs in the caller's own task, so
//! that a call to one host costs no hand-over; whoever drops it cancels all that it has asked.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep_until};
use tonic::{Code, Response, Status};

use super::{End, Failure, Found, Heard, Inner, Partial};
use crate::core::call::{Action, Answer, Ask, AskId, Call, Cause, Fate, Mode, Step, Verdict};
use crate::core::moment::Moment;
use crate::error::{Error, HostStatus, Tried, Why};
use crate::host::Host;
use crate::options::How;
use crate::request::{Reply, Request};
use crate::trace::{self, Trace};

/// A request that has ended.
struct Completed<R: Request> {
    ask: AskId,
    host: Arc<Host>,
    sent: u64,
    took: Duration,
    outcome: Result<Response<R::Answered>, Status>,
}

type Asking<R> = Pin<Box<dyn Future<Output = Completed<R>> + Send>>;
type Asks<R> = FuturesUnordered<Abortable<Asking<R>>>;

/// A call on its way.
pub(super) struct Fetch<'a, R: Request> {
    inner: &'a Arc<Inner<R>>,
    keys: &'a [R::Key],
    numbers: HashMap<R::Id, u32>,
    values: Vec<Option<R::Value>>,
    /// Who brought the value.
    winners: Vec<Option<AskId>>,
    mode: Mode,
    call: Call<Arc<Host>>,
    asks: Asks<R>,
    /// By request that is on its way: how to take it back.
    handles: HashMap<AskId, AbortHandle>,
    /// By request: what its host said when it last failed.
    failures: HashMap<AskId, HostStatus>,
    actions: Vec<Action>,
    begun: Moment,
    map_version: u64,
}

impl<'a, R: Request> Fetch<'a, R> {
    /// A call for these keys, before anything is sent.
    pub(super) fn new(inner: &'a Arc<Inner<R>>, keys: &'a [R::Key], how: How) -> Result<Self, Failure<R>> {
        let mut numbers = HashMap::with_capacity(keys.len());
        for (number, key) in (0..).zip(keys) {
            match numbers.entry(inner.request.entry_id(key)) {
                Entry::Vacant(place) => drop(place.insert(number)),
                Entry::Occupied(taken) => return Err(Error::Duplicate { id: taken.key().clone() }),
            }
        }
        let bytes = keys.iter().map(|key| inner.request.key_bytes(key)).collect();
        let positions = keys.iter().map(|key| inner.request.sharding_key(key)).collect();
        let (mode, begun) = (how.mode.unwrap_or(inner.options.mode), inner.now());
        let call = Call::new(mode, inner.options.patience(&how), inner.options.activity(), positions, begun)
            .in_batches(inner.options.batch(), bytes);
        Ok(Self {
            inner,
            keys,
            numbers,
            values: keys.iter().map(|_| None).collect(),
            winners: vec![None; keys.len()],
            mode,
            call,
            asks: FuturesUnordered::new(),
            handles: HashMap::new(),
            failures: HashMap::new(),
            actions: Vec::new(),
            begun,
            map_version: 0,
        })
    }

    /// Runs to the verdict.
    pub(super) async fn run(mut self) -> Ended<'a, R> {
        let mut changes = self.inner.changes.subscribe();
        self.map_version = self.step(|call, step, out| call.search(step, out));
        let mut alarm = Box::pin(sleep_until(self.inner.started));
        let mut searcher = None;
        let verdict = loop {
            self.perform();
            if let Some(verdict) = self.call.verdict(self.inner.now()) {
                break verdict;
            }
            if self.call.is_searching() && searcher.is_none() {
                searcher = Some(Searcher::new(self.inner));
            } else if !self.call.is_searching() {
                searcher = None;
            }
            self.wait(alarm.as_mut(), &mut changes).await;
        };
        drop(searcher);
        self.leave();
        self.ended(verdict)
    }

    /// Waits for the next event, and takes it in.
    async fn wait(&mut self, mut alarm: Pin<&mut Sleep>, changes: &mut watch::Receiver<()>) {
        let wake_at = self.inner.started + Duration::from_micros(self.call.wake_at().micros());
        if alarm.deadline() != wake_at {
            alarm.as_mut().reset(wake_at);
        }
        tokio::select! {
            biased;
            Some(done) = self.asks.next() => {
                // What was taken back has nothing to say.
                if let Ok(done) = done {
                    self.take_in(done);
                }
            }
            _ = changes.changed(), if self.call.is_searching() => {
                self.step(|call, step, out| call.search(step, out));
            }
            () = alarm => {
                self.step(|call, step, out| call.tick(step, out));
            }
        }
    }

    /// Lets the call decide, on the map as it is now; says which map that was.
    fn step(&mut self, decide: impl FnOnce(&mut Call<Arc<Host>>, &Step<'_, Arc<Host>>, &mut Vec<Action>)) -> u64 {
        let view = self.inner.view();
        let step = Step { view: &view, now: self.inner.now(), roll: rand::random() };
        decide(&mut self.call, &step, &mut self.actions);
        view.version()
    }

    fn perform(&mut self) {
        let now = self.inner.now();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send(ask) => match self.is_allowed(ask, now) {
                    true => self.send(ask, now),
                    false => {
                        self.call.granted(ask, false, now);
                        self.inner.metrics.forgone_retries.one();
                    }
                },
                Action::Propose(ask) => {
                    let is_granted = self.budget(|budget| budget.grant_hedge(now));
                    self.call.granted(ask, is_granted, now);
                    match is_granted {
                        true => self.send(ask, now),
                        false => self.inner.metrics.forgone_hedges.one(),
                    }
                }
                Action::Cancel(ask) => {
                    // One that pauses is not on its way.
                    let Some(handle) = self.handles.remove(&ask) else { continue };
                    handle.abort();
                    let Ask { host, .. } = self.call.ask(ask);
                    match self.call.ask(ask).fate() {
                        Some(Fate::Cancelled) => self.inner.count(host, End::Cancelled),
                        _ => {
                            self.inner.count(host, End::TimedOut);
                            host.doubt(now);
                        }
                    }
                }
                Action::Suspect(ask) => self.call.ask(ask).host.doubt(now),
            }
        }
    }

    /// First requests always are, and so is a way to where keys have moved; what has failed is asked for within the budget.
    fn is_allowed(&self, ask: AskId, now: Moment) -> bool {
        let asked = self.call.ask(ask);
        if asked.is_retry() {
            return self.budget(|budget| budget.grant_retry(now));
        }
        if asked.cause == Cause::First {
            self.budget(|budget| budget.count(now));
        }
        true
    }

    fn budget<T>(&self, ask: impl FnOnce(&mut crate::core::budget::Budget) -> T) -> T {
        ask(&mut self.inner.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&mut self, ask: AskId, now: Moment) {
        let asked = self.call.ask(ask);
        let keys: Vec<&R::Key> = asked.keys.iter().map(|key| &self.keys[*key as usize]).collect();
        // Before anything is counted: what cannot be written down is no request.
        let message = self.inner.request.encode(&keys);
        let metrics = &self.inner.metrics;
        metrics.requests.one();
        asked.host.metrics().requests.one();
        if asked.cause == Cause::Hedge && asked.attempt == 1 {
            metrics.hedges.one();
        }
        if asked.is_retry() {
            metrics.retries.one();
        }
        let (handle, registration) = AbortHandle::new_pair();
        let within = self.call.time_left(now);
        let asking = asking(Arc::clone(self.inner), ask, Arc::clone(&asked.host), message, within);
        self.asks.push(Abortable::new(asking, registration));
        self.handles.insert(ask, handle);
    }

    /// A host has answered.
    fn take_in(&mut self, done: Completed<R>) {
        let Completed { ask, host, sent, took, outcome } = done;
        self.handles.remove(&ask);
        match self.inner.learn(&host, sent, outcome) {
            Heard::Reply(reply) if reply.all_matched => {
                self.inner.count(&host, End::Answered);
                let found = self.keep(ask, reply);
                match found.len() < self.call.ask(ask).keys.len() {
                    true => host.fell_short(self.inner.now()),
                    false => host.took(took),
                }
                self.step(|call, step, out| call.answer(ask, Answer::Found(&found), step, out));
            }
            Heard::Reply(_) => {
                self.inner.count(&host, End::Refused);
                self.step(|call, step, out| call.answer(ask, Answer::Refused, step, out));
            }
            Heard::Failed(status) => {
                tracing::debug!(host = host.address(), %status, "request failed");
                self.inner.count(&host, End::Failed);
                host.fell_short(self.inner.now());
                self.failures.insert(ask, HostStatus::from(&status));
                let again = may_pass(status.code());
                self.step(|call, step, out| call.answer(ask, Answer::Failed { again }, step, out));
            }
        }
    }

    /// Keeps the first value of each key, and says which keys the reply had, in ascending order.
    fn keep(&mut self, ask: AskId, reply: Reply<R::Id, R::Value>) -> Vec<u32> {
        let mut found = Vec::with_capacity(reply.values.len());
        for (id, value) in reply.values {
            // What this host was not asked for is no answer to anything: it need not be a key of its own.
            let is_asked = |number: &u32| self.call.ask(ask).keys.binary_search(number).is_ok();
            let Some(number) = self.numbers.get(&id).copied().filter(is_asked) else { continue };
            let place = &mut self.values[number as usize];
            match place {
                None => {
                    *place = Some(value);
                    self.winners[number as usize] = Some(ask);
                }
                Some(first) if *first != value => self.inner.metrics.divergent_replies.one(),
                Some(_) => {}
            }
            found.push(number);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where all were asked, whoever has not answered yet may still tell what it serves; nobody waits for that. Other modes
    /// take back what they have asked.
    fn leave(&mut self) {
        let asks = std::mem::take(&mut self.asks);
        if self.mode != Mode::All {
            return self.take_back();
        }
        let waiting: HashMap<AskId, Arc<Host>> =
            self.handles.drain().map(|(ask, _)| (ask, Arc::clone(&self.call.ask(ask).host))).collect();
        if !waiting.is_empty() {
            tokio::spawn(listen(Arc::clone(self.inner), asks, waiting));
        }
    }

    /// Counts what nobody waits for any more; it is dropped with the call.
    fn take_back(&mut self) {
        for (ask, _) in self.handles.drain() {
            self.inner.count(&self.call.ask(ask).host, End::Cancelled);
        }
    }

    fn ended(self, verdict: Verdict) -> Ended<'a, R> {
        let metrics = &self.inner.metrics;
        metrics.searches.add(self.call.searches().into());
        if verdict != Verdict::Found {
            metrics.failed_calls.one();
        }
        let took = self.inner.now().since(self.begun);
        tracing::debug!(
            keys = self.keys.len(),
            map = self.map_version,
            asked = self.call.asks().len(),
            searches = self.call.searches(),
            ?took,
            found = verdict == Verdict::Found,
            "get"
        );
        Ended { fetch: self, verdict, took }
    }
}

/// Whether the same may go better the next time: what the service says about the request itself is final.
fn may_pass(code: Code) -> bool {
    match code {
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
        Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => true,
    }
}

/// Whoever drops a call takes back all that it has asked.
impl<R: Request> Drop for Fetch<'_, R> {
    fn drop(&mut self) {
        self.take_back();
    }
}

fn asking<R: Request>(
    inner: Arc<Inner<R>>,
    ask: AskId,
    host: Arc<Host>,
    message: R::Asked,
    within: Duration,
) -> Asking<R> {
    Box::pin(async move {
        let (sent, begun, busy) = (inner.next_sent(), inner.now(), host.busy());
        let outcome = inner.call(&host, message, within).await;
        drop(busy);
        let took = inner.now().since(begun);
        Completed { ask, host, sent, took, outcome }
    })
}

/// Hears the rest of a call that has its answer: only the map and the hosts' standing learn from it.
async fn listen<R: Request>(inner: Arc<Inner<R>>, mut asks: Asks<R>, mut waiting: HashMap<AskId, Arc<Host>>) {
    let hearing = async {
        while let Some(done) = asks.next().await {
            let Ok(done) = done else { continue };
            waiting.remove(&done.ask);
            inner.count(&done.host, End::Late);
            match inner.learn(&done.host, done.sent, done.outcome) {
                Heard::Reply(reply) if reply.all_matched => done.host.took(done.took),
                Heard::Reply(_) => {}
                Heard::Failed(_) => done.host.fell_short(inner.now()),
            }
        }
    };
    // Whoever needs longer than a request may take is not waited for.
    let _ = tokio::time::timeout(inner.options.host_timeout, hearing).await;
    for host in waiting.values() {
        inner.count(host, End::TimedOut);
        host.doubt(inner.now());
    }
}

/// A call that waits for a host: as long as there is one, hosts are asked more often.
struct Searcher<'a, R>(&'a Inner<R>);

impl<'a, R> Searcher<'a, R> {
    fn new(inner: &'a Inner<R>) -> Self {
        inner.waiting.fetch_add(1, Ordering::Relaxed);
        inner.wait_begun.notify_one();
        Self(inner)
    }
}

impl<R> Drop for Searcher<'_, R> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a caller who wants all of it gets.
type Outcome<R> = Result<Found<R>, Failure<R>>;

/// A call with its verdict.
pub(super) struct Ended<'a, R: Request> {
    fetch: Fetch<'a, R>,
    verdict: Verdict,
    took: Duration,
}

impl<'a, R: Request> Ended<'a, R> {
    /// All values or an error, and how to tell what was done.
    pub(super) fn strict(self) -> (Outcome<R>, impl FnOnce() -> Trace<R::Id>) {
        let Ended { mut fetch, verdict, took } = self;
        let outcome = match verdict {
            Verdict::Found => Ok(found(&fetch.numbers, &mut fetch.values)),
            Verdict::NoShard(keys) => Err(Error::NoShard { ids: fetch.ids(&keys) }),
            Verdict::Missing(keys) => Err(Error::Missing { ids: fetch.ids(&keys), hosts: fetch.tried(&keys) }),
        };
        (outcome, move || fetch.trace(took))
    }

    pub(super) fn partial(mut self) -> Partial<R::Id, R::Value> {
        let open: Vec<u32> = (0..).take(self.fetch.keys.len()).filter(|key| self.fetch.call.is_open(*key)).collect();
        let missing = self.fetch.ids(&open);
        Partial { found: found(&self.fetch.numbers, &mut self.fetch.values), missing }
    }
}

fn found<I: Clone + Eq + std::hash::Hash, V>(numbers: &HashMap<I, u32>, values: &mut [Option<V>]) -> HashMap<I, V> {
    let taken = numbers.iter().filter_map(|(id, number)| Some((id.clone(), values[*number as usize].take()?)));
    taken.collect()
}

impl<R: Request> Fetch<'_, R> {
    fn ids(&self, keys: &[u32]) -> Vec<R::Id> {
        keys.iter().map(|key| self.inner.request.entry_id(&self.keys[*key as usize])).collect()
    }

    /// Everybody who was asked for one of these keys, which are in ascending order, and what came of it.
    fn tried(&self, keys: &[u32]) -> Vec<Tried> {
        let mut hosts: BTreeMap<Arc<str>, Why> = BTreeMap::new();
        for (id, ask) in self.call.asks().iter().enumerate() {
            if ask.keys.iter().any(|key| keys.binary_search(key).is_ok())
                && let Some(why) = self.why(id, ask)
            {
                hosts.insert(Arc::clone(&ask.address), why);
            }
        }
        hosts.into_iter().map(|(host, why)| Tried { host, why }).collect()
    }

    /// Why a request brought no value; nothing of one that was never sent.
    fn why(&self, id: AskId, ask: &Ask<Arc<Host>>) -> Option<Why> {
        let failure = self.failures.get(&id);
        Some(match (ask.fate(), failure) {
            (Some(Fate::Forgone), None) if ask.cause == Cause::Hedge => return None,
            (Some(Fate::Forgone), failure) => Why::Forgone(failure.cloned()),
            (Some(Fate::TimedOut), _) => Why::TimedOut,
            (Some(Fate::Answered), _) => Why::NoValue,
            (Some(Fate::Refused), _) => Why::Refused,
            // Another attempt was on its way, or about to be.
            (Some(Fate::Failed | Fate::Cancelled) | None, Some(failure)) => Why::Failed(failure.clone()),
            (Some(Fate::Failed | Fate::Cancelled) | None, None) => Why::Unfinished,
        })
    }

    fn trace(&self, took: Duration) -> Trace<R::Id> {
        let winner = |number: &u32| self.winners[*number as usize].map(|ask| &self.call.ask(ask).address);
        let answered = self.numbers.iter().filter_map(|(id, number)| Some((id.clone(), Arc::clone(winner(number)?))));
        Trace {
            map_version: self.map_version,
            took,
            asked: trace::asked(&self.call, &self.failures),
            searches: self.call.searches(),
            answered: answered.collect(),
        }
    }
}

//! One `Get` from the first request to the verdict: what is asked of whom, what an answer means, when somebody else is
//! asked, when it is over. Events and the time go in, actions come out; nothing is sent from here, and keys and hosts are
//! only numbers to it.

use std::sync::Arc;
use std::time::Duration;

use super::map::Slot;
use super::moment::Moment;
use super::plan::{Activity, Ground, Rated, Split, Wanted};
use super::view::{Member, View};

/// How many of the hosts that serve a key are asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every active one; the first answer wins.
    #[default]
    All,
    /// The best one, and a second one when it takes longer than it usually does.
    Hedge,
    /// The best one, and another only when it fails.
    One,
}

/// How long a call waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The whole call.
    pub deadline: Duration,
    /// One request to one host.
    pub host_timeout: Duration,
    /// Further requests to a host that failed.
    pub retries: u32,
    /// Before each of those; half of it is left to chance.
    pub retry_pause: Duration,
    /// Between two searches for a host that serves a key.
    pub search_pause: Duration,
    /// The bounds of what a second request waits for.
    pub hedge_delay_min: Duration,
    /// The upper one.
    pub hedge_delay_max: Duration,
}

/// A request's number in its call.
pub type AskId = usize;

/// Why a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first plan, or a search that found somebody.
    First,
    /// The host before took too long.
    Hedge,
    /// The host before failed, or had no value.
    Instead,
    /// The host before does not serve the keys any more.
    Moved,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves the keys, and answered.
    Answered,
    /// The host does not serve the keys.
    Refused,
    /// It, or the way to it, said so.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// Somebody else was quicker.
    Cancelled,
    /// A second request, or a retry, that the budget had no room for.
    Forgone,
}

/// How much one request carries.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// One at least.
    pub keys_max: usize,
    /// A key that is larger goes alone.
    pub bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A second request that waits for the budget's word.
    Proposed,
    Out {
        times_out: Moment,
        hedge_at: Option<Moment>,
    },
    /// Will be sent again.
    Pausing {
        until: Moment,
    },
    Done(Fate),
}

/// A request to one host.
#[derive(Clone, Debug)]
pub struct Ask<H> {
    /// Who is asked.
    pub host: H,
    /// Its address.
    pub address: Arc<str>,
    slot: Slot,
    version: u64,
    /// Keys by their number in the call, ascending.
    pub keys: Vec<u32>,
    /// Why it is sent.
    pub cause: Cause,
    /// 1 for the first time that it is sent.
    pub attempt: u32,
    state: State,
}

impl<H> Ask<H> {
    /// Whether it asks for what has failed: the budget is asked before it is sent.
    pub fn is_retry(&self) -> bool {
        self.attempt > 1 || self.cause == Cause::Instead
    }

    /// What came of it, if anything did yet.
    pub fn fate(&self) -> Option<Fate> {
        match self.state {
            State::Done(fate) => Some(fate),
            State::Proposed | State::Out { .. } | State::Pausing { .. } => None,
        }
    }
}

/// What a host answered.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// It serves all keys, and has a value for these.
    Found(&'a [u32]),
    /// It does not serve them.
    Refused,
    /// May go better the next time, or not.
    Failed {
        /// Whether it may go better.
        again: bool,
    },
}

/// What is to be done for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it.
    Send(AskId),
    /// Send it if the budget allows, and tell the call by [`Call::granted`].
    Propose(AskId),
    /// Take it back.
    Cancel(AskId),
    /// The host of this request is slow.
    Suspect(AskId),
}

/// How a call ends. Keys are in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All keys have a value.
    Found,
    /// All requests have ended, or the time has, and these keys have no value.
    Missing(Vec<u32>),
    /// The time has ended, and nobody is known to serve these keys.
    NoShard(Vec<u32>),
}

/// What a step of a call looks at.
pub struct Step<'a, H> {
    /// The map as it is now.
    pub view: &'a View<H>,
    /// The time.
    pub now: Moment,
    /// Chance.
    pub roll: u64,
}

/// A `Get`. Invariant: a key without a value is carried by a request that is on its way, or is being searched for, or is
/// lost: everybody known to serve it was asked, and somebody of them failed.
#[derive(Debug)]
pub struct Call<H> {
    mode: Mode,
    patience: Patience,
    activity: Activity,
    deadline: Moment,
    positions: Vec<u64>,
    /// Bytes of each key; without any, requests are not split.
    bytes: Vec<usize>,
    batch: Batch,
    is_open: Vec<bool>,
    open: usize,
    /// Of each key, how many requests on their way carry it.
    carried: Vec<u32>,
    asks: Vec<Ask<H>>,
    searching: Vec<u32>,
    search_at: Moment,
    searches: u32,
}

impl<H: Rated + Clone> Call<H> {
    /// A call with every key still to be searched for.
    #[must_use]
    pub fn new(mode: Mode, patience: Patience, activity: Activity, positions: Vec<u64>, now: Moment) -> Self {
        let keys = positions.len();
        Self {
            mode,
            patience,
            activity,
            deadline: now.after(patience.deadline),
            is_open: vec![true; keys],
            open: keys,
            carried: vec![0; keys],
            asks: Vec::new(),
            searching: (0..).take(keys).collect(),
            search_at: now,
            searches: 0,
            positions,
            bytes: Vec::new(),
            batch: Batch { keys_max: usize::MAX, bytes_max: usize::MAX },
        }
    }

    /// The same in requests that are no larger than this; `bytes` are those of each key.
    #[must_use]
    pub fn in_batches(self, batch: Batch, bytes: Vec<usize>) -> Self {
        Self { batch, bytes, ..self }
    }

    /// How long anybody waits for a request that is sent now.
    #[must_use]
    pub fn time_left(&self, now: Moment) -> Duration {
        self.deadline.since(now).min(self.patience.host_timeout)
    }

    /// The request of this number.
    #[must_use]
    pub fn ask(&self, id: AskId) -> &Ask<H> {
        &self.asks[id]
    }

    /// All requests, by number.
    #[must_use]
    pub fn asks(&self) -> &[Ask<H>] {
        &self.asks
    }

    /// Whether somebody is being searched for.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        !self.searching.is_empty()
    }

    /// Searches after the first, for keys that nobody served.
    #[must_use]
    pub fn searches(&self) -> u32 {
        self.searches.saturating_sub(1)
    }

    /// Whether this key has no value yet.
    #[must_use]
    pub fn is_open(&self, key: u32) -> bool {
        self.is_open[key as usize]
    }

    /// Looks for hosts of the keys that have none: at the beginning, when the map has changed, and from time to time.
    pub fn search(&mut self, step: &Step<'_, H>, out: &mut Vec<Action>) {
        self.searches += 1;
        self.search_at = step.now.after(self.patience.search_pause);
        let keys = std::mem::take(&mut self.searching);
        self.dispatch(keys, Cause::First, step, out);
    }

    /// Takes in an answer.
    pub fn answer(&mut self, id: AskId, answer: Answer<'_>, step: &Step<'_, H>, out: &mut Vec<Action>) {
        if !matches!(self.asks[id].state, State::Out { .. }) {
            return;
        }
        match answer {
            Answer::Found(found) => self.found(id, found, step, out),
            Answer::Refused => {
                let left = self.end(id, Fate::Refused);
                self.dispatch(left, Cause::Moved, step, out);
            }
            Answer::Failed { again } => self.failed(id, Fate::Failed, again, step, out),
        }
    }

    /// The budget's word about a second request, or about a retry.
    pub fn granted(&mut self, id: AskId, is_granted: bool, now: Moment) {
        match is_granted {
            true => self.asks[id].state = self.out(now, None),
            false => drop(self.end(id, Fate::Forgone)),
        }
    }

    /// Does whatever is due.
    pub fn tick(&mut self, step: &Step<'_, H>, out: &mut Vec<Action>) {
        for id in 0..self.asks.len() {
            match self.asks[id].state {
                State::Out { times_out, .. } if times_out <= step.now => {
                    out.push(Action::Cancel(id));
                    self.failed(id, Fate::TimedOut, true, step, out);
                }
                State::Out { times_out, hedge_at: Some(at) } if at <= step.now => {
                    self.asks[id].state = State::Out { times_out, hedge_at: None };
                    out.push(Action::Suspect(id));
                    self.hedge(id, step, out);
                }
                State::Pausing { until } if until <= step.now => {
                    self.asks[id].state = self.out(step.now, None);
                    out.push(Action::Send(id));
                }
                State::Proposed | State::Out { .. } | State::Pausing { .. } | State::Done(_) => {}
            }
        }
        if self.is_searching() && self.search_at <= step.now {
            self.search(step, out);
        }
    }

    /// When [`Call::tick`] has to be called next.
    #[must_use]
    pub fn wake_at(&self) -> Moment {
        let asks = self.asks.iter().filter_map(|ask| match ask.state {
            State::Out { times_out, hedge_at } => Some(hedge_at.map_or(times_out, |at| at.min(times_out))),
            State::Pausing { until } => Some(until),
            State::Proposed | State::Done(_) => None,
        });
        let search = self.is_searching().then_some(self.search_at);
        asks.chain(search).chain([self.deadline]).min().unwrap_or(self.deadline)
    }

    /// The end, if it has come.
    #[must_use]
    pub fn verdict(&self, now: Moment) -> Option<Verdict> {
        if self.open == 0 {
            return Some(Verdict::Found);
        }
        if now >= self.deadline && self.is_searching() {
            return Some(Verdict::NoShard(self.searching.clone()));
        }
        let missing = || self.open_of((0..).take(self.positions.len()));
        let is_pending = self.is_searching() || missing().iter().any(|key| self.carried[*key as usize] > 0);
        (now >= self.deadline || !is_pending).then(|| Verdict::Missing(missing()))
    }

    fn found(&mut self, id: AskId, found: &[u32], step: &Step<'_, H>, out: &mut Vec<Action>) {
        for key in found {
            if std::mem::take(&mut self.is_open[*key as usize]) {
                self.open -= 1;
            }
        }
        let left = self.end(id, Fate::Answered);
        self.dispatch(left, Cause::Instead, step, out);
        if self.mode == Mode::All {
            // The others go on: their replies tell what they serve.
            return;
        }
        for other in 0..self.asks.len() {
            let is_out = matches!(self.asks[other].state, State::Out { .. } | State::Pausing { .. });
            if is_out && !self.asks[other].keys.iter().any(|key| self.is_open[*key as usize]) {
                self.end(other, Fate::Cancelled);
                out.push(Action::Cancel(other));
            }
        }
    }

    /// A host failed: somebody who was not asked yet takes its keys. Where all are asked, or nobody else is left, it is asked
    /// again itself.
    fn failed(&mut self, id: AskId, fate: Fate, again: bool, step: &Step<'_, H>, out: &mut Vec<Action>) {
        let mut left = self.end(id, fate);
        let split = self.split(&left, step);
        self.send(&split, Cause::Instead, step, out);
        if self.mode != Mode::All {
            left = split.unknown;
        }
        // Another request may still bring them.
        let is_last = left.iter().any(|key| self.carried[*key as usize] == 0);
        let may_repeat = again && self.asks[id].attempt <= self.patience.retries;
        if may_repeat && !left.is_empty() && (is_last || self.mode == Mode::All) {
            let pause = self.patience.retry_pause / 2;
            let until = step.now.after(pause + pause.mul_f64(share(step.roll)));
            left.iter().for_each(|key| self.carried[*key as usize] += 1);
            let ask = &mut self.asks[id];
            (ask.keys, ask.attempt, ask.state) = (left, ask.attempt + 1, State::Pausing { until });
        } else {
            self.dispatch(left, Cause::Instead, step, out);
        }
    }

    fn hedge(&mut self, id: AskId, step: &Step<'_, H>, out: &mut Vec<Action>) {
        let open = self.open_of(self.asks[id].keys.iter().copied());
        let split = self.split(&open, step);
        for (member, keys) in self.batches(&split) {
            let second = self.add(step.view.member(member), keys, Cause::Hedge, State::Proposed);
            out.push(Action::Propose(second));
        }
    }

    /// Finds somebody for keys that no request carries: somebody who was not asked yet, or else a search, or nothing.
    fn dispatch(&mut self, mut keys: Vec<u32>, cause: Cause, step: &Step<'_, H>, out: &mut Vec<Action>) {
        keys.retain(|key| self.carried[*key as usize] == 0);
        if keys.is_empty() {
            return;
        }
        let split = self.split(&keys, step);
        self.send(&split, cause, step, out);
        for key in split.unknown {
            if !self.is_lost(key, step.view) {
                self.searching.push(key);
            }
        }
        self.searching.sort_unstable();
    }

    fn split(&self, keys: &[u32], step: &Step<'_, H>) -> Split {
        let ground = Ground { view: step.view, now: step.now, activity: self.activity, roll: step.roll };
        let wanted = Wanted { positions: &self.positions, keys };
        let is_free = |key: u32, member: &Member<H>| self.asks.is_empty() || !self.was_asked(key, member);
        match self.mode {
            Mode::All => ground.to_all(&wanted, is_free),
            Mode::Hedge | Mode::One => ground.to_best(&wanted, is_free),
        }
    }

    fn send(&mut self, split: &Split, cause: Cause, step: &Step<'_, H>, out: &mut Vec<Action>) {
        for (member, keys) in self.batches(split) {
            let member = step.view.member(member);
            let is_hedged = self.mode == Mode::Hedge && cause == Cause::First;
            let hedge_at = is_hedged.then(|| step.now.after(self.hedge_delay(&member.host, step.now)));
            let state = self.out(step.now, hedge_at);
            out.push(Action::Send(self.add(member, keys, cause, state)));
        }
    }

    /// The keys of each host, in requests that are no larger than they may be.
    fn batches(&self, split: &Split) -> Vec<(u32, Vec<u32>)> {
        let mut batches: Vec<(u32, Vec<u32>)> = Vec::new();
        for (member, keys) in split.shares() {
            let (mut batch, mut sum) = (Vec::new(), 0usize);
            for key in keys {
                let bytes = self.bytes.get(*key as usize).copied().unwrap_or(0);
                let is_full = batch.len() >= self.batch.keys_max || sum.saturating_add(bytes) > self.batch.bytes_max;
                if is_full && !batch.is_empty() {
                    batches.push((member, std::mem::take(&mut batch)));
                    sum = 0;
                }
                batch.push(*key);
                sum = sum.saturating_add(bytes);
            }
            batches.push((member, batch));
        }
        batches
    }

    fn add(&mut self, member: &Member<H>, keys: Vec<u32>, cause: Cause, state: State) -> AskId {
        keys.iter().for_each(|key| self.carried[*key as usize] += 1);
        self.asks.push(Ask {
            host: member.host.clone(),
            address: Arc::clone(&member.address),
            slot: member.slot,
            version: member.version,
            keys,
            cause,
            attempt: 1,
            state,
        });
        self.asks.len() - 1
    }

    /// Ends a request and gives back the keys that it carried and that have no value yet.
    fn end(&mut self, id: AskId, fate: Fate) -> Vec<u32> {
        let ask = &mut self.asks[id];
        assert!(!matches!(ask.state, State::Done(_)), "a request ends once");
        ask.state = State::Done(fate);
        ask.keys.iter().for_each(|key| self.carried[*key as usize] -= 1);
        self.open_of(self.asks[id].keys.iter().copied())
    }

    fn out(&self, now: Moment, hedge_at: Option<Moment>) -> State {
        State::Out { times_out: now.after(self.patience.host_timeout), hedge_at }
    }

    fn hedge_delay(&self, host: &H, now: Moment) -> Duration {
        let (min, max) = (self.patience.hedge_delay_min, self.patience.hedge_delay_max);
        // A host that nobody knows yet gets all the time there is.
        host.standing(now).p95.map_or(max, Duration::from_micros).clamp(min, max)
    }

    /// Whether this host was asked for the key while it served what it serves now.
    fn was_asked(&self, key: u32, member: &Member<H>) -> bool {
        self.asks_of(key, member).next().is_some()
    }

    /// Whether somebody who serves the key was asked for it and failed, and nobody is left to ask. Not if somebody has said
    /// that it serves something else now: shards are moving then, and the next reply may tell where to.
    fn is_lost(&self, key: u32, view: &View<H>) -> bool {
        let mut carried = self.asks.iter().filter(|ask| ask.keys.binary_search(&key).is_ok());
        if carried.any(|ask| ask.fate() == Some(Fate::Refused)) {
            return false;
        }
        let covering = view.covering(self.positions[key as usize]).iter().map(|number| view.member(*number));
        covering.flat_map(|member| self.asks_of(key, member)).next().is_some()
    }

    fn asks_of(&self, key: u32, member: &Member<H>) -> impl Iterator<Item = &Ask<H>> {
        let (slot, version) = (member.slot, member.version);
        let asks = self.asks.iter().filter(move |ask| (ask.slot, ask.version) == (slot, version));
        let was_sent = |ask: &&Ask<H>| ask.cause != Cause::Hedge || ask.fate() != Some(Fate::Forgone);
        asks.filter(was_sent).filter(move |ask| ask.keys.binary_search(&key).is_ok())
    }

    fn open_of(&self, keys: impl Iterator<Item = u32>) -> Vec<u32> {
        keys.filter(|key| self.is_open[*key as usize]).collect()
    }
}

/// Chance as a share of one.
fn share(roll: u64) -> f64 {
    (roll >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
#[path = "call/tests.rs"]
mod tests;

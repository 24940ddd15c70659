//! One `Get` from the first request to the verdict: what is asked of whom, what an answer means, when somebody else is
//! asked, when it is over. Events and the time go in, actions come out; nothing is sent from here, and keys and hosts are
//! only numbers to it.

// In the order in which a newcomer should read them.
mod terms;
mod ask;
mod dispatch;
mod history;

use std::time::Duration;

use super::moment::Moment;
use super::plan::{Activity, Rated};
use super::view::View;

use ask::State;
pub use ask::{Ask, AskId, Cause, Fate};
pub use terms::{Batch, Mode, Patience};

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
/// lost: everybody known to serve it was asked, and somebody of them failed. A key that was lost by failures alone is looked
/// for once more before the call ends: somebody may serve it by now whom nobody has asked since.
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
    /// Those that are lost, during the look around.
    lost: Vec<u32>,
    look: Look,
    search_at: Moment,
    searches: u32,
}

/// The one time that a call looks around for keys that everybody has failed to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Due,
    Until(Moment),
    Over,
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
            lost: Vec::new(),
            look: Look::Due,
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
        !self.searching.is_empty() || !self.lost.is_empty()
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
        let mut keys = std::mem::take(&mut self.searching);
        keys.append(&mut self.lost);
        keys.sort_unstable();
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
        let ends_look = matches!(self.look, Look::Until(at) if at <= step.now);
        if ends_look {
            self.look = Look::Over;
        }
        if self.is_searching() && (ends_look || self.search_at <= step.now) {
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
        let look = match self.look {
            Look::Until(at) => Some(at).filter(|_| !self.lost.is_empty()),
            Look::Due | Look::Over => None,
        };
        asks.chain(search).chain(look).chain([self.deadline]).min().unwrap_or(self.deadline)
    }

    /// The end, if it has come.
    #[must_use]
    pub fn verdict(&self, now: Moment) -> Option<Verdict> {
        if self.open == 0 {
            return Some(Verdict::Found);
        }
        if now >= self.deadline && !self.searching.is_empty() {
            return Some(Verdict::NoShard(self.searching.clone()));
        }
        // Asked with every event: it ends at the first such key, and makes no list.
        let is_carried = || self.is_open.iter().zip(&self.carried).any(|(is_open, times)| *is_open && *times > 0);
        let is_over = now >= self.deadline || !(self.is_searching() || is_carried());
        is_over.then(|| Verdict::Missing(self.open_of((0..).take(self.positions.len()))))
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

//! How a call finds somebody for its keys: the first time, after an answer, and after a failure.

use std::sync::Arc;

use super::ask::{Ask, AskId, Cause, Fate, State};
use super::terms::Mode;
use super::{Action, Call, Look, Step, share};
use crate::core::moment::Moment;
use crate::core::plan::{Ground, Rated, Split, Wanted};
use crate::core::view::Member;

impl<H: Rated + Clone> Call<H> {
    pub(super) fn found(&mut self, id: AskId, found: &[u32], step: &Step<'_, H>, out: &mut Vec<Action>) {
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
    pub(super) fn failed(&mut self, id: AskId, fate: Fate, again: bool, step: &Step<'_, H>, out: &mut Vec<Action>) {
        let mut left = self.end(id, fate);
        self.asks[id].is_final = !again;
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

    pub(super) fn hedge(&mut self, id: AskId, step: &Step<'_, H>, out: &mut Vec<Action>) {
        let open = self.open_of(self.asks[id].keys.iter().copied());
        let split = self.split(&open, step);
        for (member, keys) in self.batches(&split) {
            let second = self.add(step.view.member(member), keys, Cause::Hedge, State::Proposed, step.now);
            out.push(Action::Propose(second));
        }
    }

    /// Finds somebody for keys that no request carries: somebody who was not asked yet, or else a search, or a last look
    /// around, or nothing.
    pub(super) fn dispatch(&mut self, mut keys: Vec<u32>, cause: Cause, step: &Step<'_, H>, out: &mut Vec<Action>) {
        keys.retain(|key| self.carried[*key as usize] == 0);
        if keys.is_empty() {
            return;
        }
        let split = self.split(&keys, step);
        self.send(&split, cause, step, out);
        for key in split.unknown {
            if !self.is_lost(key, step) {
                self.searching.push(key);
            } else if self.failed_alone(key) && self.may_look(step.now) {
                self.lost.push(key);
            }
        }
        self.searching.sort_unstable();
    }

    /// Whether there is time to look around. The round of all hosts begins within the pause between two searches, and who is
    /// well answers it within a request's time.
    fn may_look(&mut self, now: Moment) -> bool {
        if self.look == Look::Due {
            self.look = Look::Until(now.after(self.patience.search_pause.saturating_add(self.patience.host_timeout)));
        }
        self.look != Look::Over
    }

    fn split(&self, keys: &[u32], step: &Step<'_, H>) -> Split {
        let ground = Ground { view: step.view, now: step.now, activity: self.activity, roll: step.roll };
        let wanted = Wanted { positions: &self.positions, keys };
        let is_free = |key: u32, member: &Member<H>| self.asks.is_empty() || !self.was_asked(key, member, step.now);
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
            out.push(Action::Send(self.add(member, keys, cause, state, step.now)));
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

    fn add(&mut self, member: &Member<H>, keys: Vec<u32>, cause: Cause, state: State, added: Moment) -> AskId {
        keys.iter().for_each(|key| self.carried[*key as usize] += 1);
        self.asks.push(Ask {
            host: member.host.clone(),
            address: Arc::clone(&member.address),
            slot: member.slot,
            version: member.version,
            added,
            keys,
            cause,
            attempt: 1,
            is_final: false,
            state,
        });
        self.asks.len() - 1
    }
}

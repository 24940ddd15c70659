//! What a connection has to do with the node's other clients: its card, who ends it, what lets it wait, and how long its commands take.

use std::sync::atomic::Ordering;

use shardine_model::Timestamp;
use shardine_router::LocalEngine;

use crate::connection::RespConnection;
use crate::frame::Line;
use crate::queue::SlotId;
use crate::roster::Said;
use crate::slow_log::{Begun, Entry};
use crate::verb::{Kind, Verb};

impl RespConnection {
    /// Whether somebody has ended it.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.seat.card.is_killed()
    }

    /// Whether commands wait until a pause is over, which nobody tells.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Brings the card up to date.
    pub(crate) fn show(&self, now: Timestamp) {
        let card = &self.seat.card;
        if card.since_ms.load(Ordering::Relaxed) == 0 {
            card.since_ms.store(now.0, Ordering::Relaxed);
        }
        card.seen_ms.store(now.0, Ordering::Relaxed);
        let queued = self.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64);
        card.queued.store(queued, Ordering::Relaxed);
        card.is_held.store(self.is_held, Ordering::Relaxed);
        card.watched.store(self.watched.len() as u64, Ordering::Relaxed);
        card.protocol.store(self.protocol.number(), Ordering::Relaxed);
    }

    /// Writes its names onto the card.
    pub(crate) fn show_names(&self) {
        *self.seat.card.said() = Said { name: self.name.clone(), library: self.library.clone() };
    }

    /// Whether a pause lets the command wait. One that may end it is let through.
    #[cold]
    pub(crate) fn is_paused(&self, verb: Verb, line: Line<'_>, now: Timestamp) -> bool {
        let changes = match verb.kind_of(line) {
            Kind::Change | Kind::ChangeMany => true,
            Kind::Atomic => !verb.only_looks(),
            Kind::Program => !verb.runs_to_look(),
            Kind::Call => matches!(verb, Verb::Flushdb | Verb::Flushall),
            Kind::Control => verb == Verb::Exec && self.transaction.as_ref().is_some_and(|it| it.changes()),
            Kind::Read | Kind::ReadMany | Kind::Own => false,
        };
        verb != Verb::Client && !self.is_inside && self.options.roster.holds(changes, now)
    }

    /// Notes when a command began that was not answered on the spot.
    #[inline]
    pub(crate) fn begin<H: LocalEngine>(&mut self, verb: Verb, line: Line<'_>, engine: &H) {
        if self.options.slow_log.is_on() && !self.is_inside {
            self.begun.push_back(Begun::new(self.queue.last_id(), verb, line, engine.micros()));
        }
    }

    /// Looks how long a command took, if it has its answer.
    #[inline]
    pub(crate) fn end<H: LocalEngine>(&mut self, id: SlotId, engine: &H) {
        if self.begun.is_empty() || self.queue.waiting_mut(id).is_some() {
            return;
        }
        let index = self.begun.partition_point(|begun| begun.id < id);
        if self.begun.get(index).is_none_or(|begun| begun.id != id) {
            return;
        }
        let Some(begun) = self.begun.remove(index) else { return };
        let took_us = engine.micros().saturating_sub(begun.at_us);
        if self.options.slow_log.is_slow(took_us) {
            let (address, name) = (self.peer.address, self.name.clone());
            let entry = Entry { id: 0, at: engine.now(), took_us, words: begun.words(), address, name };
            self.options.slow_log.note(entry);
        }
    }
}

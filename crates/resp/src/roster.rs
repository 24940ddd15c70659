//! The Redis clients of a node, as they show themselves to each other, and what one may do to others: end them, or let them wait.
//! Shared by all lanes. A connection writes its own card, and reads no other's unless it is asked to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_model::Timestamp;

use crate::connection::Peer;

#[derive(Debug, Default)]
pub struct Roster {
    cards: Mutex<BTreeMap<u64, Arc<Card>>>,
    /// Looked at before every command, so it stands beside the lock.
    is_paused: AtomicBool,
    pause: Mutex<Option<Pause>>,
}

/// What one connection lets others know. Written at the end of what it was sent, so it may be some commands behind.
#[derive(Debug, Default)]
pub(crate) struct Card {
    pub(crate) peer: Peer,
    pub(crate) since_ms: AtomicU64,
    pub(crate) seen_ms: AtomicU64,
    /// Commands queued since `MULTI`, -1 outside of one.
    pub(crate) queued: AtomicI64,
    pub(crate) watched: AtomicU64,
    pub(crate) protocol: AtomicI64,
    pub(crate) said: Mutex<Said>,
    /// It waits until a pause is over.
    pub(crate) is_held: AtomicBool,
    is_killed: AtomicBool,
}

/// What a client says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) name: Vec<u8>,
    pub(crate) library: [Vec<u8>; 2],
}

impl Card {
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.said)
    }
}

/// A connection's place on the roster, for as long as it is there.
pub(crate) struct Seat {
    pub(crate) card: Arc<Card>,
    roster: Arc<Roster>,
}

impl Seat {
    pub(crate) fn take(roster: &Arc<Roster>, peer: Peer) -> Self {
        let card = Arc::new(Card { peer, queued: AtomicI64::new(-1), protocol: AtomicI64::new(2), ..Card::default() });
        // What scripts say is said by no client.
        if peer.id != 0 {
            lock(&roster.cards).insert(peer.id, Arc::clone(&card));
        }
        Self { card, roster: Arc::clone(roster) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.roster.cards).remove(&self.card.peer.id);
    }
}

/// Which commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Writes,
    All,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Timestamp,
    scope: Scope,
}

impl Roster {
    /// In the order in which they came.
    pub(crate) fn cards(&self) -> Vec<Arc<Card>> {
        lock(&self.cards).values().cloned().collect()
    }

    /// A pause that is there already becomes no shorter and lets nobody in.
    pub(crate) fn pause(&self, until: Timestamp, scope: Scope, now: Timestamp) {
        let mut pause = lock(&self.pause);
        let running = pause.filter(|pause| now < pause.until);
        *pause = Some(match running {
            None => Pause { until, scope },
            Some(old) => {
                let all = old.scope == Scope::All || scope == Scope::All;
                Pause { until: until.max(old.until), scope: if all { Scope::All } else { Scope::Writes } }
            }
        });
        self.is_paused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end_pause(&self) {
        *lock(&self.pause) = None;
        self.is_paused.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Whether a command has to wait now.
    pub(crate) fn holds(&self, changes: bool, now: Timestamp) -> bool {
        let pause = *lock(&self.pause);
        match pause {
            Some(Pause { until, scope }) if now < until => changes || scope == Scope::All,
            Some(_) | None => {
                self.is_paused.store(false, Ordering::Relaxed);
                false
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_pause_makes_the_first_no_shorter() {
        let roster = Roster::default();
        roster.pause(Timestamp(100), Scope::All, Timestamp(0));
        roster.pause(Timestamp(50), Scope::Writes, Timestamp(10));

        assert!(roster.is_paused() && roster.holds(false, Timestamp(99)));
        assert!(!roster.holds(true, Timestamp(100)) && !roster.is_paused());
    }

    #[test]
    fn a_pause_of_writes_lets_reads_through() {
        let roster = Roster::default();
        roster.pause(Timestamp(100), Scope::Writes, Timestamp(0));

        assert!(roster.holds(true, Timestamp(1)) && !roster.holds(false, Timestamp(1)));
        roster.end_pause();
        assert!(!roster.is_paused());
    }

    #[test]
    fn who_leaves_is_on_the_roster_no_more() {
        let roster = Arc::new(Roster::default());
        let peer = |id| Peer { id, ..Peer::default() };
        let (_stays, leaves) = (Seat::take(&roster, peer(2)), Seat::take(&roster, peer(1)));

        assert_eq!(roster.cards().iter().map(|card| card.peer.id).collect::<Vec<_>>(), [1, 2]);
        drop(leaves);
        assert_eq!(roster.cards().len(), 1);
    }
}

//! How many Redis clients a node has, lane by lane, and who makes room when there are too many. Shared by all lanes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Invariant: a connection is counted from when it is dealt to a lane until that lane has let go of it.
pub(crate) struct Population {
    open_max: usize,
    lanes: Vec<LanePopulation>,
    /// Connections since the start of the process. Each has a number of its own, on whatever lane it is.
    numbers: AtomicU64,
    /// Client libraries that were warned about in the log.
    warned: Mutex<BTreeSet<String>>,
}

/// Names of client libraries that are kept. A client may give itself any name.
const WARNED_MAX: usize = 64;

#[derive(Default)]
struct LanePopulation {
    open: AtomicUsize,
    /// Those of them that have yet to say who they are.
    strangers: AtomicUsize,
}

impl Population {
    pub fn new(lanes: usize, open_max: usize) -> Self {
        let lanes = (0..lanes).map(|_| LanePopulation::default()).collect();
        Self { open_max, lanes, numbers: AtomicU64::new(0), warned: Mutex::default() }
    }

    /// The lane of a new client: the emptiest. With all places taken, the one where most strangers are, of whom one has to
    /// go; `None` if there are none, so that nobody can be let in.
    pub fn deal(&self) -> Option<usize> {
        let open = |lane: &LanePopulation| lane.open.load(Ordering::Relaxed);
        let strangers = |lane: &LanePopulation| lane.strangers.load(Ordering::Relaxed);
        let lanes = || self.lanes.iter().enumerate();
        let chosen = if self.is_overfull(1) {
            lanes().max_by_key(|(_, lane)| strangers(lane)).filter(|(_, lane)| strangers(lane) > 0)
        } else {
            lanes().min_by_key(|(_, lane)| open(lane))
        };
        let (number, lane) = chosen?;
        lane.open.fetch_add(1, Ordering::Relaxed);
        Some(number)
    }

    /// Whether there would be more clients than places if so many more came.
    pub fn is_overfull(&self, more: usize) -> bool {
        let open: usize = self.lanes.iter().map(|lane| lane.open.load(Ordering::Relaxed)).sum();
        open + more > self.open_max
    }

    /// From 1 on, as Redis counts them.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether nobody has warned about this client library yet.
    pub fn warns_first(&self, library: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.len() < WARNED_MAX && warned.insert(library.to_owned())
    }

    pub fn leave(&self, lane: usize) {
        self.lanes[lane].open.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn is_stranger(&self, lane: usize) {
        self.lanes[lane].strangers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn is_no_stranger(&self, lane: usize) {
        self.lanes[lane].strangers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_where_there_is_most_room() {
        let population = Population::new(2, 4);

        let first: Vec<_> = (0..4).map(|_| population.deal()).collect();
        assert_eq!(first, [Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!(population.deal(), None, "four places for the whole node");

        population.leave(1);
        assert_eq!(population.deal(), Some(1));
    }

    #[test]
    fn each_library_is_warned_about_once() {
        let population = Population::new(1, 1);

        assert_eq!(["redis-py", "redis-py", "ioredis"].map(|name| population.warns_first(name)), [true, false, true]);
    }

    #[test]
    fn a_full_house_sends_the_next_one_to_where_strangers_are() {
        let population = Population::new(2, 2);
        assert_eq!((population.deal(), population.deal()), (Some(0), Some(1)));
        assert_eq!(population.deal(), None);

        population.is_stranger(1);
        assert_eq!(population.deal(), Some(1));
    }
}

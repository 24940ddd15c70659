//! The trace of a run: a hash over everything that happened, and, on request, the last events in words.

use std::collections::VecDeque;

use crate::chance::mix;

#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// How many of the last events are kept in words; none while nobody will read them, for words cost more than events.
    kept: usize,
    lines: VecDeque<String>,
}

impl Trace {
    #[must_use]
    pub fn new(kept: usize) -> Self {
        Self { hash: 0, events: 0, kept, lines: VecDeque::new() }
    }

    pub fn note(&mut self, now: u64, facts: &[u64], words: impl FnOnce() -> String) {
        self.events += 1;
        self.hash = facts.iter().fold(mix(self.hash ^ now), |hash, fact| mix(hash ^ fact));
        if self.kept > 0 {
            if self.lines.len() == self.kept {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("{:>11.6} s  {}", now as f64 / 1e6, words()));
        }
    }

    /// Equal for two runs in which the same things happened at the same times.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

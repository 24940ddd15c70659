//! The trace of a run: a hash over everything that happened, and, on request, the last events in words.

use std::collections::VecDeque;

use crate::chance::mix;

const KEPT: usize = 200;

#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// `None` while nobody will read them: words cost more than the events they tell of.
    lines: Option<VecDeque<String>>,
}

impl Trace {
    #[must_use]
    pub fn new(in_words: bool) -> Self {
        Self { hash: 0, events: 0, lines: in_words.then(VecDeque::new) }
    }

    pub fn note(&mut self, now: u64, facts: &[u64], words: impl FnOnce() -> String) {
        self.events += 1;
        self.hash = facts.iter().fold(mix(self.hash ^ now), |hash, fact| mix(hash ^ fact));
        if let Some(lines) = &mut self.lines {
            if lines.len() == KEPT {
                lines.pop_front();
            }
            lines.push_back(format!("{:>11.6} s  {}", now as f64 / 1e6, words()));
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
        self.lines.iter().flatten().map(String::as_str)
    }
}

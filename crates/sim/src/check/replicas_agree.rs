//! Promise: replicas are copies. One leader per term (reliability I1), one state per applied index (reliability I3). That
//! one index is one entry (reliability I2) is seen where entries are (`every_entry_is_shown`).

use std::collections::BTreeMap;

use crate::check::Violation;

pub const NAME: &str = "replicas_agree";

/// What has been seen of one group on any node at any time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    leaders: BTreeMap<u64, usize>,
    states: BTreeMap<u64, (u64, usize)>,
}

impl Seen {
    /// A node leads in a term. Says whether that is news.
    pub fn leader(&mut self, term: u64, node: usize) -> Result<bool, Violation> {
        match self.leaders.insert(term, node) {
            None => Ok(true),
            Some(known) if known == node => Ok(false),
            Some(known) => {
                Err(Violation::new(NAME, format!("nodes {} and {} both lead in term {term}", known + 1, node + 1)))
            }
        }
    }

    /// The newest term that had a leader.
    #[must_use]
    pub fn newest_term(&self) -> u64 {
        self.leaders.last_key_value().map_or(0, |(term, _)| *term)
    }

    pub fn state(&mut self, node: usize, index: u64, hash: u64) -> Result<(), Violation> {
        let (known, first) = *self.states.entry(index).or_insert((hash, node));
        if known == hash {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("nodes {} and {} differ in state at entry {index}", first + 1, node + 1)))
    }
}

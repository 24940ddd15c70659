//! Promise: replicas are copies. One leader per term (reliability I1), one entry per index (reliability I2), one state
//! per applied index (reliability I3).

use std::collections::BTreeMap;

use crate::check::Violation;
use crate::disk::Believed;

pub const NAME: &str = "replicas_agree";

/// What has been seen of one group on any node at any time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    leaders: BTreeMap<u64, usize>,
    entries: BTreeMap<u64, Believed>,
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

    /// A node has applied an entry. Says whether it is the first to do so.
    pub fn applied(&mut self, node: usize, index: u64, entry: Believed) -> Result<bool, Violation> {
        match self.entries.insert(index, entry) {
            None => Ok(true),
            Some(known) if known == entry => Ok(false),
            Some(known) => Err(Violation::new(
                NAME,
                format!(
                    "node {} applied another entry {index} (term {}) than was applied before (term {})",
                    node + 1,
                    entry.term,
                    known.term
                ),
            )),
        }
    }

    pub fn state(&mut self, node: usize, index: u64, hash: u64) -> Result<(), Violation> {
        let (known, first) = *self.states.entry(index).or_insert((hash, node));
        if known == hash {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("nodes {} and {} differ in state at entry {index}", first + 1, node + 1)))
    }
}

//! Promise: replicas are copies. One leader per term (reliability I1), one state per applied index (reliability I3). That
//! one index is one entry (reliability I2) is seen where entries are (`every_entry_is_shown`).

use std::collections::BTreeMap;

use crate::check::Violation;

pub const NAME: &str = "replicas_agree";

/// What has been seen of one group on any node at any time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    leaders: BTreeMap<u64, usize>,
    states: BTreeMap<u64, (u64, Option<usize>)>,
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

    /// What a node, or the log itself, comes to at an entry. Says whether there was something to compare it with.
    pub fn state(&mut self, node: Option<usize>, index: u64, hash: u64) -> Result<bool, Violation> {
        let Some((known, first)) = self.states.insert(index, (hash, node)) else { return Ok(false) };
        if known == hash {
            return Ok(true);
        }
        let name = |node: Option<usize>| node.map_or("the log".to_owned(), |node| format!("node {}", node + 1));
        let detail = format!("{} and {} differ in state at entry {index}", name(first), name(node));
        Err(Violation::new(NAME, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_leaders_of_one_term_are_seen() {
        let mut seen = Seen::default();

        assert_eq!((seen.leader(4, 0), seen.leader(4, 0)), (Ok(true), Ok(false)));
        assert!(seen.leader(4, 1).is_err());
    }

    #[test]
    fn a_replica_that_differs_from_the_log_is_seen() {
        let mut seen = Seen::default();

        assert_eq!((seen.state(None, 7, 1), seen.state(Some(0), 7, 1)), (Ok(false), Ok(true)));
        assert!(seen.state(Some(1), 7, 2).is_err());
    }
}

//! Promise of the view from above itself: every entry that is applied anywhere is shown to the checkers, once and in order.
//! A checker that misses an entry proves nothing about it, and nobody would know. So what cannot be shown is a failure.
//!
//! Keeps its own account of what nodes ask to have written, because no disk can be relied on to still hold it: the first
//! that holds an entry of that index may hold another one, of a leader that was replaced, and a snapshot takes the place of all.

use std::collections::BTreeMap;

use shardine_model::log::LogEntry;

use crate::check::{Violation, replicas_agree};

pub const NAME: &str = "every_entry_is_shown";

/// The log of one group, on all its nodes.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Everything that any node ever asked to have written, by index and term. Never forgets.
    written: BTreeMap<(u64, u64), LogEntry>,
    /// By node: the terms of its log as it believes it to be, on disk or not. Begins behind its snapshot.
    logs: Vec<BTreeMap<u64, u64>>,
    /// The terms of what was applied somewhere, from entry 1 on.
    shown: Vec<u64>,
}

impl Ledger {
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { written: BTreeMap::new(), logs: vec![BTreeMap::new(); nodes], shown: Vec::new() }
    }

    /// The group was born of another one: its log begins behind what it was born with.
    pub fn begin_at_birth(&mut self, (index, term): (u64, u64)) {
        self.shown = vec![term; index as usize];
    }

    /// A node starts with this behind its snapshot.
    pub fn restore(&mut self, node: usize, entries: &[LogEntry]) -> Result<(), Violation> {
        self.logs[node].clear();
        self.append(node, entries)
    }

    /// A snapshot takes the place of a node's log.
    pub fn install(&mut self, node: usize) {
        self.logs[node].clear();
    }

    /// A node asks to have entries written: they replace whatever its log held from the first of them on.
    pub fn append(&mut self, node: usize, entries: &[LogEntry]) -> Result<(), Violation> {
        let Some(first) = entries.first() else { return Ok(()) };
        self.logs[node].split_off(&first.index);
        for entry in entries {
            self.logs[node].insert(entry.index, entry.term);
            let place = (entry.index, entry.term);
            let known = self.written.entry(place).or_insert_with(|| entry.clone());
            if known != entry {
                let detail =
                    format!("node {} has another entry {place:?} (index, term) than was written before", node + 1);
                return Err(Violation::new(replicas_agree::NAME, detail));
            }
        }
        Ok(())
    }

    /// A node has applied an entry: gives it if no node has before.
    pub fn apply(&mut self, node: usize, index: u64) -> Result<Option<LogEntry>, Violation> {
        let shown = self.shown.get(index as usize - 1).copied();
        match (shown, self.logs[node].get(&index).copied()) {
            (Some(_), None) => Ok(None),
            (Some(shown), Some(term)) if shown == term => Ok(None),
            (Some(shown), Some(term)) => {
                let node = node + 1;
                let detail =
                    format!("node {node} applied entry {index} of term {term}, another one that of term {shown}");
                Err(Violation::new(replicas_agree::NAME, detail))
            }
            (None, Some(term)) if index as usize == self.shown.len() + 1 => {
                self.shown.push(term);
                Ok(Some(self.written[&(index, term)].clone()))
            }
            (None, found) => {
                let (node, newest) = (node + 1, self.shown.len());
                let detail = format!("node {node} applied entry {index} ({found:?}), and only {newest} were ever seen");
                Err(Violation::new(NAME, detail))
            }
        }
    }

    /// How many entries have been shown: the index of the newest.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.shown.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardine_model::log::LogEntryKind;

    use super::*;

    fn entry(index: u64, term: u64) -> LogEntry {
        LogEntry { index, term, kind: LogEntryKind::Normal, data: Bytes::from(format!("{index} of {term}")) }
    }

    #[test]
    fn a_replaced_leaders_tail_on_the_first_node_hides_nothing() {
        let mut ledger = Ledger::new(3);
        ledger.append(0, &[entry(1, 1), entry(2, 1)]).expect("it led alone");
        for node in [1, 2] {
            ledger.append(node, &[entry(1, 1), entry(2, 2)]).expect("they follow another one");
        }

        assert_eq!(ledger.apply(1, 1), Ok(Some(entry(1, 1))));
        assert_eq!(ledger.apply(1, 2), Ok(Some(entry(2, 2))));
        assert_eq!(ledger.apply(2, 2), Ok(None), "it is shown once");
    }

    #[test]
    fn an_entry_that_is_only_in_a_snapshot_by_now_was_shown_before() {
        let mut ledger = Ledger::new(2);
        ledger.append(0, &[entry(1, 1)]).expect("it leads");
        assert_eq!(ledger.apply(0, 1), Ok(Some(entry(1, 1))));

        ledger.install(1);
        ledger.restore(0, &[]).expect("its snapshot holds everything");

        assert_eq!((ledger.apply(1, 1), ledger.apply(0, 1)), (Ok(None), Ok(None)));
    }

    #[test]
    fn an_entry_that_nobody_showed_is_seen() {
        let mut ledger = Ledger::new(2);
        ledger.append(0, &[entry(1, 1), entry(2, 1)]).expect("it leads");

        assert!(
            ledger.clone().apply(1, 1).is_err_and(|found| found.checker == NAME),
            "it came by a snapshot of nothing"
        );
        assert!(ledger.apply(0, 2).is_err_and(|found| found.checker == NAME), "the first was left out");
    }

    #[test]
    fn two_entries_of_one_place_are_seen() {
        let mut ledger = Ledger::new(2);
        ledger.append(0, &[entry(1, 1)]).expect("it leads");
        let other = LogEntry { data: Bytes::from_static(b"other"), ..entry(1, 1) };

        assert!(ledger.append(1, &[other]).is_err());
    }

    #[test]
    fn two_entries_applied_at_one_index_are_seen() {
        let mut ledger = Ledger::new(2);
        ledger.append(0, &[entry(1, 1)]).expect("it leads");
        ledger.append(1, &[entry(1, 2)]).expect("so does another one");

        assert_eq!(ledger.apply(0, 1), Ok(Some(entry(1, 1))));
        assert!(ledger.apply(1, 1).is_err_and(|found| found.checker == replicas_agree::NAME));
    }
}

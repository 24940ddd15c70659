//! What a lane has seen of each table's way to SQL: rows taken, how fast, and the newest trouble.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::TableId;
use shardine_router::SqlError;

/// A rate speaks of that many seconds: long enough not to flicker, short enough to show an outage.
const WINDOW_SECONDS: u64 = 10;

/// How long trouble is told of after it has passed: long enough for whoever looks because of it.
pub(crate) const PASSED_KEEP_MS: u64 = 10 * 60 * 1_000;

#[derive(Default)]
pub(crate) struct Tallies(BTreeMap<TableId, Tally>);

#[derive(Clone, Default)]
pub(crate) struct Tally {
    pub written: u64,
    trouble: Option<PastTrouble>,
    /// Rows by the second in which they were taken, oldest first.
    recent: VecDeque<(u64, u64)>,
}

#[derive(Clone)]
struct PastTrouble {
    message: String,
    at_ms: u64,
    /// When SQL next did what it was asked to do with rows of the table.
    passed_ms: Option<u64>,
}

impl Tallies {
    pub fn written(&mut self, table: TableId, rows: u64, now_ms: u64) {
        let tally = self.0.entry(table).or_default();
        tally.written += rows;
        let second = now_ms / 1_000;
        match tally.recent.back_mut() {
            Some((last, count)) if *last == second => *count += rows,
            Some(_) | None => tally.recent.push_back((second, rows)),
        }
        while tally.recent.front().is_some_and(|(first, _)| first + WINDOW_SECONDS < second) {
            tally.recent.pop_front();
        }
    }

    pub fn failed(&mut self, table: TableId, why: &str, now_ms: u64) {
        let trouble = PastTrouble { message: why.to_owned(), at_ms: now_ms, passed_ms: None };
        self.0.entry(table).or_default().trouble = Some(trouble);
    }

    /// SQL has given or taken rows of the table.
    pub fn worked(&mut self, table: TableId, now_ms: u64) {
        let trouble = self.0.get_mut(&table).and_then(|tally| tally.trouble.as_mut());
        if let Some(trouble) = trouble {
            trouble.passed_ms.get_or_insert(now_ms);
        }
    }

    pub fn of(&self, table: TableId) -> Tally {
        self.0.get(&table).cloned().unwrap_or_default()
    }
}

impl Tally {
    /// The newest trouble, unless it has long passed.
    pub fn last_error(&self, now_ms: u64) -> Option<SqlError> {
        let is_told = |trouble: &&PastTrouble| trouble.passed_ms.is_none_or(|passed| passed + PASSED_KEEP_MS > now_ms);
        self.trouble.as_ref().filter(is_told).map(|trouble| SqlError {
            message: trouble.message.clone(),
            ago_ms: now_ms.saturating_sub(trouble.at_ms),
            is_past: trouble.passed_ms.is_some(),
        })
    }

    /// Rows per second over the last whole seconds.
    pub fn per_second(&self, now_ms: u64) -> f64 {
        let now = now_ms / 1_000;
        let recent = self.recent.iter().filter(|(second, _)| *second < now && second + WINDOW_SECONDS >= now);
        recent.map(|(_, rows)| *rows).sum::<u64>() as f64 / WINDOW_SECONDS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_with_its_time_and_for_a_while_after_it_has_passed() {
        let (mut tallies, users) = (Tallies::default(), TableId(2));
        let told = |tallies: &Tallies, now| tallies.of(users).last_error(now).map(|error| error.ago_ms);
        tallies.failed(users, "no such column", 1_000);

        assert_eq!(told(&tallies, 5 * PASSED_KEEP_MS), Some(5 * PASSED_KEEP_MS - 1_000), "it lasts");

        tallies.worked(users, 9_000);
        tallies.worked(users, 20_000);
        assert_eq!(told(&tallies, 20_000), Some(19_000));
        assert!(tallies.of(users).last_error(20_000).unwrap().is_past);
        assert_eq!(told(&tallies, 9_000 + PASSED_KEEP_MS), None);
    }

    #[test]
    fn a_rate_speaks_of_the_last_ten_seconds() {
        let mut tallies = Tallies::default();
        let users = TableId(2);
        for second in 0..100 {
            tallies.written(users, 30, second * 1_000);
        }

        let tally = tallies.of(users);

        assert_eq!(tally.written, 3_000);
        assert_eq!(tally.per_second(100_000), 30.0);
        assert_eq!(tally.per_second(105_000), 15.0);
        assert_eq!(tally.per_second(200_000), 0.0);
    }
}

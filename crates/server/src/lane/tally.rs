//! What a lane has seen of each table's way to SQL: rows taken, how fast, and the newest trouble.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::TableId;

/// A rate speaks of that many seconds: long enough not to flicker, short enough to show an outage.
const WINDOW_SECONDS: u64 = 10;

#[derive(Default)]
pub(crate) struct Tallies(BTreeMap<TableId, Tally>);

#[derive(Clone, Default)]
pub(crate) struct Tally {
    pub written: u64,
    pub last_error: Option<String>,
    /// Rows by the second in which they were taken, oldest first.
    recent: VecDeque<(u64, u64)>,
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

    pub fn failed(&mut self, table: TableId, why: &str) {
        self.0.entry(table).or_default().last_error = Some(why.to_owned());
    }

    pub fn of(&self, table: TableId) -> Tally {
        self.0.get(&table).cloned().unwrap_or_default()
    }
}

impl Tally {
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

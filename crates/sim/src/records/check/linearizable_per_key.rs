//! Promise: each row behaves as if operations happened one at a time, each between its call and its return (reliability
//! I13, I14, records 59). Does not trust versions; `versions_only_grow` does the same by them.

mod resolve;
mod search;

use crate::check::Violation;
use crate::records::history::History;
use crate::records::model::State;
use crate::records::universe::Row;

/// How far wall clocks may be off when they decide about a time to live.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// A row may be gone this much before its time.
    pub early_ms: u64,
    /// And must be gone this much after it, for whoever asks then.
    pub late_ms: u64,
}

/// Checks every row but those that were settled: there acknowledged changes were thrown away, by intent. Says how many had to be left open because the search grew too large.
pub fn check(
    history: &History,
    rows: &[Row],
    is_settled: impl Fn(usize) -> bool,
    tolerance: Tolerance,
) -> Result<u64, Violation> {
    let mut left_open = 0;
    for (number, row) in rows.iter().enumerate().filter(|(number, _)| !is_settled(*number)) {
        let calls = resolve::calls(&history.touches(number));
        let start = State { live: row.initial(), expires: None };
        match search::search(start, &calls, tolerance) {
            search::Verdict::Linearizable => {}
            search::Verdict::TooLarge => left_open += 1,
            search::Verdict::Impossible { placed, stuck } => {
                let detail =
                    format!("row {number}: {placed} of {} operations have an order, then none of {stuck}", calls.len());
                return Err(Violation::new("linearizable_per_key", detail));
            }
        }
    }
    Ok(left_open)
}

#[cfg(test)]
mod tests;

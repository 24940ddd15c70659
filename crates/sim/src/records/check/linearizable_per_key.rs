//! Promise: each row behaves as if operations happened one at a time, each between its call and its return (reliability
//! I13, I14, records 59). Does not trust versions; `versions_only_grow` does the same by them.

mod bits;
mod resolve;
mod alike;
mod search;

use crate::check::Violation;
use crate::records::history::{Call, touches};
use crate::records::model::State;
use crate::records::universe::Row;
use search::{Search, Verdict};

const NAME: &str = "linearizable_per_key";

/// How far wall clocks may be off when they decide about a time to live.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// A row may be gone this much before its time.
    pub early_ms: u64,
    /// And must be gone this much after it, for whoever asks then.
    pub late_ms: u64,
}

/// Checks every row but those that were settled: there acknowledged changes were thrown away, by intent. A history that is
/// neither put in order nor refuted proves nothing, and is a failure too.
pub fn check(
    calls: &[Call<'_>],
    rows: &[Row],
    is_settled: impl Fn(usize) -> bool,
    tolerance: Tolerance,
) -> Result<(), Violation> {
    for (number, row) in rows.iter().enumerate().filter(|(number, _)| !is_settled(*number)) {
        let items = resolve::items(&touches(calls, number));
        let start = State { live: row.initial(), expires: None };
        let verdict = Search::new(&items, tolerance).run(start);
        let detail = match verdict {
            Verdict::Linearizable => continue,
            Verdict::TooLarge => {
                format!("row {number}: {} operations were neither put in order nor refuted", items.len())
            }
            Verdict::Impossible { placed, stuck } => {
                format!("row {number}: {placed} of {} operations have an order, then none of {stuck}", items.len())
            }
        };
        return Err(Violation::new(NAME, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Promise: a batch happens at one moment or not at all (reliability I21). Pairs of rows are written by batches only,
//! both halves with one value, so a batch that reads both must find them equal.

use crate::check::Violation;
use crate::records::ask::{Job, Saw};
use crate::records::history::Call;

/// Of rows that were settled, one half may be SQL's and the other memory's, by intent.
pub fn check(calls: &[Call<'_>], is_settled: impl Fn(usize) -> bool) -> Result<(), Violation> {
    for call in calls {
        let (Job::Pair { rows, .. }, Some(seen)) = (call.job, &call.seen) else { continue };
        if rows.iter().any(|row| is_settled(*row)) {
            continue;
        }
        let halves: Vec<_> = seen
            .iter()
            .filter_map(|saw| match saw {
                Saw::Read { now, .. } => Some(*now),
                Saw::Changed { before, .. } => Some(*before),
                Saw::Kept { .. } | Saw::Refused { .. } | Saw::Undone => None,
            })
            .collect();
        if halves.len() == 2 && halves[0] != halves[1] {
            let number = call.operation;
            let detail = format!("operation {number} found rows {rows:?} at {:?} and {:?}", halves[0], halves[1]);
            return Err(Violation::new("batches_are_atomic", detail));
        }
    }
    Ok(())
}

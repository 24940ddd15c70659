//! Promise: a command sees what those before it on its connection have done, also while leaders change and nodes ask again what a broken
//! link has swallowed (docs/redis.md).
//!
//! What reads saw is not held against those behind them: a read waits for its round, and another one of the same row may go through the
//! log meanwhile. A change lets the door wait for reads before it.

use std::collections::BTreeMap;

use shardine_model::Version;

use crate::check::Violation;
use crate::records::ask::Ask;
use crate::records::history::History;

const NAME: &str = "order_of_connections";

/// Looks at the versions that were told. A number's answer is that of its first execution, which may have been asked for before, and a read
/// that a node has asked again may see what came behind it.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut newest: BTreeMap<(u64, usize), (u64, usize)> = BTreeMap::new();
    for (connection, attempt, job, may_be_late, seen) in history.on_connections() {
        if may_be_late || history.is_repeated(attempt) {
            continue;
        }
        for ((row, ask), saw) in job.touches().into_iter().zip(&seen) {
            // A tombstone that was purged is forgotten, and known as never made.
            let Some(version) = saw.version().filter(|version| *version != Version::NEVER) else { continue };
            let (before, by) = newest.get(&(connection, row)).copied().unwrap_or_default();
            if version.magnitude() < before {
                let detail = format!(
                    "on connection {connection} attempt {attempt} at row {row} saw version {version}, and attempt {by} before it has made it {before}"
                );
                return Err(Violation::new(NAME, detail));
            }
            if ask != Ask::Get {
                newest.insert((connection, row), (version.magnitude(), attempt));
            }
        }
    }
    Ok(())
}

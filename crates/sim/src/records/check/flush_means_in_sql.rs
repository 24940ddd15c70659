//! Promise: a flush is answered when SQL holds what had been acknowledged before the flush was asked for (records 31).

use shardine_model::RowKeyBuf;

use crate::check::Violation;
use crate::records::sql::SqlRow;

/// A flush has been answered. `magnitude` is that of the newest version acknowledged before it began.
pub fn check(operation: usize, row: &RowKeyBuf, magnitude: u64, held: &SqlRow) -> Result<(), Violation> {
    if held.version.magnitude() >= magnitude {
        return Ok(());
    }
    let detail = format!(
        "flush {operation} is done, and SQL holds version {} of {row:?}, of which {magnitude} was acknowledged before",
        held.version
    );
    Err(Violation::new("flush_means_in_sql", detail))
}

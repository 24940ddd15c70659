//! Promise: the version of a row in SQL never goes back, whatever statement comes late, twice or from a deposed leader
//! (reliability I44, write-back 82, 93). And one version is one content there too (reliability I45).

use shardine_model::RowKeyBuf;

use crate::check::Violation;
use crate::records::sql::SqlRow;

const NAME: &str = "sql_never_goes_backwards";

/// Looks at a write that is about to replace a row.
pub fn check(row: &RowKeyBuf, held: &SqlRow, new: &SqlRow) -> Result<(), Violation> {
    if new.version.magnitude() < held.version.magnitude() {
        return Err(Violation::new(NAME, format!("{row:?} went from version {} to {}", held.version, new.version)));
    }
    Ok(())
}

pub fn check_same_content(row: &RowKeyBuf, held: &SqlRow, new: &SqlRow) -> Result<(), Violation> {
    if held.version == new.version && held.content != new.content {
        return Err(Violation::new(
            NAME,
            format!(
                "{row:?} at version {} is {:?} in SQL and {:?} in a statement",
                held.version, held.content, new.content
            ),
        ));
    }
    Ok(())
}

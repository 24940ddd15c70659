//! Promise: when nothing is left to write, SQL holds what memory holds, row by row, deletes too (reliability I53).

use shardine_model::{RowKeyBuf, Version};
use shardine_records::Lookup;

use crate::check::Violation;
use crate::records::sql::SqlRow;
use crate::records::universe::content_of;

/// A version that somebody outside has raised since is seen at the row's next write, and not before.
pub fn check(row: &RowKeyBuf, memory: Lookup<'_>, held: &SqlRow, is_edited: bool) -> Result<(), Violation> {
    let (version, content) = match memory {
        Lookup::Live(view) => (view.version, Some(content_of(view.fields))),
        Lookup::Absent { version, .. } => (version, None),
        // Kicked: SQL is the only one that knows.
        Lookup::NotResident => return Ok(()),
        Lookup::UnknownTable => (Version::NEVER, None),
    };
    let is_unseen = is_edited && held.version.magnitude() > version.magnitude();
    if content == held.content && (version == held.version || is_unseen) {
        return Ok(());
    }
    let detail = format!(
        "{row:?} is {content:?} at version {version} in memory, and {:?} at version {} in SQL",
        held.content, held.version
    );
    Err(Violation::new("sql_equals_memory", detail))
}

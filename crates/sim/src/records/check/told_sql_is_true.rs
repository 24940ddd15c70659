//! Promise: whoever is told that SQL has a version can find it there, that one or a newer one (records 8, 32,
//! write-back 108).

use shardine_model::{Reply, RowKeyBuf};

use crate::check::Violation;
use crate::records::sql::SqlRow;

/// A reply about a row is on its way to a client; `held` is what SQL holds at this moment.
pub fn check(row: &RowKeyBuf, reply: &Reply, held: &SqlRow) -> Result<(), Violation> {
    if held.version.magnitude() >= reply.sql_version.magnitude() {
        return Ok(());
    }
    let detail = format!(
        "a client is told that SQL has version {} of {row:?}, and it holds {}",
        reply.sql_version, held.version
    );
    Err(Violation::new("told_sql_is_true", detail))
}

//! Promise: a record leaves memory only when SQL holds it (reliability I46, write-back 90).

use shardine_model::{RowKeyBuf, Version};

use crate::check::Violation;
use crate::records::sql::SqlRow;

/// A row has left the memory of a replica, where it was last seen at `version`.
pub fn check(node: usize, row: &RowKeyBuf, version: Version, held: &SqlRow) -> Result<(), Violation> {
    if held.version.magnitude() >= version.magnitude() {
        return Ok(());
    }
    let detail = format!(
        "{row:?} left the memory of node {} at version {version}, and SQL holds version {}",
        node + 1,
        held.version
    );
    Err(Violation::new("dirty_is_never_kicked", detail))
}

//! Promise: what clients were told is there at the end, after any crash (reliability I25-I27, write-back 86), told by
//! versions.

use shardine_model::Version;

use crate::check::Violation;
use crate::check::acknowledged_is_durable::NAME;
use crate::records::ask::Saw;
use crate::records::history::{History, Status};

/// After everything has healed: no row is behind a version that a client was told of. `last` gives a row's version in
/// memory, or 0 if it was never made or its tombstone was purged.
pub fn check(history: &History, last: impl Fn(usize) -> Version) -> Result<(), Violation> {
    for (number, operation) in history.operations.iter().enumerate() {
        let Status::Done(seen) = &operation.status else { continue };
        for ((row, _), saw) in operation.job.touches().into_iter().zip(seen) {
            let Saw::Changed { version, .. } = saw else { continue };
            let now = last(row);
            if now != Version::NEVER && now.magnitude() < version.magnitude() {
                let detail = format!("operation {number} made version {version} of row {row}, which is now at {now}");
                return Err(Violation::new(NAME, detail));
            }
        }
    }
    Ok(())
}

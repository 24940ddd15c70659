//! Promise: what was acknowledged is there after any crash that leaves a majority of synced disks (I5, I25-I27,
//! record-cache 86). Checked where it is decided, when an entry is first applied, and again at the end by versions.

use shardine_model::Version;

use crate::ask::Saw;
use crate::check::Violation;
use crate::disk::Disk;
use crate::history::{History, Status};

pub const NAME: &str = "acknowledged_is_durable";

/// An entry is being applied for the first time anywhere: a majority must have it on disk.
pub fn check_majority<'a>(
    disks: impl Iterator<Item = &'a Disk>,
    shard: usize,
    index: u64,
    term: u64,
) -> Result<(), Violation> {
    let (mut holding, mut all) = (0, 0);
    for disk in disks {
        all += 1;
        holding += usize::from(disk.stored(shard).holds(index, term));
    }
    if holding * 2 > all {
        return Ok(());
    }
    let detail = format!("entry {index} of term {term} is applied, and {holding} of {all} disks hold it");
    Err(Violation::new(NAME, detail))
}

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

//! Promise: what was acknowledged is there after any crash that leaves a majority of synced disks (reliability I5,
//! I25-I27, write-back 86). Checked where it is decided, when an entry is first applied; and by each tenant at the end,
//! by what its clients were told.

use crate::check::Violation;
use crate::disk::Disk;

pub const NAME: &str = "acknowledged_is_durable";

/// An entry is being applied for the first time anywhere: a majority must have it on disk.
pub fn check_majority<'a>(
    disks: impl Iterator<Item = &'a Disk>,
    group: usize,
    index: u64,
    term: u64,
) -> Result<(), Violation> {
    let (mut holding, mut all) = (0, 0);
    for disk in disks {
        all += 1;
        holding += usize::from(disk.stored(group).holds(index, term));
    }
    if holding * 2 > all {
        return Ok(());
    }
    let detail = format!("entry {index} of term {term} is applied, and {holding} of {all} disks hold it");
    Err(Violation::new(NAME, detail))
}

//! Promise: what was acknowledged is there after any crash that leaves a majority of synced disks (reliability I5,
//! I25-I27, write-back 86). Checked where it is decided, when an entry is first applied; and by each tenant at the end,
//! by what its clients were told. Who is a majority stands in `only_voters_count`.

pub const NAME: &str = "acknowledged_is_durable";

//! The promises about records, a file each.

pub mod answers_fit;
pub mod batches_are_atomic;
pub mod dirty_is_never_kicked;
pub mod each_request_once;
pub mod failed_means_nothing_happened;
pub mod flush_means_in_sql;
pub mod linearizable_per_key;
pub mod one_writer_at_a_time;
pub mod order_of_connections;
pub mod sql_equals_memory;
pub mod sql_never_goes_backwards;
pub mod stale_reads_are_bounded;
pub mod told_sql_is_true;
pub mod told_stays_true;
pub mod versions_only_grow;

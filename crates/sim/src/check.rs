//! The promises, a file each. Those that can be seen at one moment are checked as events happen; those about histories,
//! after the run.

pub mod acknowledged_is_durable;
pub mod batches_are_atomic;
pub mod dirty_is_never_kicked;
pub mod each_request_once;
pub mod failed_means_nothing_happened;
pub mod flush_means_in_sql;
pub mod heals_in_time;
pub mod linearizable_per_key;
pub mod replicas_agree;
pub mod sql_equals_memory;
pub mod sql_never_goes_backwards;
pub mod stale_reads_are_bounded;
pub mod told_sql_is_true;
pub mod versions_only_grow;

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub checker: &'static str,
    pub detail: String,
}

impl Violation {
    #[must_use]
    pub fn new(checker: &'static str, detail: impl Into<String>) -> Self {
        Self { checker, detail: detail.into() }
    }
}

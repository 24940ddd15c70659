//! The promises that every group keeps, a file each; those of one tenant stand with it (`records/check`, `coord/check`).
//! Those that can be seen at one moment are checked as events happen; those about histories, after the run.

pub mod acknowledged_is_durable;
pub mod every_entry_is_shown;
pub mod heals_in_time;
pub mod log_stays_bounded;
pub mod nobody_differs;
pub mod only_voters_count;
pub mod replica_numbers_are_used_once;
pub mod replicas_agree;

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

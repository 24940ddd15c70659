//! The service behind the gRPC and HTTP doors: turns owned requests into calls of the engine, and responses into results.
//!
//! What both doors must do alike stands here once: addresses and values as text, checks against definitions, the
//! deadline rules (records 34), waiting for SQL (records 32), and who may enter. It knows no protocol: no
//! protobuf, JSON or status code appears. The Redis door does not come by here; it works on a lane, without copies.

// In the order in which a newcomer should read them.
mod gate;
mod panics;
mod record_service;
mod room;
mod mget;
mod operating;
mod order;
mod query;
mod meaning;

mod record;
mod verify;
mod warm;
mod health;
mod measures;

pub mod address;
pub mod text;
mod fit;
mod failure;

pub use failure::Failure;
pub use gate::{Gate, GateOptions};
pub use health::{serves, trouble, unready};
pub use meaning::Changed;
pub use measures::DoorMeasures;
pub use order::{Deed, Delivery, Expiry, Numbered, Order, RowAddress, Step, StepOperator, Terms};
pub use panics::{Panicked, caught};
pub use query::{BatchOrder, Edge, Get, Got, Item, Page, Scan};
pub use record::Record;
pub use record_service::{Forwarding, RecordService, ScanPlan};
pub use verify::{DeadLetter, RowDifference, Verified, Verify};
pub use warm::{Warm, Warmed};

/// How long a request may take when its sender sets no deadline.
pub const DEADLINE_DEFAULT: std::time::Duration = std::time::Duration::from_secs(30);

/// The longest deadline that a sender may set; what waits longer holds its place against others for nothing.
pub const DEADLINE_MAX: std::time::Duration = std::time::Duration::from_secs(600);

/// Records of one `mget`. Each is a call of its own.
pub const MGET_ROWS_MAX: usize = 1_024;

/// Rows of a scan page when the sender does not say.
pub const SCAN_ROWS_DEFAULT: usize = 100;

/// Rows of a page of a comparison when the sender does not say: a few statements' worth of work for SQL.
pub const VERIFY_ROWS_DEFAULT: usize = 1_000;

/// Rows of one step of a warm-up: enough for a few statements, few enough for a pace in steps of a tenth of a second.
pub const WARM_ROWS_MAX: usize = 1_000;

#[cfg(test)]
mod tests;

//! The back door: the only crate that knows SQL. Reads rows that memory lacks, writes rows behind the answer, keeps the
//! SQL tables in the shape of their definitions.
//!
//! A job goes in, exactly one outcome comes out. Nothing is retried, delayed or chosen here: when to write, how often to
//! try again and what an outcome means for a record is the shard's business. Correctness does not rest on who writes or
//! in which order either: every write carries the version fence (write-back 94, `docs/sql.md`).

// In the order in which a newcomer should read them.
mod url;
mod job;
mod service;
mod worker;
mod pace;
mod queue;

mod owner;
mod database;
mod flush;
mod guest;
mod batch;

mod dialect;
mod columns;
mod key;
mod row;
mod pages;
mod drift;

mod survey;
mod plan;

mod sqlite;
mod postgres;
mod mysql;
mod tls;

mod status;
mod error;

pub use database::GRACE;
pub use error::Error;
pub use job::{
    Change, Drift, FlushJob, Found, Job, JobId, JobOutcome, LoadJob, Loaded, PurgeJob, Quarantined, ScanJob, Scope,
    TableJob,
};
pub use owner::{LogProgress, OnClaim, Owner, Trace};
pub use plan::{Plan, PlanOptions, Proposal, TablePlan, plan};
pub use row::stored_position;
pub use service::{Backend, Handle, Options, Rejected, Why};
pub use status::Status;
pub use survey::{ColumnFacts, ForeignKeyFacts, Made, Survey, TableFacts, TableKind, Words};
pub use url::{Server, Url, UrlError};

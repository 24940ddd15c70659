//! Why a node does not start, where whoever starts it can do something about it.

use std::io;
use std::net::SocketAddr;

use shardine_model::sql::Class as SqlClass;
use shardine_store::Error as DiskError;
use shardine_writeback::Error as SqlError;

/// What is none of these is a fault of ours, and travels without a name.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// reliability S1: data would lie open.
    #[error("--{door} {address} is reachable from other machines, and there is no token")]
    Exposed { door: &'static str, address: SocketAddr },
    #[error("cannot listen on {address}: {cause}")]
    Listen { address: SocketAddr, cause: io::Error },
    #[error("--{option} {asked}: this data directory was made with {found}, and what it holds stays where it is")]
    OtherLayout { option: &'static str, asked: u32, found: u32 },
    #[error("{0}")]
    InUse(DiskError),
    #[error("{0}")]
    OtherForm(DiskError),
    /// Something is missing, not as it was written, or of another node.
    #[error("{0}")]
    Damaged(DiskError),
    #[error("{0}")]
    Disk(DiskError),
    #[error("--sql: {0}")]
    SqlAddress(String),
    /// The database is another cluster's, or a later start's of this one.
    #[error("{0}")]
    SqlForeign(String),
    /// It does not let us in, does not exist, or is damaged.
    #[error("{0}")]
    SqlUnusable(String),
    #[error("{0}")]
    SqlBusy(String),
}

impl StartError {
    /// Names what the store or SQL refused; everything else goes through as it came.
    pub(crate) fn name(error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<DiskError>() {
            Ok(error) => from_disk(error),
            Err(error) => match error.downcast::<SqlError>() {
                Ok(error) => from_sql(error).into(),
                Err(error) => error,
            },
        }
    }
}

fn from_disk(error: DiskError) -> anyhow::Error {
    match error {
        DiskError::InUse { .. } => StartError::InUse(error).into(),
        DiskError::NewerFormat { .. } | DiskError::OlderFormat { .. } => StartError::OtherForm(error).into(),
        DiskError::Io { .. } | DiskError::Stopped { .. } => StartError::Disk(error).into(),
        DiskError::LogDamaged { .. }
        | DiskError::ShardLogDamaged { .. }
        | DiskError::LogMissing { .. }
        | DiskError::LogGone { .. }
        | DiskError::SnapshotsGone { .. }
        | DiskError::SnapshotMissing { .. }
        | DiskError::LogBehindSnapshot { .. }
        | DiskError::SnapshotBehindLog { .. }
        | DiskError::SnapshotDisagrees { .. }
        | DiskError::SnapshotDamaged { .. }
        | DiskError::IdentityDamaged { .. }
        | DiskError::IdentityMissing { .. }
        | DiskError::FileDamaged { .. }
        | DiskError::AnotherCluster { .. }
        | DiskError::AnotherNode { .. }
        | DiskError::AnotherName { .. } => StartError::Damaged(error).into(),
        // The rest are faults of the caller, who is this crate.
        _ => error.into(),
    }
}

fn from_sql(error: SqlError) -> StartError {
    match error.class {
        SqlClass::Foreign => StartError::SqlForeign(error.message),
        SqlClass::Retryable | SqlClass::Busy => StartError::SqlBusy(error.message),
        SqlClass::Fatal | SqlClass::Definition | SqlClass::Row | SqlClass::ForeignKey => {
            StartError::SqlUnusable(error.message)
        }
    }
}

//! Sorts SQLite's errors into our classes (write-back 112).

use rusqlite::ErrorCode;
use shardine_model::sql::Class;

use crate::error::Error;

pub(super) fn classify(error: rusqlite::Error) -> Error {
    let message = error.to_string();
    let foreign_key = Some(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
    let class = match error.sqlite_error_code() {
        Some(_) if error.sqlite_error().map(|fault| fault.extended_code) == foreign_key => Class::ForeignKey,
        Some(code) => class_of(code, &message),
        // Not from SQLite: a value of another type than asked for, a text with a NUL where none may be.
        None => Class::Definition,
    };
    Error { class, message }
}

fn class_of(code: ErrorCode, message: &str) -> Class {
    match code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::SystemIoFailure
        | ErrorCode::DiskFull
        | ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::OutOfMemory
        | ErrorCode::SchemaChanged
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted => Class::Retryable,
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig => Class::Row,
        ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::NoLargeFileSupport
        | ErrorCode::InternalMalfunction
        | ErrorCode::NotFound
        | ErrorCode::ApiMisuse
        | ErrorCode::ParameterOutOfRange => Class::Fatal,
        // SQLite has one number for every error in a statement. `abs` overflows on a version that somebody set to the
        // lowest integer: that is one row. All others say that table and statement do not fit: no such table, column.
        _ if message.contains("integer overflow") => Class::Row,
        _ => Class::Definition,
    }
}

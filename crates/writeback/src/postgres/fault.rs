//! Sorts PostgreSQL's errors into our classes (write-back 112).

use shardine_model::sql::Class;
use tokio_postgres::error::SqlState;

use crate::error::Error;
use crate::tls;

pub(super) fn classify(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(fault) => {
            let detail = fault.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
            let mut message = format!("{}{detail} ({})", fault.message(), fault.code().code());
            if message.contains("no encryption") {
                message += "; the server wants TLS: add ?sslmode=require, or better verify-full, to --sql";
            }
            Error { class: class_of(fault.code()), message }
        }
        None if error.to_string().contains("TLS") => tls::explain("PostgreSQL", &with_cause(&error)),
        None => Error { class: local_class(&error), message: with_cause(&error) },
    }
}

/// By the two letters of the class where they tell enough, by the whole code where they do not.
fn class_of(code: &SqlState) -> Class {
    let text = code.code();
    match text {
        // A column that every row must fill and that the definition does not know, or a type that cannot be turned.
        "23502" | "42804" => Class::Definition,
        "23503" => Class::ForeignKey,
        // A limit of the server on one row: an index entry, a tuple.
        "54000" | "54001" | "54011" | "54023" => Class::Row,
        "42501" | "3D000" | "3F000" | "XX001" | "XX002" | "0A000" => Class::Fatal,
        // The table was changed under a prepared statement.
        "26000" | "42P05" => Class::Retryable,
        _ => match &text[..text.len().min(2)] {
            "22" | "23" | "44" | "P0" => Class::Row,
            "42" => Class::Definition,
            "28" => Class::Fatal,
            // Connections, transactions in each other's way, resources, the operator, read-only, and what is unknown.
            _ => Class::Retryable,
        },
    }
}

/// Errors that the server had no part in: the connection, or a value that the column's type cannot take.
fn local_class(error: &tokio_postgres::Error) -> Class {
    let message = error.to_string();
    if message.starts_with("error serializing parameter") {
        Class::Row
    } else if message.starts_with("error deserializing column") {
        Class::Definition
    } else if message.contains("authentication") || message.contains("password") {
        Class::Fatal
    } else {
        Class::Retryable
    }
}

fn with_cause(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

//! Sorts the errors of MySQL and MariaDB into our classes (write-back 112).

use mysql_async::{DriverError, Error as Fault, ServerError};
use shardine_model::sql::Class;

use crate::error::Error;
use crate::tls;

pub(super) fn classify(error: Fault) -> Error {
    if let Fault::Io(mysql_async::IoError::Tls(fault)) = &error {
        return tls::explain("MySQL", &fault.to_string());
    }
    if let Fault::Driver(DriverError::NoClientSslFlagFromServer) = &error {
        return tls::explain("MySQL", "the server does not offer TLS");
    }
    if let Fault::Io(mysql_async::IoError::Io(fault)) = &error
        && fault.kind() == std::io::ErrorKind::InvalidData
    {
        return tls::explain("MySQL", &fault.to_string());
    }
    let class = match &error {
        Fault::Server(fault) => class_of(fault),
        // A row beyond what the server accepts in one packet. The driver looks before it sends, so nothing is broken.
        Fault::Driver(DriverError::PacketOutOfOrder) => Class::Retryable,
        Fault::Io(fault) if fault.to_string().to_lowercase().contains("packet") => Class::Row,
        Fault::Driver(_) | Fault::Io(_) => Class::Retryable,
        Fault::Url(_) => Class::Fatal,
        Fault::Other(_) => Class::Retryable,
    };
    let message = match &error {
        Fault::Server(fault) => format!("{} ({})", fault.message, fault.code),
        other => other.to_string(),
    };
    Error { class, message }
}

/// By number where it is known, else by the class of the state.
fn class_of(fault: &ServerError) -> Class {
    match fault.code {
        // Too many connections, disk or table full, shutting down, killed, read-only, locks, deadlocks, time limits.
        1020
        | 1021
        | 1030
        | 1040
        | 1053
        | 1105
        | 1114
        | 1158..=1161
        | 1180
        | 1203
        | 1205
        | 1206
        | 1213
        | 1290
        | 1317
        | 1792
        | 1836
        | 1927
        | 1969
        | 3024
        | 3100 => Class::Retryable,
        // No such table or column, another number of columns, a column without default that nobody fills.
        1051 | 1054 | 1109 | 1136 | 1146 | 1364 => Class::Definition,
        // No such database, no permission.
        1044 | 1045 | 1049 | 1130 | 1142 | 1143 | 1227 | 1698 => Class::Fatal,
        // A row of another table is missing, or is still there.
        1216 | 1217 | 1451 | 1452 => Class::ForeignKey,
        // Too large for a packet or for a row, and what checks, triggers and keys refuse.
        1118 | 1153 | 3819 | 4025 => Class::Row,
        _ => match fault.state.get(..2) {
            Some("22" | "23" | "45") => Class::Row,
            Some("42") => Class::Definition,
            Some("28") => Class::Fatal,
            _ => Class::Retryable,
        },
    }
}

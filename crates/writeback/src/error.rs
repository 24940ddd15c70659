//! Why a job failed, sorted by what can be done about it (write-back 112).

use std::fmt;

/// What kind of trouble it is. The class alone decides what the shard does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Passes by itself: busy, locked, unreachable, read-only, disk full. Try again later.
    Retryable,
    /// The SQL table is not what the definition says. Trying again helps only after somebody changed one of them.
    Definition,
    /// This one row is refused; others are not concerned.
    Row,
    /// This one row is refused because of a row of another table, which is not there yet or is still there.
    ForeignKey,
    /// Not ours to mend: no permission, a damaged file, no database at all. Pause and tell the operator.
    Fatal,
    /// The database is another cluster's, or has seen more of this one than this node has: nothing is written, and the
    /// operator is told ([`crate::Owner`]).
    Foreign,
    /// Its time was over before its turn came. Says nothing about the database.
    Busy,
}

impl Class {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Definition => "definition",
            Self::Row => "row",
            Self::ForeignKey => "foreign key",
            Self::Fatal => "fatal",
            Self::Foreign => "foreign",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A failure of a whole job, in the database's words where it had any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub class: Class,
    pub message: String,
}

impl Error {
    /// Whether the other rows of the batch are not concerned.
    pub(crate) fn is_of_one_row(&self) -> bool {
        matches!(self.class, Class::Row | Class::ForeignKey)
    }

    pub(crate) fn retryable(message: impl Into<String>) -> Self {
        Self { class: Class::Retryable, message: message.into() }
    }

    pub(crate) fn definition(message: impl Into<String>) -> Self {
        Self { class: Class::Definition, message: message.into() }
    }

    pub(crate) fn row(message: impl Into<String>) -> Self {
        Self { class: Class::Row, message: message.into() }
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self { class: Class::Busy, message: message.into() }
    }

    pub(crate) fn foreign(message: impl Into<String>) -> Self {
        Self { class: Class::Foreign, message: message.into() }
    }

    pub(crate) fn fatal(message: impl Into<String>) -> Self {
        Self { class: Class::Fatal, message: message.into() }
    }
}

//! Why a job failed, sorted by what can be done about it (write-back 112).

use shardine_model::sql::Class;

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

//! What can go wrong, in the words of a chat.

use shardine_client::records::{self, ErrorCode};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request makes no sense.
    #[error("{0}")]
    Bad(String),
    /// A text, or a body, that is too long.
    #[error("{0}")]
    TooLarge(String),
    /// There is no such chat.
    #[error("there is no chat {0}")]
    NoChat(crate::Id),
    /// Somebody who is not one of its members.
    #[error("user {user} is not in chat {chat}")]
    NotAMember {
        /// Whose chat it is not.
        user: i64,
        /// Which.
        chat: crate::Id,
    },
    /// The key of a request came with another one before.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The table belongs to somebody else.
    #[error("{0}")]
    Foreign(String),
    /// Shardine said no, or nothing.
    #[error(transparent)]
    Store(#[from] records::Error),
    /// It may have been done, or may be done later.
    #[error("{0}")]
    InDoubt(String),
}

impl Error {
    /// The one list of codes (`docs/errors.md`).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Bad(_) => ErrorCode::BadRequest,
            Self::TooLarge(_) => ErrorCode::TooLarge,
            Self::NoChat(_) => ErrorCode::NotFound,
            Self::NotAMember { .. } => ErrorCode::Forbidden,
            Self::KeyReused => ErrorCode::Exists,
            Self::Foreign(_) => ErrorCode::Internal,
            Self::InDoubt(_) | Self::Store(records::Error::InDoubt(_)) => ErrorCode::InDoubt,
            Self::Store(records::Error::Unreachable(_)) => ErrorCode::NoLeader,
            Self::Store(records::Error::Refused { code, .. }) => *code,
        }
    }

    /// The same for a request that is made of several steps: what has begun may still be finished.
    pub(crate) fn in_the_middle(self) -> Self {
        Self::InDoubt(format!("it may be done, or will be done soon: {self}"))
    }
}

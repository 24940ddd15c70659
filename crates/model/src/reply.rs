//! What a command answers.

use crate::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use crate::error::ErrorCode;
use crate::ids::Timestamp;
use crate::row::RowImage;
use crate::version::Version;

/// The answer to one command. Every one carries the record's versions (records 8, 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub version: Version,
    /// The newest version that SQL is known to hold.
    pub sql_version: Version,
    /// When the record ends, if it has an end.
    pub expires_at: Option<Timestamp>,
    pub outcome: Outcome,
}

/// What follows the code of a stored reply.
const HAS_ROW: u8 = 1;
const HAS_END: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Executed. `changed` counts fields created or removed, or is 1 for a record that existed.
    Done { changed: u32, row: Option<RowImage> },
    /// Not executed, for the same reason on every replica. The row is what stood in the way, where that helps; one without
    /// fields, with `wrong_type`, says that the record itself is of another kind: a hash, or a string.
    Refused { code: ErrorCode, row: Option<RowImage> },
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    One(Reply),
    /// One reply per item of a batch.
    Many(Vec<Reply>),
    /// A watched version had changed; nothing was done.
    ConditionFailed,
    /// Not executed or in doubt, by the code; nothing is known of the record.
    Failed(ErrorCode),
}

impl Reply {
    #[must_use]
    pub fn refusal(&self) -> Option<ErrorCode> {
        match &self.outcome {
            Outcome::Done { .. } => None,
            Outcome::Refused { code, .. } => Some(*code),
        }
    }

    #[must_use]
    pub fn row(&self) -> Option<&RowImage> {
        match &self.outcome {
            Outcome::Done { row, .. } | Outcome::Refused { row, .. } => row.as_ref(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.version.0);
        put_signed(out, self.sql_version.0);
        let row = match &self.outcome {
            Outcome::Done { changed, row } => {
                out.push(0);
                put_varint(out, u64::from(*changed));
                row
            }
            Outcome::Refused { code, row } => {
                out.push(*code as u8);
                row
            }
        };
        let marks = [(row.is_some(), HAS_ROW), (self.expires_at.is_some(), HAS_END)];
        out.push(marks.iter().filter(|(is_there, _)| *is_there).map(|(_, mark)| mark).sum());
        if let Some(row) = row {
            put_bytes(out, &row.packed);
        }
        if let Some(at) = self.expires_at {
            put_varint(out, at.0);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = Version(reader.signed("version")?);
        let sql_version = Version(reader.signed("sql version")?);
        let code = reader.u8("reply code")?;
        let changed = if code == 0 { reader.varint("changed count")? } else { 0 };
        let changed =
            u32::try_from(changed).map_err(|_| DecodeError::Unknown { what: "changed count", value: changed })?;
        let marks = reader.u8("reply marks")?;
        if marks > (HAS_ROW | HAS_END) {
            return Err(DecodeError::Unknown { what: "reply marks", value: u64::from(marks) });
        }
        let row = match marks & HAS_ROW {
            0 => None,
            _ => {
                let packed = reader.bytes("row")?;
                crate::row::check_packed(packed)?;
                Some(RowImage { packed: packed.into() })
            }
        };
        let expires_at = match marks & HAS_END {
            0 => None,
            _ => Some(Timestamp(reader.varint("expiry")?)),
        };
        let outcome = match code {
            0 => Outcome::Done { changed, row },
            code => {
                let value = u64::from(code);
                let code = ErrorCode::from_number(code).ok_or(DecodeError::Unknown { what: "reply code", value })?;
                Outcome::Refused { code, row }
            }
        };
        Ok(Self { version, sql_version, expires_at, outcome })
    }
}

impl Answer {
    /// Bytes of the record that it brings, if it is a single reply.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::One(reply) => reply.row().map_or(0, |row| row.packed.len()),
            Self::Many(_) | Self::ConditionFailed | Self::Failed(_) => 0,
        }
    }

    /// The stored form, for results that a retry must get again (records 35, 68).
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::One(reply) => {
                out.push(1);
                reply.encode(out);
            }
            Self::Many(replies) => {
                out.push(2);
                put_varint(out, replies.len() as u64);
                replies.iter().for_each(|reply| reply.encode(out));
            }
            Self::ConditionFailed => out.push(3),
            Self::Failed(code) => out.extend_from_slice(&[4, *code as u8]),
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("answer form")? {
            1 => Self::One(Reply::decode(reader)?),
            2 => {
                let count = reader.count("reply count")?;
                let mut replies = Vec::new();
                for _ in 0..count {
                    replies.push(Reply::decode(reader)?);
                }
                Self::Many(replies)
            }
            3 => Self::ConditionFailed,
            4 => {
                let number = reader.u8("answer code")?;
                let unknown = DecodeError::Unknown { what: "answer code", value: u64::from(number) };
                Self::Failed(ErrorCode::from_number(number).ok_or(unknown)?)
            }
            form => return Err(DecodeError::Unknown { what: "answer form", value: u64::from(form) }),
        })
    }
}

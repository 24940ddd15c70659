//! Commands that read one row. Each checks its words before it looks at the row, so that a rehearsal on an absent row
//! finds every fault of the command without reading anything (records 12). Nothing here asks the engine.

mod bits;
mod hash;
mod key;
mod string;

pub(crate) use string::string_of;

use shardine_model::{FieldsView, RowView, Table, Timestamp, Version};

use crate::command::record;
use crate::failure::Failure;
use crate::frame::Line;
use crate::verb::Verb;
use crate::wire::Protocol;

pub(crate) use bits::offset;
pub(crate) use key::kind_of;

/// A row as a read found it.
#[derive(Clone, Copy)]
pub(crate) enum Found<'a> {
    Live(RowView<'a>),
    Absent { version: Version, sql_version: Version },
}

impl<'a> Found<'a> {
    pub(crate) const NEVER: Found<'static> = Found::Absent { version: Version::NEVER, sql_version: Version::NEVER };

    #[inline]
    fn fields(&self) -> Option<&FieldsView<'a>> {
        match self {
            Self::Live(view) => Some(&view.fields),
            Self::Absent { .. } => None,
        }
    }
}

/// What an answer depends on beside the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) protocol: Protocol,
    pub(crate) now: Timestamp,
    /// A random number of this command's own.
    pub(crate) chance: u64,
    /// How far the log was applied in the state that a stale read saw.
    pub(crate) applied: Option<u64>,
    pub(crate) reply_bytes_max: usize,
    /// Bytes of the same reply that are written already.
    pub(crate) reply_bytes_used: usize,
}

impl Context {
    /// Whether what has so many bytes may go on growing.
    #[inline]
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), Failure> {
        if self.reply_bytes_used + bytes <= self.reply_bytes_max {
            return Ok(());
        }
        Err(Failure::too_long(self.reply_bytes_max))
    }
}

/// A read command, checked for its number of words. `table` is the definition; `None` in the dynamic table.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) verb: Verb,
    pub(crate) line: Line<'a>,
    pub(crate) table: Option<&'a Table>,
}

/// Writes the answer of a read command, given the row.
#[inline]
pub(crate) fn answer(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    match ask.verb {
        Verb::Hget => hash::hget(ask, found, context, out),
        Verb::Get => string::get(ask, found, context, out),
        _ => answer_rarer(ask, found, context, out),
    }
}

fn answer_rarer(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    match ask.verb {
        Verb::Hmget => hash::hmget(ask, found, context, out),
        Verb::Hgetall => hash::hgetall(ask, found, context, out),
        Verb::Hkeys => hash::hkeys(ask, found, out),
        Verb::Hvals => hash::hvals(ask, found, out),
        Verb::Hlen => hash::hlen(ask, found, out),
        Verb::Hexists => hash::hexists(ask, found, out),
        Verb::Hstrlen => hash::hstrlen(ask, found, out),
        Verb::Hrandfield => hash::hrandfield(ask, found, context, out),
        Verb::Hscan => hash::hscan(ask, found, out),
        Verb::Strlen => string::strlen(ask, found, out),
        Verb::Getbit => bits::getbit(ask, found, out),
        Verb::Bitcount => bits::bitcount(ask, found, out),
        Verb::Bitpos => bits::bitpos(ask, found, out),
        Verb::Object => key::object(ask, found, context, out),
        Verb::Memory => key::memory(ask, found, context, out),
        Verb::Setrange => string::setrange(ask, found, out),
        Verb::Getrange | Verb::Substr => string::getrange(ask, found, out),
        Verb::Mget => string::mget(ask, found, context, out),
        Verb::Exists | Verb::Touch => key::exists(found, out),
        Verb::Type => key::kind(ask, found, out),
        Verb::Ttl | Verb::Pttl | Verb::Expiretime | Verb::Pexpiretime => key::ttl(ask, found, context, out),
        Verb::RecGet => record::get(ask, found, context, out),
        other => Err(Failure::unsupported(format!("{} does not read a row", other.name()))),
    }
}

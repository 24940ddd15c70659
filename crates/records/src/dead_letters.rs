//! Dead letters: rows that SQL will not take (write-back 113), and what ends a quarrel with SQL about a row.
//!
//! A letter's row stays in memory, dirty and readable. Invariant: every letter belongs to a dirty row; it goes when the
//! row is clean or gone (`exchange_row`).

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::entry::{RaisedRow, RefusedRow, SettledRow};
use shardine_model::{RowKey, RowKeyBuf, TableId, Timestamp, Version, limits};

use crate::apply::Sink;
use crate::command::content_of;
use crate::record::Versions;
use crate::state::Records;

/// What SQL said of a row that it does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The version that was refused last. A newer one is tried by itself.
    pub version: Version,
    pub error: String,
    pub tries: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

impl Records {
    /// Rows that SQL does not take, by address.
    pub fn dead_letters(&self) -> impl Iterator<Item = (RowKey<'_>, &DeadLetter)> {
        self.letters.iter().map(|(row, letter)| (row.as_ref(), letter))
    }

    #[must_use]
    pub fn dead_letter(&self, row: &RowKeyBuf) -> Option<&DeadLetter> {
        self.letters.get(row)
    }

    #[must_use]
    pub fn dead_letter_count(&self) -> usize {
        self.letters.len()
    }

    /// Whether SQL has refused just this version of the row.
    #[must_use]
    pub fn is_dead(&self, row: &RowKeyBuf, version: Version) -> bool {
        self.letters.get(row).is_some_and(|letter| letter.version == version)
    }

    /// A row that has changed since is tried again instead. Where the list is full, nothing is noted.
    pub(crate) fn apply_refused(&mut self, refused: &RefusedRow<'_>) {
        let Some(known) = self.versions(refused.row.position(), refused.row) else { return };
        let is_dirty = known.version != known.sql_version && self.is_sql(refused.row.table);
        if known.version != refused.version || !is_dirty {
            return;
        }
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::RefusedIsForgotten) {
            return self.apply_written(refused.row, refused.version);
        }
        let (version, now) = (refused.version, self.clock);
        let (row, error) = (refused.row.to_owned(), cut(refused.error).to_owned());
        let is_full = self.letters.len() >= limits::DEAD_LETTERS_MAX;
        match self.letters.get_mut(&row) {
            Some(letter) => {
                *letter =
                    DeadLetter { version, error, tries: letter.tries + 1, last_at: now, first_at: letter.first_at };
            }
            None if is_full => {}
            None => {
                self.letters.insert(row, DeadLetter { version, error, tries: 1, first_at: now, last_at: now });
            }
        }
    }

    /// SQL's row takes the place of memory's, if nobody has changed that one since SQL was asked. Versions never go back.
    pub(crate) fn apply_settle(&mut self, settled: &SettledRow<'_>, sink: &mut impl Sink) {
        let SettledRow { row, expected, version, sql_version, fields } = *settled;
        let grows = version.magnitude() > expected.magnitude();
        if !grows || !self.is_sql(row.table) || !self.is_at(row, expected) {
            return;
        }
        let versions = Versions { version, sql_version, expires_at: None };
        let fields = if version.is_live() { fields } else { &[] };
        self.put_row(row.position(), row, Some(content_of(row, versions, fields, false)));
        self.letters.remove(&row.to_owned());
        if version != sql_version {
            sink.dirty(row);
        }
    }

    /// Lifts a row above what SQL holds, so that the fence lets it through.
    pub(crate) fn apply_raise(&mut self, raised: &RaisedRow<'_>, sink: &mut impl Sink) {
        let RaisedRow { row, expected, held } = *raised;
        let position = row.position();
        let may = held.magnitude() >= expected.magnitude() && held.has_next() && self.is_sql(row.table);
        let Some(known) = self.versions(position, row).filter(|known| may && known.version == expected) else { return };
        let version = if expected.is_live() { held.next_live() } else { held.next_tombstone() };
        let content = self.rewritten(position, row, &Versions { version, ..known });
        self.put_row(position, row, content);
        sink.dirty(row);
    }

    pub(crate) fn encode_letters(&self, out: &mut Vec<u8>) {
        put_varint(out, self.letters.len() as u64);
        for (row, letter) in &self.letters {
            put_varint(out, u64::from(row.table.0));
            put_bytes(out, &row.key);
            put_bytes(out, &row.sort);
            put_signed(out, letter.version.0);
            put_bytes(out, letter.error.as_bytes());
            put_varint(out, letter.tries);
            put_varint(out, letter.first_at.0);
            put_varint(out, letter.last_at.0);
        }
    }

    pub(crate) fn decode_letters(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.count("dead letter count")? {
            let table = reader.varint("table id")?;
            let table = u32::try_from(table).map_err(|_| DecodeError::Unknown { what: "table id", value: table })?;
            let (key, sort) = (reader.bytes("key")?.into(), reader.bytes("sort key")?.into());
            let letter = DeadLetter {
                version: Version(reader.signed("version")?),
                error: reader.text("error")?.to_owned(),
                tries: reader.varint("tries")?,
                first_at: Timestamp(reader.varint("first refusal")?),
                last_at: Timestamp(reader.varint("last refusal")?),
            };
            self.letters.insert(RowKeyBuf { table: TableId(table), key, sort }, letter);
        }
        Ok(())
    }
}

/// The beginning of a text, as long as a letter may have it.
fn cut(error: &str) -> &str {
    &error[..error.floor_char_boundary(limits::DEAD_LETTER_ERROR_BYTES_MAX)]
}

//! Dead letters: rows that SQL will not take (write-back 113), and what ends a quarrel with SQL about a row.
//!
//! A letter's row stays in memory, dirty and readable. Invariant: every letter belongs to a dirty row, and lies in its segment;
//! it goes when the row is clean or gone (`exchange_row`).

use itertools::Itertools;
use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::entry::{RaisedRow, RefusedRow, SettledRow};
use shardine_model::{ChangedFields, RowKey, RowKeyBuf, TableId, Timestamp, Version, limits};

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
        let segments = self.index.segments().take(if self.totals.marks.letters == 0 { 0 } else { usize::MAX });
        let letters = segments.map(|segment| &segment.derived.letters).filter(|letters| !letters.is_empty());
        letters.kmerge_by(|(row, _), (other, _)| row < other).map(|(row, letter)| (row.as_ref(), letter))
    }

    #[must_use]
    pub fn dead_letter(&self, row: &RowKeyBuf) -> Option<&DeadLetter> {
        if self.totals.marks.letters == 0 {
            return None;
        }
        let segment = self.index.segment_of(row.as_ref().position(), row.as_ref());
        self.index.segment(segment).derived.letters.get(row)
    }

    #[must_use]
    pub fn dead_letter_count(&self) -> usize {
        self.totals.marks.letters
    }

    /// Whether SQL has refused just this version of the row.
    #[must_use]
    pub fn is_dead(&self, row: &RowKeyBuf, version: Version) -> bool {
        self.dead_letter(row).is_some_and(|letter| letter.version == version)
    }

    /// A row that has changed since is tried again instead. Where the list is full, nothing is noted.
    pub(crate) fn apply_refused(&mut self, refused: &RefusedRow<'_>) {
        let Some(known) = self.versions(refused.row.position(), refused.row) else { return };
        let is_dirty = known.version != known.sql_version && self.is_sql(refused.row.table);
        if known.version != refused.version || !is_dirty || !self.owns(refused.row) {
            return;
        }
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::RefusedIsForgotten) {
            return self.apply_written(refused.row, refused.version);
        }
        let (version, now) = (refused.version, self.clock);
        let (row, error) = (refused.row.to_owned(), cut(refused.error).to_owned());
        let letter = match self.dead_letter(&row) {
            Some(known) => DeadLetter { version, error, tries: known.tries + 1, last_at: now, ..*known },
            None if self.totals.marks.letters >= limits::DEAD_LETTERS_MAX => return,
            None => DeadLetter { version, error, tries: 1, first_at: now, last_at: now },
        };
        self.file_letter(row, letter);
    }

    /// A letter of a snapshot; nothing comes of one whose row is not dirty.
    pub(crate) fn put_letter(&mut self, row: RowKeyBuf, letter: DeadLetter) -> Option<()> {
        let known = self.versions(row.as_ref().position(), row.as_ref())?;
        let is_dirty = known.version != known.sql_version && self.is_sql(row.table);
        is_dirty.then(|| self.file_letter(row, letter))
    }

    fn file_letter(&mut self, row: RowKeyBuf, letter: DeadLetter) {
        let segment = self.index.segment_of(row.as_ref().position(), row.as_ref());
        self.save_before_change(segment);
        let is_new = self.index.segment_mut(segment).derived.letters.insert(row, letter).is_none();
        self.totals.marks.letters += usize::from(is_new);
    }

    /// SQL's row takes the place of memory's, if nobody has changed that one since SQL was asked. Versions never go back.
    pub(crate) fn apply_settle(&mut self, settled: &SettledRow<'_>, sink: &mut impl Sink) {
        let SettledRow { row, expected, version, sql_version, fields } = *settled;
        let grows = version.magnitude() > expected.magnitude();
        let known = self.versions(row.position(), row).filter(|known| known.version == expected);
        let Some(known) = known.filter(|_| grows && self.is_sql(row.table) && self.owns(row)) else { return };
        // What had changed here is all that may differ from what SQL has.
        let is_told = version.is_live() && sql_version.is_live() && version != sql_version;
        let changed = if is_told { known.changed } else { ChangedFields::ALL };
        let versions = Versions { version, sql_version, expires_at: None, changed };
        let fields = if version.is_live() { fields } else { &[] };
        self.put_row(row.position(), row, Some(content_of(row, versions, fields, false)));
        self.remove_letter(row);
        if version != sql_version {
            sink.dirty(row);
        }
    }

    /// Lifts a row above what SQL holds, so that the fence lets it through.
    pub(crate) fn apply_raise(&mut self, raised: &RaisedRow<'_>, sink: &mut impl Sink) {
        let RaisedRow { row, expected, held } = *raised;
        let position = row.position();
        let may =
            held.magnitude() >= expected.magnitude() && held.has_next() && self.is_sql(row.table) && self.owns(row);
        let Some(known) = self.versions(position, row).filter(|known| may && known.version == expected) else { return };
        let version = if expected.is_live() { held.next_live() } else { held.next_tombstone() };
        let content = self.rewritten(position, row, &Versions { version, ..known });
        self.put_row(position, row, content);
        sink.dirty(row);
    }

    /// The row is as SQL has it, or as SQL shall have it: what was refused is over.
    fn remove_letter(&mut self, row: RowKey<'_>) {
        let segment = self.index.segment_of(row.position(), row);
        let removed = self.index.segment_mut(segment).derived.letters.remove(&row.to_owned());
        self.totals.marks.letters -= usize::from(removed.is_some());
    }
}

impl DeadLetter {
    pub(crate) fn encode(&self, row: RowKey<'_>, out: &mut Vec<u8>) {
        put_varint(out, u64::from(row.table.0));
        put_bytes(out, row.key);
        put_bytes(out, row.sort);
        put_signed(out, self.version.0);
        put_bytes(out, self.error.as_bytes());
        put_varint(out, self.tries);
        put_varint(out, self.first_at.0);
        put_varint(out, self.last_at.0);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(RowKeyBuf, Self), DecodeError> {
        let table = TableId(reader.varint_u32("table id")?);
        let row = RowKeyBuf { table, key: reader.bytes("key")?.into(), sort: reader.bytes("sort key")?.into() };
        let letter = Self {
            version: Version(reader.signed("version")?),
            error: reader.text("error")?.to_owned(),
            tries: reader.varint("tries")?,
            first_at: Timestamp(reader.varint("first refusal")?),
            last_at: Timestamp(reader.varint("last refusal")?),
        };
        Ok((row, letter))
    }
}

/// The beginning of a text, as long as a letter may have it.
fn cut(error: &str) -> &str {
    &error[..error.floor_char_boundary(limits::DEAD_LETTER_ERROR_BYTES_MAX)]
}

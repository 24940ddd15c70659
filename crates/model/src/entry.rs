//! Entries of a shard's log: what they say, and the bytes that say it.
//!
//! Every entry opens with a format byte and a kind. An unknown one stops the replica (records 73): guessing what
//! a newer leader meant would part the replicas.

use crate::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use crate::command::{put_row_key, read_row_key};
use crate::epoch::{CatalogueVersion, RequestEpoch};
use crate::ids::{ReplicaId, TableId, Timestamp};
use crate::key::RowKey;
use crate::split::Split;
use crate::table::Table;
use crate::version::Version;

/// 1 was a form before positions had slots, 2 one before entries were stamped when proposed; nobody has data of them.
pub const ENTRY_FORMAT: u8 = 3;

// Frozen kinds. 11 to 39 are kept for merges, fences and resharding.
pub const KIND_COMMANDS: u8 = 1;
const KIND_LOAD: u8 = 2;
const KIND_KICK: u8 = 3;
const KIND_LEASE: u8 = 4;
const KIND_WRITTEN: u8 = 5;
const KIND_SCHEMA: u8 = 6;
const KIND_PURGE: u8 = 7;
const KIND_EXPIRE: u8 = 8;
const KIND_CLEAR: u8 = 9;
const KIND_SPLIT: u8 = 10;
const KIND_SUSPEND: u8 = 40;
const KIND_RESUME: u8 = 41;
const KIND_REFUSED: u8 = 42;
const KIND_SETTLE: u8 = 43;
const KIND_RAISE: u8 = 44;
const KIND_FLOOR: u8 = 45;

/// A committed entry as the state machine reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<'a> {
    /// Requests in arrival order; `requests` is their encoded run, walked while applying.
    /// All of them were routed and read by one epoch; where it no longer holds, none is executed.
    Commands {
        proposed_at: Timestamp,
        epoch: RequestEpoch,
        requests: &'a [u8],
    },
    /// Rows as SQL holds them; a row that is resident already is left alone.
    Load(Vec<LoadedRow<'a>>),
    /// Records to drop from memory if they are clean and still at this version.
    Kick(Vec<(RowKey<'a>, Version)>),
    /// The right to write to SQL. Holds no time: everybody counts on their own clock (records 63).
    Lease {
        holder: ReplicaId,
        term: u64,
        length_ms: u64,
    },
    /// Versions that SQL is known to hold.
    Written(Vec<(RowKey<'a>, Version)>),
    /// A definition, and the version of the catalogue that it belongs to.
    Schema {
        catalogue: CatalogueVersion,
        table: Box<Table>,
    },
    /// Tombstones that are old enough to forget; of tables with SQL behind them, those that SQL has deleted.
    Purge(Vec<(RowKey<'a>, Version)>),
    /// Records whose time may be over by the leader's clock.
    Expire {
        at: Timestamp,
        rows: Vec<RowKey<'a>>,
    },
    /// Empties a table that has no SQL behind it.
    Clear {
        table: TableId,
    },
    /// From here on requests are answered `suspended`, until a resume (records 67).
    Suspend,
    Resume,
    /// Rows that SQL will not take. One that is still at this version goes to the dead letters (write-back 113).
    Refused {
        at: Timestamp,
        rows: Vec<RefusedRow<'a>>,
    },
    /// What SQL holds takes a row's place in memory (write-back 113, 117).
    Settle(SettledRow<'a>),
    /// Rows that go above what somebody else has put into SQL, fields as they are (write-back 117).
    Raise(Vec<RaisedRow<'a>>),
    /// New records of the table begin above this magnitude: said before tombstones up to it are deleted in SQL
    /// (write-back 102).
    Floor {
        table: TableId,
        floor: u64,
    },
    /// The shard is parted in two, unless its bounds or members have changed since that was decided (sharding B-23).
    Split(Box<Split>),
}

/// A row as it stood in SQL: version 0 means there was none, below 0 a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedRow<'a> {
    pub row: RowKey<'a>,
    pub version: Version,
    pub fields: &'a [u8],
}

/// A row that SQL will not take, and SQL's words for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedRow<'a> {
    pub row: RowKey<'a>,
    pub version: Version,
    pub error: &'a str,
}

/// A row as it is to be, if it is still at the version `expected`.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledRow<'a> {
    pub row: RowKey<'a>,
    pub expected: Version,
    pub version: Version,
    pub sql_version: Version,
    pub fields: &'a [u8],
}

/// A row that is to have a version above `held`, if it is still at the version `expected`.
#[derive(Clone, Debug, PartialEq)]
pub struct RaisedRow<'a> {
    pub row: RowKey<'a>,
    pub expected: Version,
    pub held: Version,
}

/// Opens an entry of commands; encoded requests are appended behind it.
pub fn open_commands(out: &mut Vec<u8>, proposed_at: Timestamp, epoch: RequestEpoch) {
    out.extend_from_slice(&[ENTRY_FORMAT, KIND_COMMANDS]);
    out.extend_from_slice(&proposed_at.0.to_le_bytes());
    epoch.encode(out);
}

/// Where an entry of commands has its stamp: as long for every moment, so that it can be set when all else is written.
const STAMP: std::ops::Range<usize> = 2..10;

/// Sets the stamp of an entry of commands that is about to be proposed.
///
/// # Panics
///
/// If the entry was not begun by [`open_commands`].
pub fn stamp_commands(entry: &mut [u8], proposed_at: Timestamp) {
    assert_eq!(entry[..STAMP.start], [ENTRY_FORMAT, KIND_COMMANDS], "only entries of commands are stamped late");
    entry[STAMP].copy_from_slice(&proposed_at.0.to_le_bytes());
}

/// The leader's time in an entry of any kind, if it has one: a look at its first bytes, without reading the rest.
#[must_use]
pub fn stamp_of(entry: &[u8]) -> Option<Timestamp> {
    let mut reader = Reader::new(entry);
    if reader.u8("entry format").ok()? != ENTRY_FORMAT {
        return None;
    }
    match reader.u8("entry kind").ok()? {
        KIND_COMMANDS => reader.fixed_u64("proposal time").ok().map(Timestamp),
        KIND_EXPIRE | KIND_REFUSED => reader.varint("time").ok().map(Timestamp),
        _ => None,
    }
}

/// The split that an entry is, if it is one: a look at its first bytes is enough for all others.
pub fn split_of(entry: &[u8]) -> Result<Option<Split>, DecodeError> {
    if entry.get(..2) != Some(&[ENTRY_FORMAT, KIND_SPLIT]) {
        return Ok(None);
    }
    match Entry::decode(entry)? {
        Entry::Split(split) => Ok(Some(*split)),
        _ => unreachable!("its kind was looked at"),
    }
}

impl<'a> Entry<'a> {
    /// A definition, while nobody counts versions of the catalogue.
    #[must_use]
    pub fn definition(table: Table) -> Self {
        Self::Schema { catalogue: CatalogueVersion::FIRST, table: Box::new(table) }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut open = |kind: u8| out.extend_from_slice(&[ENTRY_FORMAT, kind]);
        match self {
            Self::Commands { proposed_at, epoch, requests } => {
                open_commands(out, *proposed_at, *epoch);
                out.extend_from_slice(requests);
            }
            Self::Load(rows) => {
                open(KIND_LOAD);
                put_varint(out, rows.len() as u64);
                for loaded in rows {
                    put_form_and_key(out, loaded.row);
                    put_signed(out, loaded.version.0);
                    put_bytes(out, loaded.fields);
                }
            }
            Self::Kick(rows) => {
                open(KIND_KICK);
                put_versions(out, rows);
            }
            Self::Lease { holder, term, length_ms } => {
                open(KIND_LEASE);
                put_varint(out, holder.0);
                put_varint(out, *term);
                put_varint(out, *length_ms);
            }
            Self::Written(rows) => {
                open(KIND_WRITTEN);
                put_versions(out, rows);
            }
            Self::Schema { catalogue, table } => {
                open(KIND_SCHEMA);
                put_varint(out, catalogue.0);
                table.encode(out);
            }
            Self::Purge(rows) => {
                open(KIND_PURGE);
                put_versions(out, rows);
            }
            Self::Expire { at, rows } => {
                open(KIND_EXPIRE);
                put_varint(out, at.0);
                put_varint(out, rows.len() as u64);
                rows.iter().for_each(|row| put_form_and_key(out, *row));
            }
            Self::Clear { table } => {
                open(KIND_CLEAR);
                put_varint(out, u64::from(table.0));
            }
            Self::Split(split) => {
                open(KIND_SPLIT);
                split.encode(out);
            }
            Self::Suspend => open(KIND_SUSPEND),
            Self::Resume => open(KIND_RESUME),
            Self::Refused { at, rows } => {
                open(KIND_REFUSED);
                put_varint(out, at.0);
                put_varint(out, rows.len() as u64);
                for refused in rows {
                    put_form_and_key(out, refused.row);
                    put_signed(out, refused.version.0);
                    put_bytes(out, refused.error.as_bytes());
                }
            }
            Self::Settle(settled) => {
                open(KIND_SETTLE);
                put_form_and_key(out, settled.row);
                put_signed(out, settled.expected.0);
                put_signed(out, settled.version.0);
                put_signed(out, settled.sql_version.0);
                put_bytes(out, settled.fields);
            }
            Self::Floor { table, floor } => {
                open(KIND_FLOOR);
                put_varint(out, u64::from(table.0));
                put_varint(out, *floor);
            }
            Self::Raise(rows) => {
                open(KIND_RAISE);
                put_varint(out, rows.len() as u64);
                for raised in rows {
                    put_form_and_key(out, raised.row);
                    put_signed(out, raised.expected.0);
                    put_signed(out, raised.held.0);
                }
            }
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let format = reader.u8("entry format")?;
        match (u64::from(format), u64::from(ENTRY_FORMAT)) {
            (value, known) if value < known => return Err(DecodeError::Retired { what: "entry format", value }),
            (value, known) if value > known => return Err(DecodeError::Unknown { what: "entry format", value }),
            _ => {}
        }
        let kind = reader.u8("entry kind")?;
        if kind == KIND_COMMANDS {
            let proposed_at = Timestamp(reader.fixed_u64("proposal time")?);
            let epoch = RequestEpoch::decode(&mut reader)?;
            return Ok(Self::Commands { proposed_at, epoch, requests: reader.rest() });
        }
        let entry = Self::decode_kind(kind, &mut reader)?;
        reader.finish("entry")?;
        Ok(entry)
    }

    fn decode_kind(kind: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match kind {
            KIND_LOAD => {
                let mut rows = Vec::new();
                for _ in 0..reader.count("row count")? {
                    let row = read_form_and_key(reader)?;
                    let version = Version(reader.signed("version")?);
                    let fields = reader.bytes("fields")?;
                    crate::row::check_packed(fields)?;
                    rows.push(LoadedRow { row, version, fields });
                }
                Self::Load(rows)
            }
            KIND_KICK => Self::Kick(read_versions(reader)?),
            KIND_LEASE => Self::Lease {
                holder: ReplicaId(reader.varint("lease holder")?),
                term: reader.varint("lease term")?,
                length_ms: reader.varint("lease length")?,
            },
            KIND_WRITTEN => Self::Written(read_versions(reader)?),
            KIND_SCHEMA => Self::Schema {
                catalogue: CatalogueVersion(reader.varint("catalogue version")?),
                table: Box::new(Table::decode(reader)?),
            },
            KIND_PURGE => Self::Purge(read_versions(reader)?),
            KIND_EXPIRE => {
                let at = Timestamp(reader.varint("expiry time")?);
                let mut rows = Vec::new();
                for _ in 0..reader.count("row count")? {
                    rows.push(read_form_and_key(reader)?);
                }
                Self::Expire { at, rows }
            }
            KIND_CLEAR => Self::Clear { table: read_table_id(reader)? },
            KIND_FLOOR => Self::Floor { table: read_table_id(reader)?, floor: reader.varint("floor")? },
            KIND_SPLIT => Self::Split(Box::new(Split::decode(reader)?)),
            KIND_SUSPEND => Self::Suspend,
            KIND_RESUME => Self::Resume,
            KIND_REFUSED => {
                let at = Timestamp(reader.varint("refusal time")?);
                let mut rows = Vec::new();
                for _ in 0..reader.count("row count")? {
                    let row = read_form_and_key(reader)?;
                    let version = Version(reader.signed("version")?);
                    rows.push(RefusedRow { row, version, error: reader.text("error")? });
                }
                Self::Refused { at, rows }
            }
            KIND_SETTLE => {
                let row = read_form_and_key(reader)?;
                let expected = Version(reader.signed("expected version")?);
                let version = Version(reader.signed("version")?);
                let sql_version = Version(reader.signed("sql version")?);
                let fields = reader.bytes("fields")?;
                crate::row::check_packed(fields)?;
                Self::Settle(SettledRow { row, expected, version, sql_version, fields })
            }
            KIND_RAISE => {
                let mut rows = Vec::new();
                for _ in 0..reader.count("row count")? {
                    let row = read_form_and_key(reader)?;
                    let expected = Version(reader.signed("expected version")?);
                    rows.push(RaisedRow { row, expected, held: Version(reader.signed("held version")?) });
                }
                Self::Raise(rows)
            }
            _ => return Err(DecodeError::Unknown { what: "entry kind", value: u64::from(kind) }),
        })
    }
}

fn read_table_id(reader: &mut Reader<'_>) -> Result<TableId, DecodeError> {
    let table = reader.varint("table id")?;
    u32::try_from(table).map(TableId).map_err(|_| DecodeError::Unknown { what: "table id", value: table })
}

fn put_form_and_key(out: &mut Vec<u8>, row: RowKey<'_>) {
    out.push(u8::from(!row.sort.is_empty()));
    put_row_key(out, row);
}

fn read_form_and_key<'a>(reader: &mut Reader<'a>) -> Result<RowKey<'a>, DecodeError> {
    let sorted = match reader.u8("row form")? {
        0 => false,
        1 => true,
        form => return Err(DecodeError::Unknown { what: "row form", value: u64::from(form) }),
    };
    read_row_key(reader, sorted)
}

fn put_versions(out: &mut Vec<u8>, rows: &[(RowKey<'_>, Version)]) {
    put_varint(out, rows.len() as u64);
    for (row, version) in rows {
        put_form_and_key(out, *row);
        put_signed(out, version.0);
    }
}

fn read_versions<'a>(reader: &mut Reader<'a>) -> Result<Vec<(RowKey<'a>, Version)>, DecodeError> {
    let mut rows = Vec::new();
    for _ in 0..reader.count("row count")? {
        let row = read_form_and_key(reader)?;
        rows.push((row, Version(reader.signed("version")?)));
    }
    Ok(rows)
}

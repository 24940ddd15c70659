//! How a table meets SQL: whether at all, when its changes go there, who wins when somebody else changed a row, and
//! which columns are meant.

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::limits;
use crate::value::FieldType;

/// Where the rows of a table come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Rows live in an SQL table; memory holds those in use.
    Sql,
    /// Rows live here only.
    None,
}

impl Backing {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::None => "none",
        }
    }
}

/// What a table with SQL behind it asks of the write-back (write-back 108, 117).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlOptions {
    pub mode: WriteMode,
    /// How long a change may wait for others of its row before it is written.
    pub delay_ms: u32,
    /// Rows of one batch.
    pub batch: u32,
    pub conflict: Conflict,
    /// How long a tombstone stays in SQL (write-back 102).
    pub tombstone_keep_ms: u64,
    /// An SQL table that was there before and has columns of its own names.
    pub mapping: Option<Mapping>,
    /// Tables whose rows are to be in SQL before those of this one that refer to them (write-back 107).
    pub after: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Rows follow behind the answer.
    #[default]
    Behind,
    /// A change is answered when SQL has it, unless it says otherwise.
    Through,
    /// Rows are written when they are to leave memory, or when somebody asks (`flush`).
    OnEvict,
}

/// When a change is answered (records 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub after: AckAfter,
    /// How long the answer may be held back for SQL. Then it comes without: the change is made either way.
    pub within_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckAfter {
    /// As the table says: at once, or, where it is written through, when SQL has it.
    #[default]
    Table,
    /// When a majority of disks have it.
    Raft,
    /// When SQL has it too.
    Sql,
}

impl Default for Ack {
    fn default() -> Self {
        Self { after: AckAfter::default(), within_ms: limits::SQL_ACK_MS }
    }
}

/// What happens to a row that SQL holds in a higher version than memory: somebody changed it behind our back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// Memory's row is written over it, one version higher.
    #[default]
    CacheWins,
    /// SQL's row replaces the one in memory.
    SqlWins,
    /// Neither: the row goes to the dead letters until somebody decides.
    Stop,
}

/// The columns of an existing SQL table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub table: String,
    pub key: String,
    /// What the key column holds: `blob`, `string`, or `int64` for keys that are decimal numbers.
    pub key_type: FieldType,
    /// Without one no write could be fenced: the table is then read through and never written.
    pub version: Option<String>,
    /// One column per field, in the order of the definition.
    pub columns: Vec<String>,
    pub deletes: Deletes,
}

/// What becomes of a deleted row in an SQL table that was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletes {
    /// It is deleted, and of others only what changed is written: others who use the table need to know nothing of Shardine.
    #[default]
    Row,
    /// It stays, with its version below zero, and rows are written whole: for a table whose other users know of versions.
    /// What mappings meant before there was anything else.
    Tombstone,
}

/// A week: longer than a deleted key is likely to be asked for or made again by a client that still knows its version.
const TOMBSTONE_KEEP_MS: u64 = 7 * 24 * 3_600 * 1_000;

impl Default for SqlOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::default(),
            delay_ms: 0,
            batch: limits::FLUSH_ROWS_MAX as u32,
            conflict: Conflict::default(),
            tombstone_keep_ms: TOMBSTONE_KEEP_MS,
            mapping: None,
            after: Vec::new(),
        }
    }
}

impl SqlOptions {
    /// Whether rows can be read from SQL but never be written there.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.version.is_none())
    }

    /// Whether the SQL table is shared with others who need not know of Shardine: only what changed is written there, and a
    /// deleted row is deleted.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.deletes == Deletes::Row && mapping.version.is_some())
    }

    /// `has_order`: whether the form of the definition knows of tables that come before this one.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, has_order: bool) {
        out.push(self.mode.tag());
        put_varint(out, u64::from(self.delay_ms));
        put_varint(out, u64::from(self.batch));
        out.push(self.conflict.tag());
        put_varint(out, self.tombstone_keep_ms);
        match &self.mapping {
            None => out.push(0),
            Some(mapping) => mapping.encode(out),
        }
        if has_order {
            put_varint(out, self.after.len() as u64);
            self.after.iter().for_each(|parent| put_bytes(out, parent.as_bytes()));
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, has_order: bool) -> Result<Self, DecodeError> {
        let small =
            |value: u64, what: &'static str| u32::try_from(value).map_err(|_| DecodeError::Unknown { what, value });
        let mode = WriteMode::from_tag(reader.u8("write mode")?)?;
        let delay_ms = small(reader.varint("write delay")?, "write delay")?;
        let batch = small(reader.varint("write batch")?, "write batch")?;
        let conflict = Conflict::from_tag(reader.u8("conflict policy")?)?;
        let tombstone_keep_ms = reader.varint("tombstone age")?;
        let mapping = match reader.u8("mapping form")? {
            0 => None,
            form @ (1 | 2) => Some(Mapping::decode(reader, form == 2, Deletes::Tombstone)?),
            GUEST_MAPPING => {
                let has_version = match reader.u8("mapping flags")? {
                    flags @ (0 | 1) => flags == 1,
                    flags => return Err(DecodeError::Unknown { what: "mapping flags", value: u64::from(flags) }),
                };
                Some(Mapping::decode(reader, has_version, Deletes::Row)?)
            }
            form => return Err(DecodeError::Unknown { what: "mapping form", value: u64::from(form) }),
        };
        let mut after = Vec::new();
        let parents = if has_order { reader.count("parent count")? } else { 0 };
        for _ in 0..parents {
            after.push(reader.text("parent table")?.to_owned());
        }
        Ok(Self { mode, delay_ms, batch, conflict, tombstone_keep_ms, mapping, after })
    }
}

/// The form of a mapping whose deleted rows are deleted: flags follow (1 it has a version column), and then what follows in
/// the first two.
const GUEST_MAPPING: u8 = 3;

impl Mapping {
    fn encode(&self, out: &mut Vec<u8>) {
        let has_version = u8::from(self.version.is_some());
        match self.deletes {
            Deletes::Tombstone => out.push(1 + has_version),
            Deletes::Row => out.extend([GUEST_MAPPING, has_version]),
        }
        put_bytes(out, self.table.as_bytes());
        put_bytes(out, self.key.as_bytes());
        out.push(self.key_type.tag());
        self.version.iter().for_each(|version| put_bytes(out, version.as_bytes()));
        put_varint(out, self.columns.len() as u64);
        self.columns.iter().for_each(|column| put_bytes(out, column.as_bytes()));
    }

    fn decode(reader: &mut Reader<'_>, has_version: bool, deletes: Deletes) -> Result<Self, DecodeError> {
        let table = reader.text("mapped table")?.to_owned();
        let key = reader.text("mapped key")?.to_owned();
        let key_type = FieldType::from_tag(reader.u8("mapped key type")?)?;
        let version = if has_version { Some(reader.text("mapped version")?.to_owned()) } else { None };
        let mut columns = Vec::new();
        for _ in 0..reader.count("mapped column count")? {
            columns.push(reader.text("mapped column")?.to_owned());
        }
        Ok(Self { table, key, key_type, version, columns, deletes })
    }
}

impl WriteMode {
    pub const ALL: [Self; 3] = [Self::Behind, Self::Through, Self::OnEvict];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Through => "through",
            Self::OnEvict => "on-evict",
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::Behind => 0,
            Self::Through => 1,
            Self::OnEvict => 2,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        let unknown = DecodeError::Unknown { what: "write mode", value: u64::from(tag) };
        Self::ALL.into_iter().find(|mode| mode.tag() == tag).ok_or(unknown)
    }
}

impl Deletes {
    pub const ALL: [Self; 2] = [Self::Row, Self::Tombstone];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Tombstone => "tombstone",
        }
    }
}

impl Conflict {
    pub const ALL: [Self; 3] = [Self::CacheWins, Self::SqlWins, Self::Stop];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CacheWins => "cache-wins",
            Self::SqlWins => "sql-wins",
            Self::Stop => "stop",
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::CacheWins => 0,
            Self::SqlWins => 1,
            Self::Stop => 2,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        let unknown = DecodeError::Unknown { what: "conflict policy", value: u64::from(tag) };
        Self::ALL.into_iter().find(|policy| policy.tag() == tag).ok_or(unknown)
    }
}

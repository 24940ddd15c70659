//! Definitions of tables, and the catalogue that holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backing::{Backing, SqlOptions};
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::epoch::CatalogueVersion;
use crate::error::{ErrorCode, Refusal};
use crate::ids::{FieldId, TableId};
use crate::limits;
use crate::row::FieldRef;
use crate::value::{FieldType, Value, ValueRef};

/// A field of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub id: FieldId,
    pub name: String,
    pub kind: FieldType,
    /// Whether it may hold NULL, which is a value of its own.
    pub nullable: bool,
    pub default: Value,
}

impl Field {
    /// A field that is never NULL, of the type of its default.
    #[must_use]
    pub fn of(id: FieldId, name: impl Into<String>, default: Value) -> Self {
        let kind = default.as_ref().field_type().unwrap_or(FieldType::Blob);
        Self { id, name: name.into(), kind, nullable: false, default }
    }

    /// What a field holds for which nobody named a default: NULL where it may.
    #[must_use]
    pub fn unnamed_default(kind: FieldType, nullable: bool) -> Value {
        if nullable { Value::Null } else { kind.zero() }
    }

    /// Whether it may hold a value, as it is.
    #[must_use]
    pub fn holds(&self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Null => self.nullable,
            value => self.kind.holds(value),
        }
    }

    /// Its type and, with a `?`, that it may be NULL: as `table create` takes it.
    #[must_use]
    pub fn type_text(&self) -> String {
        format!("{}{}", self.kind.name(), if self.nullable { "?" } else { "" })
    }

    /// Whether the first forms of definitions can say what it is: the type follows from the default then.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind.is_plain() && !self.nullable
    }

    /// The type, whether it may be NULL, and the default: what stands behind the name in a definition.
    pub fn encode_type(&self, out: &mut Vec<u8>) {
        self.kind.encode(out);
        out.push(u8::from(self.nullable));
        self.default.as_ref().encode(out);
    }

    pub fn decode_type(id: FieldId, name: String, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = FieldType::decode(reader)?;
        let nullable = match reader.u8("field flags")? {
            flags @ (0 | 1) => flags == 1,
            flags => return Err(DecodeError::Unknown { what: "field flags", value: u64::from(flags) }),
        };
        let default = ValueRef::decode(reader)?.to_owned();
        Ok(Self { id, name, kind, nullable, default })
    }
}

/// One part of a sort key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortPart {
    pub name: String,
    pub kind: FieldType,
}

/// A table's definition. Invariants: names are checked identifiers, unique ignoring case (SQL compares them so);
/// field ids are unique, from 1, and below `next_field`, which only grows, so a dropped field's id never returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    /// Grows with every change of the definition; replicas take the higher one (records 65).
    pub version: u64,
    pub fields: Vec<Field>,
    pub sort: Vec<SortPart>,
    pub backing: Backing,
    /// Counts only with SQL behind the table.
    pub sql: SqlOptions,
    /// A dynamic table takes any field name, all values blobs. The table `kv` is the one.
    pub dynamic: bool,
    /// A dropped table keeps its id and name reserved for this definition's version.
    pub dropped: bool,
    pub next_field: FieldId,
}

/// The table that exists from the start and takes every key without a known table prefix.
pub const KV: TableId = TableId(1);
pub const KV_NAME: &str = "kv";
/// The field that makes a table's records usable as Redis strings.
pub const VALUE_FIELD: &str = "value";
/// In a dynamic table, the one field of a record that is a string. It has an id, so that no name of a hash's field can be
/// taken for it, and shows as `value`.
pub const STRING_FIELD: FieldRef<'static> = FieldRef::Id(FieldId(1));

/// The fields of a dynamic table that a request names: `value` by itself is the string, any other names are those of a hash.
pub fn dynamic_field<'a>(name: &'a [u8], all: impl IntoIterator<Item = &'a [u8]>) -> FieldRef<'a> {
    let is_value = |name: &[u8]| name == VALUE_FIELD.as_bytes();
    if is_value(name) && all.into_iter().all(is_value) { STRING_FIELD } else { FieldRef::Name(name) }
}

impl Table {
    /// The dynamic table `kv` (`docs/redis.md`).
    #[must_use]
    pub fn kv() -> Self {
        Self {
            id: KV,
            name: KV_NAME.to_owned(),
            version: 1,
            fields: Vec::new(),
            sort: Vec::new(),
            backing: Backing::None,
            sql: SqlOptions::default(),
            dynamic: true,
            dropped: false,
            next_field: FieldId(1),
        }
    }

    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<&Field> {
        self.fields.iter().find(|field| field.name.as_bytes() == name)
    }

    #[must_use]
    pub fn field_by_id(&self, id: FieldId) -> Option<&Field> {
        self.fields.iter().find(|field| field.id == id)
    }

    /// The default of a field, as a value that lives as long as the definition.
    #[must_use]
    pub fn default_of(&self, id: FieldId) -> Option<ValueRef<'_>> {
        self.field_by_id(id).map(|field| field.default.as_ref())
    }

    #[must_use]
    pub fn sort_types(&self) -> Vec<FieldType> {
        self.sort.iter().map(|part| part.kind).collect()
    }

    #[must_use]
    pub fn has_sort(&self) -> bool {
        !self.sort.is_empty()
    }

    /// Whether a table, a field or a column may be called so.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        check_name("", name).is_ok()
    }

    /// Checks everything that a definition must keep to before it is proposed.
    pub fn check(&self) -> Result<(), Refusal> {
        let bad = |message: String| Err(Refusal::new(ErrorCode::BadRequest, message));
        check_name("table", &self.name)?;
        if self.fields.is_empty() && !self.dynamic {
            return bad(format!("table {} has no fields: give at least one as NAME:TYPE", self.name));
        }
        if self.fields.len() > limits::TABLE_FIELDS_MAX {
            let limit = limits::TABLE_FIELDS_MAX;
            return bad(format!("table {} has {} fields, the limit is {limit}", self.name, self.fields.len()));
        }
        if self.sort.len() > limits::SORT_PARTS_MAX {
            return bad(format!("a sort key has at most {} parts", limits::SORT_PARTS_MAX));
        }
        let mut names: Vec<String> = Vec::new();
        for name in self.fields.iter().map(|field| &field.name).chain(self.sort.iter().map(|part| &part.name)) {
            check_name("field", name)?;
            let folded = name.to_ascii_lowercase();
            if names.contains(&folded) {
                return bad(format!("the name {name} stands twice in table {} (case does not count)", self.name));
            }
            names.push(folded);
        }
        for field in &self.fields {
            if !field.kind.is_within_limits() {
                return bad(format!("{} has a type that is not: {}", field.name, field.kind.name()));
            }
            if !field.holds(field.default.as_ref()) {
                return bad(format!("the default of {} is not a {}", field.name, field.type_text()));
            }
        }
        for part in &self.sort {
            if !matches!(part.kind, FieldType::Int64 | FieldType::String) {
                return bad(format!(
                    "sort part {} is {}; only int64 and string order rows",
                    part.name,
                    part.kind.name()
                ));
            }
        }
        self.check_sql()
    }

    fn check_sql(&self) -> Result<(), Refusal> {
        let bad = |message: String| Err(Refusal::new(ErrorCode::BadRequest, message));
        if !(1..=limits::FLUSH_ROWS_MAX as u32).contains(&self.sql.batch) {
            return bad(format!("a batch has 1 to {} rows", limits::FLUSH_ROWS_MAX));
        }
        if self.sql.delay_ms > limits::WRITE_DELAY_MS_MAX {
            return bad(format!("a change waits at most {} ms for others", limits::WRITE_DELAY_MS_MAX));
        }
        if self.sql.after.len() > limits::PARENTS_MAX {
            return bad(format!("a table comes after {} others at most", limits::PARENTS_MAX));
        }
        if !self.sql.after.is_empty() && self.backing == Backing::None {
            return bad(format!("table {} has no SQL behind it in which it could come after others", self.name));
        }
        self.sql.after.iter().try_for_each(|parent| check_name("table", parent))?;
        let Some(mapping) = &self.sql.mapping else { return Ok(()) };
        if self.backing == Backing::None || !self.sort.is_empty() {
            return bad(format!("table {} is mapped: it needs SQL behind it and no sort key", self.name));
        }
        if mapping.columns.len() != self.fields.len() {
            return bad(format!(
                "table {} has {} fields and maps {}",
                self.name,
                self.fields.len(),
                mapping.columns.len()
            ));
        }
        if !matches!(mapping.key_type, FieldType::Blob | FieldType::String | FieldType::Int64) {
            return bad(format!(
                "the key column of a mapped table holds blob, string or int64, not {}",
                mapping.key_type.name()
            ));
        }
        check_name("mapped table", &mapping.table)?;
        let columns = [&mapping.key].into_iter().chain(&mapping.version).chain(&mapping.columns);
        columns.into_iter().try_for_each(|column| check_name("mapped column", column))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let format = self.format();
        out.push(format);
        put_varint(out, u64::from(self.id.0));
        put_bytes(out, self.name.as_bytes());
        put_varint(out, self.version);
        out.push(u8::from(self.backing == Backing::Sql) | u8::from(self.dynamic) << 1 | u8::from(self.dropped) << 2);
        put_varint(out, u64::from(self.next_field.0));
        put_varint(out, self.fields.len() as u64);
        for field in &self.fields {
            put_varint(out, u64::from(field.id.0));
            put_bytes(out, field.name.as_bytes());
            if format == DEFINITION_FORMAT {
                field.encode_type(out);
            } else {
                field.default.as_ref().encode(out);
            }
        }
        put_varint(out, self.sort.len() as u64);
        for part in &self.sort {
            put_bytes(out, part.name.as_bytes());
            out.push(part.kind.tag());
        }
        self.sql.encode(out, format > UNORDERED_DEFINITION_FORMAT);
    }

    /// The oldest form that can say it, so that what could be said before is said as before.
    fn format(&self) -> u8 {
        match () {
            () if !self.fields.iter().all(Field::is_plain) => DEFINITION_FORMAT,
            () if self.sql.after.is_empty() => UNORDERED_DEFINITION_FORMAT,
            () => PLAIN_DEFINITION_FORMAT,
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let format = reader.u8("definition format")?;
        if !(FIRST_DEFINITION_FORMAT..=DEFINITION_FORMAT).contains(&format) {
            return Err(DecodeError::Unknown { what: "definition format", value: u64::from(format) });
        }
        let id = TableId(narrow(reader.varint("table id")?, "table id")?);
        let name = reader.text("table name")?.to_owned();
        let version = reader.varint("definition version")?;
        let flags = reader.u8("definition flags")?;
        if flags & !DEFINITION_FLAGS != 0 {
            return Err(DecodeError::Unknown { what: "definition flags", value: u64::from(flags) });
        }
        let next_field = FieldId(narrow(reader.varint("next field")?, "next field")?);
        let mut fields = Vec::new();
        for _ in 0..reader.count("field count")? {
            let id = FieldId(narrow(reader.varint("field id")?, "field id")?);
            let name = reader.text("field name")?.to_owned();
            fields.push(if format == DEFINITION_FORMAT {
                Field::decode_type(id, name, reader)?
            } else {
                let default = ValueRef::decode(reader)?;
                let unknown = DecodeError::Unknown { what: "default of this form", value: u64::from(format) };
                default.field_type().filter(|kind| kind.is_plain()).ok_or(unknown)?;
                Field::of(id, name, default.to_owned())
            });
        }
        let mut sort = Vec::new();
        for _ in 0..reader.count("sort part count")? {
            let name = reader.text("sort part name")?.to_owned();
            sort.push(SortPart { name, kind: FieldType::from_tag(reader.u8("sort part type")?)? });
        }
        let backing = if flags & 1 == 1 { Backing::Sql } else { Backing::None };
        let (dynamic, dropped) = (flags & 2 != 0, flags & 4 != 0);
        // Definitions of the first form knew one way to write.
        let sql = match format {
            FIRST_DEFINITION_FORMAT => SqlOptions::default(),
            _ => SqlOptions::decode(reader, format > UNORDERED_DEFINITION_FORMAT)?,
        };
        Ok(Self { id, name, version, fields, sort, backing, sql, dynamic, dropped, next_field })
    }
}

const FIRST_DEFINITION_FORMAT: u8 = 1;
/// Ends before the tables that come before this one. Where there are none it is written still.
const UNORDERED_DEFINITION_FORMAT: u8 = 2;
/// Its fields are never NULL and of plain types.
const PLAIN_DEFINITION_FORMAT: u8 = 3;
const DEFINITION_FORMAT: u8 = 4;
/// Backed by SQL, dynamic, dropped.
const DEFINITION_FLAGS: u8 = 0b111;

fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Unknown { what, value })
}

/// Letters, digits and underscores, not beginning with a digit or two underscores (those are ours in SQL).
fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let mut bytes = name.bytes();
    let first_fits = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest_fits = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first_fits && rest_fits && !name.starts_with("__") && name.len() <= limits::NAME_BYTES_MAX {
        return Ok(());
    }
    let limit = limits::NAME_BYTES_MAX;
    let rule = "letters, digits and _, not beginning with a digit or __";
    Err(Refusal::new(ErrorCode::BadRequest, format!("{what} name {name:?} must be {rule}, at most {limit} bytes")))
}

/// All definitions in force. Cheap to clone and to hand to a door: tables are shared.
#[derive(Clone, Debug)]
pub struct Catalogue {
    version: CatalogueVersion,
    /// The version in which a name last came or went. A text that was read by an older one may mean another row now:
    /// `foo:1` is a key of `kv` until there is a table `foo`.
    named_in: CatalogueVersion,
    by_id: BTreeMap<TableId, Arc<Table>>,
    by_name: BTreeMap<String, TableId>,
    /// By the name of a table, those that come after it.
    children: BTreeMap<String, BTreeSet<TableId>>,
}

impl Default for Catalogue {
    fn default() -> Self {
        let (by_id, by_name, children) = Default::default();
        Self { version: CatalogueVersion::FIRST, named_in: CatalogueVersion::FIRST, by_id, by_name, children }
    }
}

impl Catalogue {
    #[must_use]
    pub fn version(&self) -> CatalogueVersion {
        self.version
    }

    /// The oldest version by which a text still means what it meant.
    #[must_use]
    pub fn named_in(&self) -> CatalogueVersion {
        self.named_in
    }

    /// The same definitions under these versions: what a snapshot restores.
    #[must_use]
    pub fn versioned(self, version: CatalogueVersion, named_in: CatalogueVersion) -> Self {
        Self { version, named_in, ..self }
    }

    /// Takes a definition of this version of the catalogue, if it is newer than the one in force; says whether it did.
    pub fn put_in(&mut self, version: CatalogueVersion, table: Table) -> bool {
        self.version = self.version.max(version);
        let changes_names = table.dropped || !self.by_id.contains_key(&table.id);
        let is_taken = self.put(table);
        if is_taken && changes_names {
            self.named_in = self.named_in.max(version);
        }
        is_taken
    }

    /// Takes a definition if it is newer than the one in force; says whether it did (records 65).
    pub fn put(&mut self, table: Table) -> bool {
        if self.by_id.get(&table.id).is_some_and(|known| known.version >= table.version) {
            return false;
        }
        if table.dropped {
            // The name may belong to a newer table by now.
            if self.by_name.get(&table.name) == Some(&table.id) {
                self.by_name.remove(&table.name);
            }
        } else {
            self.by_name.insert(table.name.clone(), table.id);
        }
        for children in self.children.values_mut() {
            children.remove(&table.id);
        }
        for parent in table.sql.after.iter().filter(|_| !table.dropped) {
            self.children.entry(parent.clone()).or_default().insert(table.id);
        }
        self.by_id.insert(table.id, Arc::new(table));
        true
    }

    /// Tables in force whose rows go to SQL after those of this one (write-back 107). A table may come after itself.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &Arc<Table>> {
        self.children.get(name).into_iter().flatten().filter_map(|id| self.get(*id))
    }

    #[must_use]
    pub fn get(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(&id).filter(|table| !table.dropped)
    }

    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Table>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// Tables in force, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_name.values().filter_map(|id| self.by_id.get(id))
    }

    /// Every definition ever made, dropped ones too, by id: what snapshots carry.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_id.values()
    }

    #[must_use]
    pub fn next_id(&self) -> TableId {
        TableId(self.by_id.keys().next_back().map_or(KV.0, |id| id.0) + 1)
    }
}

//! What a Redis key means: which row of which table. The text form itself is the model's (`model/src/address.rs`).
//!
//! A key whose text before the first `:` names no table belongs to `kv` as a whole. `kv:` may be written out, and must
//! be where a key of `kv` would otherwise be taken for another table's. In tables with a definition a key may stand in
//! braces; in `kv` it is its text. Looks nothing up but definitions.

use std::sync::Arc;

use shardine_model::table::{KV, KV_NAME};
use shardine_model::{Catalogue, ErrorCode, Refusal, RowKey, Table, TableId, Value, address, limits, sort};
use smallvec::SmallVec;

/// A row as a door knows it: its table, and its key borrowed from the request.
#[derive(Clone, Debug)]
pub struct ResolvedKey<'a> {
    /// `None` is the table `kv`, which every door knows by heart: the common case costs no reference count.
    pub table: Option<Arc<Table>>,
    pub key: &'a [u8],
    pub sort: SmallVec<[u8; 16]>,
}

impl ResolvedKey<'_> {
    #[inline]
    #[must_use]
    pub fn row(&self) -> RowKey<'_> {
        RowKey { table: self.table_id(), key: self.key, sort: &self.sort }
    }

    #[inline]
    #[must_use]
    pub fn table_id(&self) -> TableId {
        self.table.as_ref().map_or(KV, |table| table.id)
    }

    /// The definition, if the table has one that fixes its fields.
    #[inline]
    #[must_use]
    pub fn typed(&self) -> Option<&Table> {
        self.table.as_deref().filter(|table| !table.dynamic)
    }
}

/// Reads the address of one row.
#[inline]
pub fn parse<'a>(text: &'a [u8], catalogue: &Catalogue) -> Result<ResolvedKey<'a>, Refusal> {
    match split_table(text, catalogue) {
        (Some(table), rest) if table.has_sort() => parse_sorted(rest, table),
        (table, key) => resolved(table, key, SmallVec::new()),
    }
}

/// Reads the address of all rows of one key: as `parse`, but without a sort key.
#[inline]
pub fn parse_partition<'a>(text: &'a [u8], catalogue: &Catalogue) -> Result<ResolvedKey<'a>, Refusal> {
    let (table, key) = split_table(text, catalogue);
    resolved(table, key, SmallVec::new())
}

#[inline]
fn resolved(table: Option<Arc<Table>>, text: &[u8], sort: SmallVec<[u8; 16]>) -> Result<ResolvedKey<'_>, Refusal> {
    let is_typed = table.as_ref().is_some_and(|table| !table.dynamic);
    let key = if is_typed { address::bare_key(text) } else { text };
    if key.len() > limits::KEY_BYTES_MAX {
        let (length, limit) = (key.len(), limits::KEY_BYTES_MAX);
        return Err(Refusal::new(ErrorCode::TooLarge, format!("the key has {length} bytes, the limit is {limit}")));
    }
    Ok(ResolvedKey { table, key, sort })
}

#[inline]
fn split_table<'a>(text: &'a [u8], catalogue: &Catalogue) -> (Option<Arc<Table>>, &'a [u8]) {
    match named(text, catalogue) {
        None => (None, text),
        Some((table, key)) if table.id == KV => (None, key),
        Some((table, key)) => (Some(Arc::clone(table)), key),
    }
}

/// The table that a text names, and what follows the name.
#[inline]
fn named<'c, 'a>(text: &'a [u8], catalogue: &'c Catalogue) -> Option<(&'c Arc<Table>, &'a [u8])> {
    let (name, rest) = address::split_table(text)?;
    Some((catalogue.named(std::str::from_utf8(name).ok()?)?, rest))
}

fn parse_sorted(text: &[u8], table: Arc<Table>) -> Result<ResolvedKey<'_>, Refusal> {
    let (key, parts) = address::split_sort(text, &table.sort_types())?;
    let sort = encode_sort(&parts)?;
    resolved(Some(table), key, sort)
}

/// Reads `part` or `part,part` into the bytes that order rows. The first part alone is enough (bounds of scans).
pub fn parse_sort(text: &[u8], table: &Table) -> Result<SmallVec<[u8; 16]>, Refusal> {
    encode_sort(&address::parse_sort(text, &table.sort_types())?)
}

fn encode_sort(parts: &[Value]) -> Result<SmallVec<[u8; 16]>, Refusal> {
    let bytes = sort::encode(parts);
    if bytes.len() > limits::SORT_BYTES_MAX {
        let limit = limits::SORT_BYTES_MAX;
        return Err(Refusal::new(ErrorCode::TooLarge, format!("the sort key is above its limit of {limit} bytes")));
    }
    Ok(SmallVec::from_slice(&bytes))
}

/// Appends the address of a row, such that `parse` reads it back.
pub fn print(row: RowKey<'_>, catalogue: &Catalogue, out: &mut Vec<u8>) {
    let table = catalogue.get(row.table);
    if row.table == KV {
        if named(row.key, catalogue).is_some() {
            out.extend_from_slice(KV_NAME.as_bytes());
            out.push(b':');
        }
    } else if let Some(table) = table {
        out.extend_from_slice(table.name.as_bytes());
        out.push(b':');
    }
    match table {
        Some(table) if !table.dynamic => address::print_key(row.key, out),
        _ => out.extend_from_slice(row.key),
    }
    if let Some(table) = table.filter(|_| !row.sort.is_empty()) {
        out.push(b'@');
        print_sort(row.sort, table, out);
    }
}

/// Appends a sort key as text.
pub fn print_sort(sort: &[u8], table: &Table, out: &mut Vec<u8>) {
    address::print_sort(&sort::decode(&table.sort_types(), sort).unwrap_or_default(), out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardine_model::table::SortPart;
    use shardine_model::{Backing, Field, FieldId, FieldType};

    use super::*;

    fn table(id: u32, name: &str, sort: &[(&str, FieldType)]) -> Table {
        let sort = sort.iter().map(|(name, kind)| SortPart { name: (*name).to_owned(), kind: *kind }).collect();
        let default = FieldType::Int64.zero();
        let field = Field::of(FieldId(1), "age", default);
        let (id, name) = (TableId(id), name.to_owned());
        let (backing, next_field) = (Backing::None, FieldId(2));
        let fields = vec![field];
        let sql = Default::default();
        Table { id, name, version: 1, fields, sort, backing, sql, dynamic: false, dropped: false, next_field }
    }

    fn catalogue() -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.put(Table::kv());
        catalogue.put(table(2, "users", &[]));
        catalogue.put(table(3, "messages", &[("chat", FieldType::String), ("number", FieldType::Int64)]));
        catalogue
    }

    fn there_and_back(text: &str) -> (u32, String, String) {
        let catalogue = catalogue();
        let place = parse(text.as_bytes(), &catalogue).unwrap();
        let mut printed = Vec::new();
        print(place.row(), &catalogue, &mut printed);
        let key = String::from_utf8_lossy(place.key).into_owned();
        (place.table_id().0, key, String::from_utf8(printed).unwrap())
    }

    #[test]
    fn a_known_prefix_names_the_table() {
        assert_eq!(there_and_back("users:lili"), (2, "lili".into(), "users:lili".into()));
        assert_eq!(there_and_back("key:1"), (1, "key:1".into(), "key:1".into()));
        assert_eq!(there_and_back("lili"), (1, "lili".into(), "lili".into()));
        assert_eq!(there_and_back(""), (1, String::new(), String::new()));
    }

    #[test]
    fn kv_can_be_named_and_is_where_it_must_be() {
        assert_eq!(there_and_back("kv:lili"), (1, "lili".into(), "lili".into()));
        assert_eq!(there_and_back("kv:users:lili"), (1, "users:lili".into(), "kv:users:lili".into()));
        assert_eq!(there_and_back("kv:kv:x"), (1, "kv:x".into(), "kv:kv:x".into()));
    }

    /// redis-cluster A-51
    #[test]
    fn braces_around_a_key_are_no_part_of_it_where_there_is_a_definition() {
        assert_eq!(there_and_back("users:{42}"), (2, "42".into(), "users:42".into()));
        assert_eq!(there_and_back("users:{42}:x"), (2, "{42}:x".into(), "users:{42}:x".into()));
        assert_eq!(there_and_back("users:{{42}}"), (2, "{42}".into(), "users:{{42}}".into()));
        assert_eq!(there_and_back("messages:{42}@a,7"), (3, "42".into(), "messages:42@a,7".into()));
        assert_eq!(there_and_back("messages:{{42}}@a,7"), (3, "{42}".into(), "messages:{{42}}@a,7".into()));
        assert_eq!(there_and_back("{42}"), (1, "{42}".into(), "{42}".into()));
        assert_eq!(there_and_back("kv:{42}"), (1, "{42}".into(), "{42}".into()));
        let catalogue = catalogue();
        assert_eq!(parse_partition(b"messages:{42}", &catalogue).unwrap().key, b"42");
    }

    #[test]
    fn the_longest_key_may_have_braces_and_a_sort_key() {
        let longest = "x".repeat(limits::KEY_BYTES_MAX);
        let (braced, sorted) = (format!("users:{{{longest}}}"), format!("messages:{{{longest}}}@general,-5"));

        assert_eq!(there_and_back(&braced), (2, longest.clone(), format!("users:{longest}")));
        assert_eq!(there_and_back(&sorted), (3, longest.clone(), format!("messages:{longest}@general,-5")));
        for text in [format!("users:{{{longest}x}}"), format!("messages:{longest}x@a,1")] {
            assert_eq!(parse(text.as_bytes(), &catalogue()).unwrap_err().code, ErrorCode::TooLarge);
        }
    }

    #[test]
    fn the_last_at_begins_the_sort_key() {
        let sorted = there_and_back("messages:a@b@general,-5");
        assert_eq!(sorted, (3, "a@b".into(), "messages:a@b@general,-5".into()));
        let odd = there_and_back("messages:a@x%2Cy%40%25,7");
        assert_eq!(odd, (3, "a".into(), "messages:a@x%2Cy%40%25,7".into()));
    }

    #[test]
    fn what_cannot_be_a_sort_key_is_refused() {
        let catalogue = catalogue();
        for text in
            ["messages:a", "messages:a@x", "messages:a@x,y", "messages:a@%,1", "messages:a@%zz,1", "messages:a@x,1,2"]
        {
            assert_eq!(parse(text.as_bytes(), &catalogue).unwrap_err().code, ErrorCode::BadRequest, "{text}");
        }
        let long = vec![b'x'; limits::KEY_BYTES_MAX + 1];
        assert_eq!(parse(&long, &catalogue).unwrap_err().code, ErrorCode::TooLarge);
    }

    proptest! {
        #[test]
        fn every_row_reads_back_from_its_print(
            key in prop_oneof![prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(b'z'..=b'}', 0..8)],
            chat in ".{0,12}", number in any::<i64>(), which in 1u32..4,
        ) {
            let catalogue = catalogue();
            let sort = if which == 3 { sort::encode(&[Value::Str(chat), Value::Int(number)]) } else { Vec::new() };
            let row = RowKey { table: TableId(which), key: &key, sort: &sort };
            let mut text = Vec::new();

            print(row, &catalogue, &mut text);

            let place = parse(&text, &catalogue).unwrap();
            prop_assert_eq!(place.row(), row);
        }
    }
}

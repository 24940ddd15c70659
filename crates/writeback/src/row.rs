//! Rows between memory and SQL: filled with defaults on the way out, checked against the definition on the way in.
//! Knows definitions, not databases.

use std::collections::HashMap;

use shardine_model::codec::DecodeError;
use shardine_model::sql::FlushRow;
use shardine_model::{
    Field, FieldRef, FieldType, FieldValue, Position, RowImage, RowKey, RowKeyBuf, SqlValue, Table, Value, ValueRef,
    Version, row, sort, text,
};

use crate::error::Error;
use crate::job::{Found, JobId, Loaded, Quarantined};
use crate::key;

/// What a row is told to have where SQL keeps no version: there, and nothing more.
pub(crate) const UNVERSIONED: Version = Version(1);

/// A position as SQL's signed integers hold it: with the sign bit turned, so that SQL's order is the routing order.
#[must_use]
pub fn stored_position(position: Position) -> i64 {
    (position.0 ^ (1 << 63)) as i64
}

/// The values of all fields of a row, in the order of the definition. A tombstone's are the defaults (write-back 101).
pub(crate) fn field_values<'a>(table: &'a Table, flush: &'a FlushRow) -> Result<Vec<ValueRef<'a>>, Error> {
    if key::to_sql(table, &flush.row.key).is_none() {
        return Err(Error::row(key::unfit(table)));
    }
    let mut values: Vec<ValueRef<'a>> = table.fields.iter().map(|field| field.default.as_ref()).collect();
    if !flush.version.is_live() {
        return Ok(values);
    }
    for FieldValue { field, value } in row::packed(&flush.fields.packed) {
        if let Some(index) = field_index(table, field)? {
            check_type(&table.fields[index], value).map_err(Error::row)?;
            values[index] = value;
        }
    }
    Ok(values)
}

/// Where a field stands in the definition; `None` for one that was dropped since the row was made.
fn field_index(table: &Table, wanted: FieldRef<'_>) -> Result<Option<usize>, Error> {
    let FieldRef::Id(id) = wanted else {
        return Err(Error::definition(format!("table {} is dynamic and has no SQL form", table.name)));
    };
    // Writing the row without the field and calling it written would lose the value at the next kick.
    if id >= table.next_field {
        let (name, version) = (&table.name, table.version);
        return Err(Error::definition(format!("field {id} is newer than version {version} of table {name}")));
    }
    Ok(table.fields.iter().position(|field| field.id == id))
}

fn check_type(field: &Field, value: ValueRef<'_>) -> Result<(), String> {
    if field.holds(value) {
        return Ok(());
    }
    let shown = text::print(value).unwrap_or_default();
    Err(format!("field {} is {}, the value is {} {shown}", field.name, field.type_text(), value.kind_name()))
}

/// The parts of a row's sort key, for the columns that people read.
pub(crate) fn sort_parts(table: &Table, row: &RowKeyBuf) -> Result<Vec<Value>, Error> {
    let refuse = |error: DecodeError| Error::row(format!("sort key does not fit table {}: {error}", table.name));
    sort::decode(&table.sort_types(), &row.sort).map_err(refuse)
}

/// A text that a database has made of a value of one of the types of SQL.
pub(crate) fn sql_cell<'a>(kind: FieldType, stored: Option<&str>) -> Cell<'a> {
    let Some(stored) = stored else { return Ok(None) };
    match SqlValue::parse(kind, stored) {
        Some(value) => Ok(Some(ValueRef::Sql(value))),
        None => Err(format!("{stored} is not {}", text::rule(kind))),
    }
}

/// What one column of one SQL row was: a value, NULL, or something that its field cannot hold.
pub(crate) type Cell<'a> = Result<Option<ValueRef<'a>>, String>;

impl Found {
    /// Takes a row that SQL returned, or puts it into quarantine. `cells` are the fields in the definition's order.
    pub(crate) fn take<'a>(
        &mut self,
        table: &Table,
        row: RowKeyBuf,
        version: Result<Version, String>,
        cells: impl Iterator<Item = Cell<'a>>,
    ) {
        let read =
            version.and_then(check_version).and_then(|version| Ok((version, self.image(table, version, cells)?)));
        match read {
            Ok((version, fields)) => self.rows.push(Loaded { row, version, fields }),
            Err(message) => self.quarantined.push(Quarantined { row, message }),
        }
    }

    pub(crate) fn absorb(&mut self, other: Found) {
        self.rows.extend(other.rows);
        self.quarantined.extend(other.quarantined);
        self.nulls += other.nulls;
    }

    /// Makes one answer for the rows asked of what SQL returned. `read` takes a returned row in.
    pub(crate) fn gather<A>(
        asked: &[RowKeyBuf],
        returned: &[A],
        read: impl Fn(&mut Found, &A) -> Result<RowKeyBuf, Error>,
    ) -> Result<Found, Error> {
        let mut stored = Found::default();
        for answer in returned {
            read(&mut stored, answer)?;
        }
        Ok(stored.in_order(asked))
    }

    /// Answers for every row asked, once, in the order asked, with what SQL told in an order of its own.
    pub(crate) fn in_order(self, asked: &[RowKeyBuf]) -> Found {
        let mut places: HashMap<RowKey<'_>, usize> = HashMap::with_capacity(asked.len());
        for (place, row) in asked.iter().enumerate() {
            places.entry(row.as_ref()).or_insert(place);
        }
        let mut told: Vec<Option<Result<Loaded, Quarantined>>> = asked.iter().map(|_| None).collect();
        for loaded in self.rows {
            if let Some(&place) = places.get(&loaded.row.as_ref()) {
                told[place] = Some(Ok(loaded));
            }
        }
        for odd in self.quarantined {
            if let Some(&place) = places.get(&odd.row.as_ref()) {
                told[place] = Some(Err(odd));
            }
        }
        let mut found = Found { rows: Vec::with_capacity(asked.len()), quarantined: Vec::new(), nulls: self.nulls };
        for ((place, row), told) in asked.iter().enumerate().zip(told) {
            match told {
                Some(Ok(loaded)) => found.rows.push(loaded),
                Some(Err(odd)) => found.quarantined.push(odd),
                None if places[&row.as_ref()] == place => found.take_absent(row.clone()),
                None => {}
            }
        }
        found
    }

    /// Gives each of several joined loads the rows that it asked for. `asked` is what they asked, one behind the other, each
    /// so many, and what was found stands in the same order.
    pub(crate) fn deal(self, asked: &[RowKeyBuf], parts: &[(JobId, usize)]) -> Vec<(JobId, Found)> {
        let (mut rows, mut odd) = (self.rows.into_iter().peekable(), self.quarantined.into_iter().peekable());
        let (mut asked, mut nulls) = (asked.iter(), self.nulls);
        let mut dealt: Vec<(JobId, Found)> = Vec::with_capacity(parts.len());
        for &(ticket, count) in parts {
            // Counted once.
            let mut part = Found { nulls: std::mem::take(&mut nulls), ..Found::default() };
            for row in asked.by_ref().take(count) {
                if let Some(loaded) = rows.next_if(|loaded| loaded.row == *row) {
                    part.rows.push(loaded);
                } else if let Some(odd) = odd.next_if(|odd| odd.row == *row) {
                    part.quarantined.push(odd);
                } else {
                    part.copy_from(&dealt, row);
                }
            }
            dealt.push((ticket, part));
        }
        dealt
    }

    /// A row that an earlier load asked for too.
    fn copy_from(&mut self, dealt: &[(JobId, Found)], row: &RowKeyBuf) {
        let mut earlier = dealt.iter().map(|(_, found)| found);
        let (rows, odd) = earlier
            .find_map(|found| {
                let rows = found.rows.iter().find(|loaded| loaded.row == *row);
                let odd = found.quarantined.iter().find(|odd| odd.row == *row);
                (rows.is_some() || odd.is_some()).then_some((rows, odd))
            })
            .unwrap_or_default();
        self.rows.extend(rows.cloned());
        self.quarantined.extend(odd.cloned());
    }

    pub(crate) fn take_absent(&mut self, row: RowKeyBuf) {
        self.rows.push(Loaded { row, version: Version::NEVER, fields: RowImage::default() });
    }

    fn image<'a>(
        &mut self,
        table: &Table,
        version: Version,
        cells: impl Iterator<Item = Cell<'a>>,
    ) -> Result<RowImage, String> {
        if !version.is_live() {
            return Ok(RowImage::default());
        }
        let mut packed = Vec::new();
        for (field, cell) in table.fields.iter().zip(cells) {
            let value = match cell.map_err(|fault| format!("column {}: {fault}", field.name))? {
                Some(value) => value,
                None if field.nullable => ValueRef::Null,
                None => {
                    self.nulls += 1;
                    continue;
                }
            };
            check_type(field, value)?;
            if !is_same(value, field.default.as_ref()) {
                FieldValue { field: FieldRef::Id(field.id), value }.encode(&mut packed);
            }
        }
        Ok(RowImage { packed: packed.into_boxed_slice() })
    }
}

/// Versions that no record can have. Each would stop a replica later: better to set the row aside now.
fn check_version(version: Version) -> Result<Version, String> {
    match version.0 {
        0 => Err("the version is 0, which means that there is no row".into()),
        i64::MIN | i64::MAX => Err(format!("the version {version} leaves no room for a next one")),
        _ => Ok(version),
    }
}

/// Equal to the bit: 0.0 and -0.0 are two values.
fn is_same(left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
    match (left, right) {
        (ValueRef::Float(left), ValueRef::Float(right)) => left.to_bits() == right.to_bits(),
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_positions_order_as_positions_do() {
        let positions = [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX].map(Position);

        assert!(positions.map(stored_position).is_sorted());
        assert_eq!(stored_position(Position(0)), i64::MIN);
    }
}

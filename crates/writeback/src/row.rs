//! Rows between memory and SQL: filled with defaults on the way out, checked against the definition on the way in.
//! Knows definitions, not databases.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::codec::DecodeError;
use shardine_model::{
    Field, FieldRef, FieldValue, Position, RowImage, RowKeyBuf, Table, Value, ValueRef, Version, row, sort,
};

use crate::error::Error;
use crate::job::{FlushRow, Found, JobId, LoadJob, Loaded, Quarantined};
use crate::key;

/// What a row is told to have where SQL keeps no version: there, and nothing more.
pub(crate) const UNVERSIONED: Version = Version(1);

/// A position as SQL's signed integers hold it: with the sign bit turned, so that SQL's order is the routing order.
#[must_use]
pub fn stored_position(position: Position) -> i64 {
    (position.0 ^ (1 << 63)) as i64
}

/// The values of all fields of a row, in the order of the definition. A tombstone's are the defaults (record-cache 101).
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
    if value.field_type() == field.kind {
        return Ok(());
    }
    Err(format!("field {} is {}, the value is {}", field.name, field.kind.name(), value.field_type().name()))
}

/// The parts of a row's sort key, for the columns that people read.
pub(crate) fn sort_parts(table: &Table, row: &RowKeyBuf) -> Result<Vec<Value>, Error> {
    let refuse = |error: DecodeError| Error::row(format!("sort key does not fit table {}: {error}", table.name));
    sort::decode(&table.sort_types(), &row.sort).map_err(refuse)
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

    /// Makes one answer for the rows asked of what SQL returned. `read` takes a returned row in and gives its address.
    pub(crate) fn gather<A>(
        asked: &[RowKeyBuf],
        returned: &[A],
        read: impl Fn(&mut Found, &A) -> Result<RowKeyBuf, Error>,
    ) -> Result<Found, Error> {
        let mut stored = BTreeMap::new();
        for answer in returned {
            let mut one = Found::default();
            stored.insert(read(&mut one, answer)?, one);
        }
        let mut found = Found::default();
        found.answer(asked, stored);
        Ok(found)
    }

    /// Answers for every row asked, once, in the order asked, from what was stored.
    pub(crate) fn answer(&mut self, asked: &[RowKeyBuf], mut stored: BTreeMap<RowKeyBuf, Found>) {
        let mut answered = BTreeSet::new();
        for row in asked.iter().filter(|row| answered.insert(*row)) {
            match stored.remove(row) {
                Some(one) => self.absorb(one),
                None => self.take_absent(row.clone()),
            }
        }
    }

    /// Gives each of several joined loads the rows that it asked for.
    pub(crate) fn deal(self, loads: &[LoadJob]) -> Vec<(JobId, Found)> {
        let rows: BTreeMap<RowKeyBuf, Loaded> =
            self.rows.into_iter().map(|loaded| (loaded.row.clone(), loaded)).collect();
        let quarantined: BTreeMap<RowKeyBuf, Quarantined> =
            self.quarantined.into_iter().map(|odd| (odd.row.clone(), odd)).collect();
        let mut nulls = self.nulls;
        loads
            .iter()
            .map(|load| {
                let asked: BTreeSet<&RowKeyBuf> = load.rows.iter().collect();
                let found = Found {
                    rows: asked.iter().filter_map(|row| rows.get(*row).cloned()).collect(),
                    quarantined: asked.iter().filter_map(|row| quarantined.get(*row).cloned()).collect(),
                    // Counted once.
                    nulls: std::mem::take(&mut nulls),
                };
                (load.ticket, found)
            })
            .collect()
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
            let Some(value) = cell.map_err(|fault| format!("column {}: {fault}", field.name))? else {
                self.nulls += 1;
                continue;
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

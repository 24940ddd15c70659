//! Tables: made, compared with their definition, widened and dropped. Each looks first and may be repeated: neither
//! server changes definitions in transactions.

use mysql_async::Value as Stored;
use shardine_model::{FieldId, Table};

use super::connection::Connection;
use super::text::MysqlText;
use crate::columns::{self, Column, POSITION, Part};
use crate::dialect::Dialect;
use crate::drift::{self, Existing, Family, ForeignKey, agree};
use crate::error::Error;
use crate::job::Drift;

/// The names of both end here.
const NAME_MAX: usize = 64;

pub(super) fn create(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let create = drift::create_table(&MysqlText, table)?;
    // Made with its index in one go: there is no `CREATE INDEX IF NOT EXISTS` that both know.
    let with_index = create.strip_suffix(')').unwrap_or(&create);
    let options = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin";
    connection.run(&format!("{with_index}, {}) {options}", index(table)))?;
    // The table may have been there before, made by somebody else for something else.
    agree(check(connection, table, Family::NONE)?)
}

fn index(table: &Table) -> String {
    // No table's name begins with two underscores.
    let mut index = format!("{POSITION}{}", table.name);
    index.truncate(NAME_MAX);
    let address = MysqlText.names(&columns::address(table));
    format!("INDEX {} ({POSITION}, {address})", MysqlText.quoted(&index))
}

pub(super) fn check(connection: &mut Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    let existing = existing_columns(connection, table)?;
    if existing.is_empty() {
        return Ok(vec![drift::no_table(table)]);
    }
    let mut drift = drift::compare(&MysqlText, table, &existing)?;
    if columns::is_mapped(table) {
        drift.extend(unfit(connection, table, family)?);
    }
    Ok(drift)
}

fn unfit(connection: &mut Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    const FOREIGN_KEYS: &str = "\
        SELECT constraint_name, referenced_table_name, \
               delete_rule IN ('NO ACTION', 'RESTRICT') AND update_rule IN ('NO ACTION', 'RESTRICT') \
        FROM information_schema.referential_constraints \
        WHERE constraint_schema = DATABASE() AND table_name = ? ORDER BY constraint_name";
    const COLLATION: &str = "SELECT collation_name FROM information_schema.columns \
                             WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?";
    let text = |text: &str| Stored::Bytes(text.as_bytes().to_vec());
    let (name, key) = (columns::table_name(table), columns::address(table)[0].name);
    let keys = connection.query(FOREIGN_KEYS, vec![text(name)])?;
    let keys = keys.into_iter().map(foreign_key).collect::<Result<_, _>>()?;
    let collation = connection.query(COLLATION, vec![text(name), text(key)])?;
    let collation = collation.first().and_then(|answer| answer.get::<Option<String>, _>(0)).flatten();
    Ok(drift::unfit(table, family, keys, collation))
}

fn foreign_key(answer: mysql_async::Row) -> Result<ForeignKey, Error> {
    let (name, parent, only_refuses) = mysql_async::from_row_opt(answer)
        .map_err(|error| Error::definition(format!("information_schema cannot be read: {error}")))?;
    Ok(ForeignKey { name, parent, only_refuses })
}

/// SQL first, then the definition (records 129): rows that are there already read as the default.
pub(super) fn add_field(connection: &mut Connection, table: &Table, field: FieldId) -> Result<(), Error> {
    let Some(field) = table.field_by_id(field) else {
        return Err(Error::definition(format!("table {} has no field {field} to add", table.name)));
    };
    let existing = existing_columns(connection, table)?;
    if existing.is_empty() {
        return agree(vec![drift::no_table(table)]);
    }
    let column = Column { part: Part::Field(field), name: &field.name };
    match existing.iter().find(|found| found.name.eq_ignore_ascii_case(&field.name)) {
        Some(found) => agree(drift::compare_type(&MysqlText, table, &column, found).into_iter().collect()),
        None => connection.run(&drift::add_column(&MysqlText, table, &column)?),
    }
}

/// The rows go with it: whoever asks has been asked whether they mean it.
pub(super) fn drop_table(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let existing = existing_columns(connection, table)?;
    if existing.is_empty() {
        return Ok(());
    }
    drift::check_ours(table, &existing)?;
    connection.run(&format!("DROP TABLE {}", MysqlText.quoted(columns::table_name(table))))
}

/// The columns of a table of this connection's database; none if there is no such table.
fn existing_columns(connection: &mut Connection, table: &Table) -> Result<Vec<Existing>, Error> {
    const SELECT: &str = "\
        SELECT c.column_name, c.column_type, c.is_nullable = 'NO', \
               c.column_default IS NOT NULL OR c.extra LIKE '%auto_increment%', coalesce(k.ordinal_position, 0), \
               c.table_name \
        FROM information_schema.columns c \
        LEFT JOIN information_schema.key_column_usage k ON k.constraint_name = 'PRIMARY' \
             AND k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name \
        WHERE c.table_schema = DATABASE() AND c.table_name = ? ORDER BY c.ordinal_position";
    let answers = connection.query(SELECT, vec![Stored::Bytes(columns::table_name(table).as_bytes().to_vec())])?;
    let mut existing = Vec::new();
    for answer in answers {
        let (name, declared_type, not_null, has_default, key_place, found): (String, String, bool, bool, u32, String) =
            mysql_async::from_row_opt(answer)
                .map_err(|error| Error::definition(format!("information_schema cannot be read: {error}")))?;
        // The schema's own names compare without case; tables do not.
        if found == columns::table_name(table) {
            let declared_type = declared_type.replace("(20)", "");
            existing.push(Existing { name, declared_type, not_null, has_default, key_place });
        }
    }
    Ok(existing)
}

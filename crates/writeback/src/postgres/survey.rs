//! What PostgreSQL tells of the schema that comes first on the search path.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::connection::Connection;
use super::fault::classify;
use crate::error::Error;
use crate::survey::{ColumnFacts, ForeignKeyFacts, Made, TableFacts, TableKind, actions};

const TABLES: &str = "\
    SELECT c.relname::text, c.relkind::text, c.relrowsecurity, whole.relname::text \
    FROM pg_class c \
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition \
    LEFT JOIN pg_class whole ON whole.oid = i.inhparent \
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
          AND c.relname NOT LIKE '\\_\\_%' ORDER BY c.relname";

/// Of a domain the type beneath, with its name beside it.
const COLUMNS: &str = "\
    SELECT c.relname::text, a.attname::text, \
           CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE format_type(a.atttypid, a.atttypmod) END, \
           CASE WHEN t.typtype = 'd' THEN t.typname::text END, t.typtype = 'e', \
           a.attnotnull OR t.typnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attgenerated::text, \
           CASE WHEN NOT l.collisdeterministic THEN l.collname::text END, \
           coalesce(array_position(i.indkey::int2[], a.attnum), -1)::int4 + 1 \
    FROM pg_class c \
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
    JOIN pg_type t ON t.oid = a.atttypid \
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum \
    LEFT JOIN pg_collation l ON l.oid = a.attcollation \
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
    ORDER BY c.relname, a.attnum";

/// Unique indexes too, which need not be constraints.
const UNIQUES: &str = "\
    SELECT c.relname::text, string_agg(coalesce(a.attname::text, '…'), ', ' ORDER BY k.place) \
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) \
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND k.number > 0 \
    WHERE c.relnamespace = current_schema()::regnamespace AND i.indisunique AND NOT i.indisprimary \
    GROUP BY c.relname, i.indexrelid ORDER BY 1, 2";

const FOREIGN_KEYS: &str = "\
    SELECT c.relname::text, parent.relname::text, f.confdeltype::text, f.confupdtype::text, \
           (SELECT string_agg(a.attname::text, ', ' ORDER BY k.place) \
            FROM unnest(f.conkey) WITH ORDINALITY AS k (number, place) \
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number) \
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class parent ON parent.oid = f.confrelid \
    WHERE f.contype = 'f' AND f.conparentid = 0 AND c.relnamespace = current_schema()::regnamespace ORDER BY 1, 5";

const CHECKS: &str = "\
    SELECT c.relname::text, f.conname::text FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid \
    WHERE f.contype IN ('c', 'x') AND c.relnamespace = current_schema()::regnamespace ORDER BY 1, 2";

const TRIGGERS: &str = "\
    SELECT c.relname::text, t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
    WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace ORDER BY 1, 2";

pub(super) fn survey(connection: &mut Connection) -> Result<Vec<TableFacts>, Error> {
    let mut tables: BTreeMap<String, TableFacts> = BTreeMap::new();
    for row in connection.query(TABLES, &[])? {
        let name: String = get(&row, 0)?;
        let (kind, whole): (String, Option<String>) = (get(&row, 1)?, get(&row, 3)?);
        let kind = match (&*kind, whole) {
            (_, Some(whole)) => TableKind::PartOf(whole),
            ("p", None) => TableKind::Partitioned,
            ("v" | "m", None) => TableKind::View,
            ("f", None) => TableKind::Foreign,
            _ => TableKind::Table,
        };
        let facts = TableFacts { name: name.clone(), kind, has_row_security: get(&row, 2)?, ..TableFacts::default() };
        tables.insert(name, facts);
    }
    each(connection, COLUMNS, &mut tables, |facts, row| {
        let place: i32 = get(row, 10)?;
        let column = column(row)?;
        if place > 0 {
            // In the order of the key, which need not be that of the columns.
            let place = usize::try_from(place).unwrap_or_default();
            facts.key.resize(facts.key.len().max(place), String::new());
            facts.key[place - 1].clone_from(&column.name);
        }
        facts.columns.push(column);
        Ok(())
    })?;
    each(connection, UNIQUES, &mut tables, |facts, row| {
        facts.uniques.push(get::<String>(row, 1)?.split(", ").map(str::to_owned).collect());
        Ok(())
    })?;
    each(connection, FOREIGN_KEYS, &mut tables, |facts, row| {
        let columns = get::<String>(row, 4)?.split(", ").map(str::to_owned).collect();
        let actions = actions(action(&get::<String>(row, 2)?), action(&get::<String>(row, 3)?));
        facts.foreign_keys.push(ForeignKeyFacts { columns, parent: get(row, 1)?, actions });
        Ok(())
    })?;
    each(connection, CHECKS, &mut tables, |facts, row| {
        facts.checks.push(get(row, 1)?);
        Ok(())
    })?;
    each(connection, TRIGGERS, &mut tables, |facts, row| {
        facts.triggers.push(get(row, 1)?);
        Ok(())
    })?;
    Ok(tables.into_values().collect())
}

fn column(row: &Row) -> Result<ColumnFacts, Error> {
    let (default, identity, generated): (Option<String>, String, String) = (get(row, 6)?, get(row, 7)?, get(row, 8)?);
    let made = match (&*identity, &*generated) {
        ("a", _) => Made::AlwaysNumber,
        ("d", _) => Made::Number,
        (_, "s") => Made::Computed,
        _ if default.as_ref().is_some_and(|default| default.starts_with("nextval(")) => Made::Number,
        _ => Made::Nothing,
    };
    Ok(ColumnFacts {
        name: get(row, 1)?,
        declared: get(row, 2)?,
        domain: get(row, 3)?,
        is_enum: get(row, 4)?,
        not_null: get(row, 5)?,
        default,
        made,
        collation: get(row, 9)?,
    })
}

/// Lets each answer be taken by the table that it names.
fn each(
    connection: &mut Connection,
    select: &str,
    tables: &mut BTreeMap<String, TableFacts>,
    take: impl Fn(&mut TableFacts, &Row) -> Result<(), Error>,
) -> Result<(), Error> {
    for row in connection.query(select, &[])? {
        if let Some(facts) = tables.get_mut(&get::<String>(&row, 0)?) {
            take(facts, &row)?;
        }
    }
    Ok(())
}

fn action(letter: &str) -> &'static str {
    match letter {
        "c" => "CASCADE",
        "n" => "SET NULL",
        "d" => "SET DEFAULT",
        "r" => "RESTRICT",
        _ => "NO ACTION",
    }
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, Error> {
    row.try_get(place).map_err(classify)
}

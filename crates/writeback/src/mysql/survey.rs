//! What MySQL and MariaDB tell of a connection's database.

use std::collections::BTreeMap;

use mysql_async::Row;
use mysql_async::prelude::FromRow;

use super::connection::Connection;
use crate::error::Error;
use crate::survey::{ColumnFacts, ForeignKeyFacts, Made, TableFacts, TableKind, actions};

const TABLES: &str = "\
    SELECT table_name, table_type, coalesce(create_options, '') LIKE '%partitioned%' FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND left(table_name, 2) <> '__' ORDER BY table_name";

const COLUMNS: &str = "\
    SELECT table_name, column_name, column_type, is_nullable = 'NO', column_default, extra, collation_name, column_key = 'PRI' \
    FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position";

const INDEXES: &str = "\
    SELECT table_name, index_name, coalesce(column_name, '…') FROM information_schema.statistics \
    WHERE table_schema = DATABASE() AND non_unique = 0 ORDER BY table_name, index_name, seq_in_index";

const FOREIGN_KEYS: &str = "\
    SELECT k.table_name, k.constraint_name, k.column_name, k.referenced_table_name, r.delete_rule, r.update_rule \
    FROM information_schema.key_column_usage k \
    JOIN information_schema.referential_constraints r \
         ON r.constraint_schema = k.table_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name \
    WHERE k.table_schema = DATABASE() AND k.referenced_table_name IS NOT NULL \
    ORDER BY k.table_name, k.constraint_name, k.ordinal_position";

const CHECKS: &str = "\
    SELECT table_name, constraint_name FROM information_schema.table_constraints \
    WHERE table_schema = DATABASE() AND constraint_type = 'CHECK' ORDER BY table_name, constraint_name";

const TRIGGERS: &str = "\
    SELECT event_object_table, trigger_name FROM information_schema.triggers \
    WHERE event_object_schema = DATABASE() ORDER BY event_object_table, trigger_name";

pub(super) fn survey(connection: &mut Connection) -> Result<Vec<TableFacts>, Error> {
    let mut tables: BTreeMap<String, TableFacts> = BTreeMap::new();
    for (name, kind, is_partitioned) in rows::<(String, String, bool)>(connection, TABLES)? {
        let kind = match &*kind {
            _ if is_partitioned => TableKind::Partitioned,
            "VIEW" | "SYSTEM VIEW" => TableKind::View,
            _ => TableKind::Table,
        };
        tables.insert(name.clone(), TableFacts { name, kind, ..TableFacts::default() });
    }
    columns(connection, &mut tables)?;
    let mut last = None;
    for (table, index, column) in rows::<(String, String, String)>(connection, INDEXES)? {
        let Some(facts) = tables.get_mut(&table) else { continue };
        let is_next = last.as_ref() != Some(&(table.clone(), index.clone()));
        if index == "PRIMARY" {
            facts.key.push(column);
        } else if is_next {
            facts.uniques.push(vec![column]);
        } else if let Some(unique) = facts.uniques.last_mut() {
            unique.push(column);
        }
        last = Some((table, index));
    }
    foreign_keys(connection, &mut tables)?;
    for (table, check) in rows::<(String, String)>(connection, CHECKS)? {
        tables.entry(table).and_modify(|facts| facts.checks.push(check));
    }
    for (table, trigger) in rows::<(String, String)>(connection, TRIGGERS)? {
        tables.entry(table).and_modify(|facts| facts.triggers.push(trigger));
    }
    Ok(tables.into_values().collect())
}

type Told = (String, String, String, bool, Option<String>, String, Option<String>, bool);

fn columns(connection: &mut Connection, tables: &mut BTreeMap<String, TableFacts>) -> Result<(), Error> {
    for (table, name, declared, not_null, default, extra, collation, _) in rows::<Told>(connection, COLUMNS)? {
        let Some(facts) = tables.get_mut(&table) else { continue };
        let extra = extra.to_ascii_lowercase();
        let made = match () {
            () if extra.contains("auto_increment") => Made::Number,
            () if extra.contains("virtual") || extra.contains("stored") || extra.contains("persistent") => {
                Made::Computed
            }
            () => Made::Nothing,
        };
        let is_exact = |collation: &String| collation.ends_with("_bin") || collation == "binary";
        facts.columns.push(ColumnFacts {
            name,
            // MySQL tells no width of integers any more, and MariaDB does.
            declared: declared.replace("bigint(20)", "bigint"),
            domain: None,
            is_enum: false,
            not_null,
            default: default.filter(|default| !default.eq_ignore_ascii_case("null")),
            made,
            collation: collation.filter(|collation| !is_exact(collation)),
        });
    }
    Ok(())
}

fn foreign_keys(connection: &mut Connection, tables: &mut BTreeMap<String, TableFacts>) -> Result<(), Error> {
    let mut last = None;
    let told = rows::<(String, String, String, String, String, String)>(connection, FOREIGN_KEYS)?;
    for (table, name, column, parent, on_delete, on_update) in told {
        let Some(facts) = tables.get_mut(&table) else { continue };
        if last.as_ref() != Some(&(table.clone(), name.clone())) {
            let actions = actions(&on_delete, &on_update);
            facts.foreign_keys.push(ForeignKeyFacts { columns: Vec::new(), parent, actions });
        }
        facts.foreign_keys.last_mut().expect("it was begun").columns.push(column);
        last = Some((table, name));
    }
    for facts in tables.values_mut() {
        facts.foreign_keys.sort_by(|left, right| left.columns.cmp(&right.columns));
    }
    Ok(())
}

fn rows<T: FromRow>(connection: &mut Connection, select: &str) -> Result<Vec<T>, Error> {
    let answers: Vec<Row> = connection.query(select, Vec::new())?;
    let read = |row| mysql_async::from_row_opt(row);
    let told: Result<Vec<T>, _> = answers.into_iter().map(read).collect();
    told.map_err(|error| Error::definition(format!("information_schema cannot be read: {error}")))
}

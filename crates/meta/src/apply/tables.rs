//! Definitions of tables. What is in force here is what all shards are brought to; SQL is changed beside it, by whoever leads.

use std::sync::Arc;

use shardine_model::table::KV;
use shardine_model::{Backing, CatalogueVersion, ErrorCode, Field, FieldId, Refusal, Table, limits};

use crate::change::Change;
use crate::reply::Reply;
use crate::state::{Meta, refused};

impl Meta {
    pub(super) fn create_table(&mut self, table: Table) -> Result<Reply, Refusal> {
        let catalogue = &self.map.catalogue;
        if let Some(known) = catalogue.tables().find(|known| known.name.eq_ignore_ascii_case(&table.name)) {
            return refused(ErrorCode::Exists, format!("there is a table {} already", known.name));
        }
        if catalogue.definitions().count() >= limits::TABLES_MAX {
            return refused(ErrorCode::TooLarge, format!("{} tables are the limit", limits::TABLES_MAX));
        }
        if table.dynamic || table.dropped {
            return refused(ErrorCode::BadRequest, "a new table has fields, and is there");
        }
        let mut table = Table { id: catalogue.next_id(), version: 1, next_field: FieldId(1), ..table };
        for place in 0..table.fields.len() {
            let id = take_field_id(&mut table)?;
            table.fields[place].id = id;
        }
        table.check()?;
        self.check_parents(&table)?;
        self.define(table, Names::Changed)
    }

    /// Tables come after others that are there already, or after themselves: so there is an order (write-back 107).
    fn check_parents(&self, table: &Table) -> Result<(), Refusal> {
        let is_fit = |parent: &Arc<Table>| parent.backing == Backing::Sql;
        let is_known = |name: &str| self.map.catalogue.named(name).is_some_and(is_fit);
        match table.sql.after.iter().find(|name| **name != table.name && !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let message =
                    format!("there is no table {name} with SQL behind it that {} could come after", table.name);
                refused(ErrorCode::UnknownTable, message)
            }
        }
    }

    pub(super) fn add_field(&mut self, name: &str, field: Field) -> Result<Reply, Refusal> {
        let mut table = self.table(name)?;
        if table.dynamic {
            return refused(ErrorCode::Unsupported, format!("table {name} takes any field already"));
        }
        if table.sql.mapping.is_some() {
            let message = format!("table {name} is mapped to an SQL table of others: drop it here and map it again");
            return refused(ErrorCode::Unsupported, message);
        }
        let id = take_field_id(&mut table)?;
        table.fields.push(Field { id, ..field });
        table.version += 1;
        table.check()?;
        self.define(table, Names::Unchanged)
    }

    pub(super) fn drop_table(&mut self, name: &str) -> Result<Reply, Refusal> {
        let mut table = self.table(name)?;
        if table.id == KV {
            return refused(ErrorCode::Forbidden, "the table kv is always there");
        }
        if let Some(child) = self.map.catalogue.children(name).find(|child| child.id != table.id) {
            let message = format!("table {} comes after {name} in SQL: drop it first", child.name);
            return refused(ErrorCode::BadRequest, message);
        }
        table.version += 1;
        table.dropped = true;
        self.define(table, Names::Changed)
    }

    fn table(&self, name: &str) -> Result<Table, Refusal> {
        match self.map.catalogue.named(name) {
            Some(table) => Ok(Table::clone(table)),
            None => refused(ErrorCode::UnknownTable, format!("there is no table {name}")),
        }
    }

    /// Puts a definition into force: the catalogue's next version.
    fn define(&mut self, table: Table, names: Names) -> Result<Reply, Refusal> {
        let catalogue = &self.map.catalogue;
        let version = CatalogueVersion(catalogue.version().0 + 1);
        let named_in = match names {
            Names::Changed => version,
            Names::Unchanged => catalogue.named_in(),
        };
        let versions = Change::Catalogue { version, named_in };
        self.publish(vec![Change::Table(table.clone()), versions]);
        Ok(Reply::Table(Arc::new(table)))
    }
}

/// Whether a text may mean another row than before: `foo:1` is a key of `kv` until there is a table `foo`.
enum Names {
    Changed,
    Unchanged,
}

fn take_field_id(table: &mut Table) -> Result<FieldId, Refusal> {
    let id = table.next_field;
    match id.0.checked_add(1) {
        Some(next) => table.next_field = FieldId(next),
        None => return refused(ErrorCode::TooLarge, "a table has too many fields"),
    }
    Ok(id)
}

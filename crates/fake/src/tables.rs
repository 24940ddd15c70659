//! Definitions, which nobody but this shard has to agree to.

use std::sync::Arc;

use shardine_model::table::SortPart;
use shardine_model::{ErrorCode, Field, FieldId, Refusal, Table};
use shardine_router::{FieldSpec, Response, TableCall, TableSpec};

use crate::shard::FakeShard;

impl FakeShard {
    pub(crate) fn answer_table(&mut self, call: TableCall) -> Response {
        match call {
            TableCall::Create(spec) => self.create(spec),
            TableCall::AddField { table, field } => {
                let mut table = self.named(&table);
                table.fields.push(field_of(table.next_field, field));
                table.next_field = FieldId(table.next_field.0 + 1);
                table.version += 1;
                self.define(table.clone());
                Response::Table(Arc::new(table))
            }
            TableCall::Drop { table } => {
                let table = self.named(&table);
                self.define(Table { dropped: true, version: table.version + 1, ..table });
                Response::Done
            }
        }
    }

    fn named(&self, table: &str) -> Table {
        Table::clone(self.catalogue().named(table).expect("doors check names"))
    }

    fn create(&mut self, spec: TableSpec) -> Response {
        let fields: Vec<Field> = (1..).zip(spec.fields).map(|(id, field)| field_of(FieldId(id), field)).collect();
        let table = Table {
            id: self.catalogue().next_id(),
            name: spec.name,
            version: 1,
            next_field: FieldId(fields.len() as u16 + 1),
            fields,
            sort: spec.sort.into_iter().map(|(name, kind)| SortPart { name, kind }).collect(),
            backing: spec.backing,
            sql: spec.sql,
            dynamic: false,
            dropped: false,
        };
        if let Err(refusal) = table.check() {
            return Response::Refused(refusal);
        }
        if self.catalogue().named(&table.name).is_some() {
            return Response::Refused(Refusal::new(ErrorCode::Exists, format!("table {} exists", table.name)));
        }
        self.define(table.clone());
        Response::Table(Arc::new(table))
    }
}

fn field_of(id: FieldId, spec: FieldSpec) -> Field {
    spec.into_field(id)
}

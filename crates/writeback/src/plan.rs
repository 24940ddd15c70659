//! What can be made of a schema that is there: table by table whether it can be cached as it is, with which remarks, or why
//! not, and the line that maps it. Pure: a survey in, a plan out, in an order in which the lines can be said one after the
//! other.

mod order;
mod fields;
mod text;

use std::collections::BTreeMap;

use shardine_model::{FieldType, Table};

use self::fields::{Meeting, meet};
use crate::survey::{ColumnFacts, Made, Survey, TableFacts, TableKind, Words};

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Only these tables; all if there are none.
    pub tables: Vec<String>,
    /// What the version column is called where there is one.
    pub version: String,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { tables: Vec::new(), version: "rev".to_owned() }
    }
}

/// Parents stand before their children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub tables: Vec<TablePlan>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablePlan {
    pub name: String,
    /// Why it cannot be cached. Then it is not mapped.
    pub obstacles: Vec<String>,
    pub remarks: Vec<String>,
    pub mapping: Option<Proposal>,
}

/// A mapping that `table create` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    pub table: String,
    pub key: String,
    /// `string`, `int64` or `blob`.
    pub key_type: &'static str,
    /// Without one the table is only read.
    pub version: Option<String>,
    /// As `NAME:TYPE` or `NAME:TYPE=DEFAULT`.
    pub fields: Vec<String>,
    pub after: Vec<String>,
}

/// Makes a plan of a survey.
#[must_use]
pub fn plan(survey: &Survey, options: &PlanOptions) -> Plan {
    let is_meant = |table: &&TableFacts| {
        options.tables.is_empty() || options.tables.iter().any(|wanted| wanted.eq_ignore_ascii_case(&table.name))
    };
    let meant: Vec<&TableFacts> = survey.tables.iter().filter(is_meant).collect();
    let mut plans: BTreeMap<&str, TablePlan> =
        meant.iter().map(|table| (&*table.name, TablePlan::of(survey.words, table, options))).collect();
    // Whether a parent is mapped decides what is said of its children.
    let mapped: Vec<&TableFacts> = meant.into_iter().filter(|table| plans[&*table.name].mapping.is_some()).collect();
    let order = order::parents_first(&mapped);
    for table in &mapped {
        let plan = plans.get_mut(&*table.name).expect("each table has a plan");
        plan.look_at_parents(table, &order);
    }
    let mut tables: Vec<TablePlan> = order.iter().filter_map(|name| plans.remove(&**name)).collect();
    tables.extend(plans.into_values());
    Plan { tables }
}

impl TablePlan {
    fn of(words: Words, table: &TableFacts, options: &PlanOptions) -> Self {
        let mut plan = Self { name: table.name.clone(), ..Self::default() };
        let key = plan.key(words, table);
        let mut proposal = Proposal { table: table.name.clone(), ..Proposal::default() };
        if let Some((column, kind)) = key {
            (proposal.key, proposal.key_type) = (column.name.clone(), kind);
            plan.note_key(column);
        }
        let version = table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(&options.version));
        let (fields, unfilled) = plan.fields(words, table, &proposal.key, version);
        proposal.fields = fields;
        proposal.version = plan.version(words, table, version, &unfilled, options);
        if proposal.fields.is_empty() && plan.obstacles.is_empty() {
            plan.obstacles.push("it has nothing but its key".to_owned());
        }
        plan.note_constraints(table, proposal.version.is_some());
        if plan.obstacles.is_empty() {
            plan.mapping = Some(proposal);
        }
        plan
    }

    /// The column that names a row, with the type that a mapping gives it; or the obstacles.
    fn key<'a>(&mut self, words: Words, table: &'a TableFacts) -> Option<(&'a ColumnFacts, &'static str)> {
        let mut obstacle = |text: String| self.obstacles.push(text);
        if !Table::is_name(&table.name) || table.name == shardine_model::table::KV_NAME {
            obstacle("its name is not one that Shardine takes: letters, digits and _, not beginning with a digit or __, and not kv".into());
        }
        match &table.kind {
            TableKind::PartOf(whole) => obstacle(format!("it is a part of {whole}: map that one")),
            TableKind::Foreign => obstacle("its rows are another server's".into()),
            TableKind::View if table.key.is_empty() => {
                // No database says what names a row of a view.
                let id = table.columns.iter().find(|column| column.name.eq_ignore_ascii_case("id"));
                let Some(id) = id else {
                    obstacle("it is a view, and no column is called id: nothing is known to name a row".into());
                    return None;
                };
                return self.key_type(words, id).map(|kind| (id, kind));
            }
            TableKind::Table | TableKind::Partitioned | TableKind::View => {}
        }
        match &table.key[..] {
            [] => obstacle("it has no primary key: nothing names a row".into()),
            [name] => {
                let column = table.columns.iter().find(|column| column.name == *name)?;
                return self.key_type(words, column).map(|kind| (column, kind));
            }
            several => {
                obstacle(format!(
                    "its primary key is ({}): a key of several columns is not mapped yet",
                    several.join(", ")
                ));
            }
        }
        None
    }

    fn key_type(&mut self, words: Words, column: &ColumnFacts) -> Option<&'static str> {
        let name = &column.name;
        let kind = match meet(words, column) {
            Meeting::Field { kind: FieldType::Int64, .. } => "int64",
            Meeting::Field { kind: FieldType::String, .. } => "string",
            Meeting::Field { kind: FieldType::Blob, .. } => "blob",
            _ => {
                let declared = &column.declared;
                self.obstacles
                    .push(format!("its key {name} is {declared}: a key is a text, a signed integer or bytes"));
                return None;
            }
        };
        if !Table::is_name(name) {
            self.obstacles.push(format!("its key {name} has a name that Shardine does not take"));
        }
        match column.collation.as_ref().filter(|_| kind == "string") {
            Some(collation) => {
                self.obstacles.push(format!(
                    "its key {name} compares texts by {collation}, for which different keys may be one: use a binary collation"
                ));
                None
            }
            None => Some(kind),
        }
    }

    fn note_key(&mut self, column: &ColumnFacts) {
        let name = &column.name;
        match column.made {
            Made::Number => self.remarks.push(format!(
                "{name} is numbered by the database: a record that is made here is given its key, which the database does not count"
            )),
            Made::AlwaysNumber => self.remarks.push(format!(
                "{name} is always numbered by the database (GENERATED ALWAYS): records can be changed and deleted here, and none be made"
            )),
            Made::Nothing | Made::Computed => {}
        }
    }

    /// The fields, and the columns that a new row must fill and none of them does.
    fn fields<'a>(
        &mut self,
        words: Words,
        table: &'a TableFacts,
        key: &str,
        version: Option<&ColumnFacts>,
    ) -> (Vec<String>, Vec<&'a str>) {
        let (mut fields, mut unfilled) = (Vec::new(), Vec::new());
        let is_own = |column: &ColumnFacts| column.name == key || version.is_some_and(|own| own.name == column.name);
        for column in table.columns.iter().filter(|column| !is_own(column)) {
            let name = &column.name;
            let left_out = match meet(words, column) {
                _ if column.made == Made::Computed => Some("the database computes it".to_owned()),
                _ if !Table::is_name(name) => Some("its name is not one that Shardine takes".to_owned()),
                Meeting::Nothing { why } => Some(why),
                Meeting::Field { kind, remark } => {
                    self.remarks.extend(remark.map(|remark| format!("{name}: {remark}")));
                    fields.push(self.field(column, kind));
                    None
                }
            };
            let Some(why) = left_out else { continue };
            self.remarks.push(format!("{name} ({}) is left out: {why}", column.declared));
            if column.not_null && column.default.is_none() && column.made == Made::Nothing {
                unfilled.push(&**name);
            }
        }
        (fields, unfilled)
    }

    /// A field as `table create` takes it.
    fn field(&mut self, column: &ColumnFacts, kind: FieldType) -> String {
        let (name, mark) = (&column.name, if column.not_null { "" } else { "?" });
        let field = format!("{name}:{}{mark}", kind.name());
        let Some(default) = column.default.as_deref().filter(|default| !default.eq_ignore_ascii_case("null")) else {
            return field;
        };
        match fields::literal(kind, default) {
            Some(literal) => format!("{field}={literal}"),
            None => {
                let instead = if column.not_null { "the zero of its type" } else { "NULL" };
                self.remarks.push(format!(
                    "{name}: its default {default} is the database's alone; a record that is made here without it has {instead}"
                ));
                field
            }
        }
    }

    fn version(
        &mut self,
        words: Words,
        table: &TableFacts,
        version: Option<&ColumnFacts>,
        unfilled: &[&str],
        options: &PlanOptions,
    ) -> Option<String> {
        let name = &options.version;
        if table.kind == TableKind::View {
            self.remarks.push("it is a view: it is only read".to_owned());
            return None;
        }
        if !unfilled.is_empty() {
            let columns = unfilled.join(", ");
            self.remarks.push(format!("it is only read: a new row must have {columns}, which no field fills"));
            return None;
        }
        let Some(column) = version else {
            let kind = if words == Words::Sqlite { "INTEGER" } else { "bigint" };
            let add = format!("ALTER TABLE {} ADD COLUMN {name} {kind} NOT NULL DEFAULT 1", table.name);
            self.remarks.push(format!("it is only read until it has a version column: {add}"));
            return None;
        };
        let is_integer = matches!(meet(words, column), Meeting::Field { kind: FieldType::Int64, .. });
        if !is_integer || !column.not_null {
            self.remarks.push(format!("it is only read: its column {name} is no signed integer that is NOT NULL"));
            return None;
        }
        Some(column.name.clone())
    }

    fn note_constraints(&mut self, table: &TableFacts, is_written: bool) {
        let mut remark = |text: String| self.remarks.push(text);
        if is_written {
            for columns in &table.uniques {
                remark(format!("({}) is unique: what breaks that is a dead letter", columns.join(", ")));
            }
            if !table.checks.is_empty() {
                remark(format!("checks ({}): what breaks one is a dead letter", table.checks.join(", ")));
            }
            if !table.triggers.is_empty() {
                remark(format!(
                    "triggers ({}): what they change in a row is seen here when it is next loaded",
                    table.triggers.join(", ")
                ));
            }
        }
        if table.has_row_security {
            remark("row-level security: rows that Shardine's user may not see are not there for it".to_owned());
        }
        if table.kind == TableKind::Partitioned {
            remark("it is partitioned: its parts are not mapped".to_owned());
        }
    }

    /// What its foreign keys mean, once it is known which tables are mapped, and before which.
    fn look_at_parents(&mut self, table: &TableFacts, order: &[String]) {
        let Some(proposal) = self.mapping.as_mut().filter(|proposal| proposal.version.is_some()) else { return };
        let place = |name: &str| order.iter().position(|known| known == name);
        for key in &table.foreign_keys {
            let (columns, parent) = (key.columns.join(", "), &key.parent);
            match place(parent) {
                None => self.remarks.push(format!(
                    "({columns}) refers to {parent}, which is not mapped: what refers to nothing is a dead letter"
                )),
                Some(parent_place) if Some(parent_place) <= place(&table.name) => {
                    if !proposal.after.contains(parent) {
                        proposal.after.push(parent.clone());
                    }
                }
                Some(_) => self.remarks.push(format!(
                    "({columns}) refers to {parent}, which refers back: rows made in both at once may become dead letters"
                )),
            }
            for action in &key.actions {
                self.remarks.push(format!(
                    "{action} of {parent} changes rows here in SQL by itself: memory hears of it when they are next written or loaded"
                ));
            }
        }
    }
}

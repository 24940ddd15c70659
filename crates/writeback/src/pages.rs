//! Reading rows in order, a page at a time: what is asked, and when a page ends. How it is asked is each database's own.

use shardine_model::key::Interval;
use shardine_model::{Position, RowKeyBuf, Table, limits};

use crate::columns::{self, POSITION};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::{Found, Quarantined, ScanJob, Scope};
use crate::key::{self, KeyValue};
use crate::row::stored_position;

/// A value that a query binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Integer(i64),
    Bytes(Vec<u8>),
    Text(String),
}

impl From<KeyValue<'_>> for Parameter {
    fn from(key: KeyValue<'_>) -> Self {
        match key {
            KeyValue::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            KeyValue::Text(text) => Self::Text(text.to_owned()),
            KeyValue::Integer(number) => Self::Integer(number),
        }
    }
}

/// Where the position stands in a page's rows: behind everything else.
pub(crate) fn position_at(table: &Table) -> usize {
    columns::selected(table).len()
}

/// The query of a page and what it binds. `selected` is the list of `columns::selected` as this database reads it.
pub(crate) fn select(dialect: &dyn Dialect, job: &ScanJob, selected: &str) -> Result<(String, Vec<Parameter>), Error> {
    let table = &job.table;
    let (position, live) = match (columns::is_mapped(table), columns::version(table)) {
        (false, Some(version)) => (POSITION, format!(" AND {} > 0", dialect.quoted(version.name))),
        (_, Some(version)) => ("0", format!(" AND {} > 0", dialect.quoted(version.name))),
        (_, None) => ("0", String::new()),
    };
    let mut plan = Plan { dialect, texts: Vec::new(), parameters: Vec::new() };
    let order = plan.fill(job)?;
    let name = dialect.quoted(columns::table_name(table));
    let limit = dialect.mark(plan.parameters.len() + 1);
    let wanted = plan.texts.join(" AND ");
    let query =
        format!("SELECT {selected}, {position} FROM {name} WHERE {wanted}{live} ORDER BY {order} LIMIT {limit}");
    plan.parameters.push(Parameter::Integer(rows_max(job) as i64));
    Ok((query, plan.parameters))
}

fn rows_max(job: &ScanJob) -> usize {
    job.rows_max.clamp(1, limits::SCAN_ROWS_MAX)
}

/// A `WHERE` under construction: its conditions and what they bind.
struct Plan<'a> {
    dialect: &'a dyn Dialect,
    texts: Vec<String>,
    parameters: Vec<Parameter>,
}

impl Plan<'_> {
    /// What to look for; gives the order. One tree answers both from front to back: the primary key or the index.
    fn fill(&mut self, job: &ScanJob) -> Result<String, Error> {
        let address = columns::address(&job.table);
        let last = self.dialect.quoted(address[address.len() - 1].name);
        match &job.scope {
            Scope::Positions(_) if columns::is_mapped(&job.table) => {
                let name = columns::table_name(&job.table);
                Err(Error::definition(format!("table {name} does not keep positions: its rows have no routing order")))
            }
            Scope::Positions(interval) => {
                self.within(&job.table, *interval, job.after.as_ref());
                Ok(format!("{POSITION}, {}", self.dialect.names(&address)))
            }
            Scope::Partition { key, from, to, descending } => {
                match key::to_sql(&job.table, key) {
                    Some(key) => self.compare(&self.dialect.quoted(address[0].name), "=", key.into()),
                    None => self.texts.push("FALSE".into()),
                }
                if job.table.has_sort() {
                    from.iter().for_each(|edge| self.compare(&last, ">=", Parameter::Bytes(edge.to_vec())));
                    to.iter().for_each(|edge| self.compare(&last, "<", Parameter::Bytes(edge.to_vec())));
                    let behind = if *descending { "<" } else { ">" };
                    job.after.iter().for_each(|row| self.compare(&last, behind, Parameter::Bytes(row.sort.to_vec())));
                } else if job.after.is_some() {
                    // The one row that the key has was the last one seen.
                    self.texts.push("FALSE".into());
                }
                Ok(format!("{last}{}", if *descending { " DESC" } else { "" }))
            }
        }
    }

    fn compare(&mut self, column: &str, operator: &str, value: Parameter) {
        self.parameters.push(value);
        let mark = self.dialect.mark(self.parameters.len());
        self.texts.push(format!("{column} {operator} {mark}"));
    }

    fn within(&mut self, table: &Table, interval: Interval, after: Option<&RowKeyBuf>) {
        let integer = |position: Position| Parameter::Integer(stored_position(position));
        match after.filter(|row| row.as_ref().position() >= interval.lo) {
            None => self.compare(POSITION, ">=", integer(interval.lo)),
            Some(row) => {
                let mut columns = vec![POSITION.to_owned()];
                columns.extend(columns::address(table).iter().map(|column| self.dialect.quoted(column.name)));
                let mut edge = vec![integer(row.as_ref().position()), Parameter::Bytes(row.key.to_vec())];
                edge.extend(table.has_sort().then(|| Parameter::Bytes(row.sort.to_vec())));
                let (condition, bound) = self.dialect.after(&columns, self.parameters.len() + 1);
                self.texts.push(condition);
                self.parameters.extend(bound.into_iter().map(|index| edge[index].clone()));
            }
        }
        if let Some(hi) = interval.hi {
            self.compare(POSITION, "<", integer(hi));
        }
    }
}

/// A page as it fills.
pub(crate) struct Page<'a> {
    job: &'a ScanJob,
    found: Found,
    last: Option<RowKeyBuf>,
    count: usize,
    bytes: usize,
}

impl<'a> Page<'a> {
    pub(crate) fn new(job: &'a ScanJob) -> Self {
        Self { job, found: Found::default(), last: None, count: 0, bytes: 0 }
    }

    /// A page of all that SQL returned at once. `read` takes a returned row in and gives its address.
    pub(crate) fn of<A>(
        job: &'a ScanJob,
        returned: &[A],
        position: impl Fn(&A) -> Option<i64>,
        read: impl Fn(&mut Found, &A) -> Result<RowKeyBuf, Error>,
    ) -> Result<(Found, Option<RowKeyBuf>), Error> {
        let mut page = Self::new(job);
        for answer in returned {
            let mut one = Found::default();
            let row = read(&mut one, answer)?;
            if !page.push(row, position(answer), |found| found.absorb(one)) {
                break;
            }
        }
        Ok(page.finish())
    }

    /// Takes a row that SQL returned, with what `take` makes of it. Says whether there is room for another.
    pub(crate) fn push(&mut self, row: RowKeyBuf, position: Option<i64>, take: impl FnOnce(&mut Found)) -> bool {
        if columns::is_mapped(&self.job.table) || position == Some(stored_position(row.as_ref().position())) {
            take(&mut self.found);
        } else {
            // Inserted by hand: another shard may hold the key, so this page cannot speak for it.
            let message = format!("{POSITION} does not belong to the key");
            self.found.quarantined.push(Quarantined { row: row.clone(), message });
        }
        self.last = Some(row);
        self.count += 1;
        self.bytes += self.found.rows.last().map_or(0, |loaded| loaded.fields.packed.len());
        self.bytes < limits::SCAN_BYTES_MAX
    }

    /// The rows, and the last one looked at if there may be more behind it.
    pub(crate) fn finish(self) -> (Found, Option<RowKeyBuf>) {
        let is_full = self.count == rows_max(self.job) || self.bytes >= limits::SCAN_BYTES_MAX;
        (self.found, self.last.filter(|_| is_full))
    }
}

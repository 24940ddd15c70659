//! Reads, scans and batches as a door hands them over, and how they are held against definitions.

use std::sync::Arc;

use shardine_model::command::{Batch, BatchItem, BatchMode, Body, Origin, Request};
use shardine_model::key::partition_key;
use shardine_model::{Catalogue, ErrorCode, Refusal, RowKeyBuf, Table, Value, Version, limits};
use shardine_router::{Bound, RowCall, ScanCall, SortRange};

use crate::fit;
use crate::order::{Checked, Delivery, Order, RowAddress, check_key, find_table};
use crate::record::Record;

/// A read of one record.
#[derive(Clone, Debug, Default)]
pub struct Get {
    pub row: RowAddress,
    /// None means all.
    pub fields: Vec<Vec<u8>>,
    pub known_version: Option<Version>,
    /// How old the answer may be, in ms; without it, not at all (records 36).
    pub max_age_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Got {
    pub record: Record,
    /// The record is still at the known version; it comes without fields (records 11).
    pub unchanged: bool,
    /// How far the log was applied, for a read that may be old.
    pub applied: Option<u64>,
}

/// A page of a table, or of one partition in sort order.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    pub table: String,
    pub partition: Option<Vec<u8>>,
    pub from: Option<Edge>,
    pub to: Option<Edge>,
    pub descending: bool,
    /// 0 means the default.
    pub limit: usize,
    pub cursor: Option<Vec<u8>>,
    pub fields: Vec<Vec<u8>>,
}

/// One end of a sort range; the parts may be the first of two.
#[derive(Clone, Debug)]
pub struct Edge {
    pub parts: Vec<Value>,
    pub exclusive: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    pub records: Vec<Record>,
    pub next: Option<Vec<u8>>,
}

/// Commands on one partition at one moment, all or none.
#[derive(Clone, Debug, Default)]
pub struct BatchOrder {
    pub conditions: Vec<(RowAddress, Version)>,
    pub items: Vec<Item>,
    pub delivery: Delivery,
}

#[derive(Clone, Debug)]
pub enum Item {
    Change(Order),
    Read(Get),
}

impl Get {
    pub(crate) fn call(&self, row: RowKeyBuf) -> RowCall {
        match self.max_age_ms {
            None => RowCall::Read { row },
            Some(max_age_ms) => RowCall::ReadStale { row, max_age_ms },
        }
    }

    pub(crate) fn check(&self, catalogue: &Catalogue) -> Result<(Arc<Table>, RowKeyBuf), Refusal> {
        let (table, row) = self.row.check(catalogue)?;
        check_names(&table, &self.fields)?;
        Ok((table, row))
    }
}

fn check_names(table: &Table, names: &[Vec<u8>]) -> Result<(), Refusal> {
    names.iter().try_for_each(|name| fit::field_ref(table, name, [name.as_slice()]).map(|_| ()))
}

impl Scan {
    pub(crate) fn check(&self, catalogue: &Catalogue) -> Result<(Arc<Table>, ScanCall), Refusal> {
        let table = find_table(catalogue, &self.table)?;
        check_names(&table, &self.fields)?;
        self.check_shape(&table)?;
        let limit = if self.limit == 0 { crate::SCAN_ROWS_DEFAULT } else { self.limit };
        let call = ScanCall {
            table: Some(table.id),
            partition: self.partition.as_deref().map(Into::into),
            range: SortRange { from: bound(&table, self.from.as_ref())?, to: bound(&table, self.to.as_ref())? },
            descending: self.descending,
            limit: limit.min(limits::SCAN_ROWS_MAX),
            cursor: self.cursor.clone(),
            whole_positions: false,
        };
        Ok((table, call))
    }

    fn check_shape(&self, table: &Table) -> Result<(), Refusal> {
        let bad = |message: String| Err(Refusal::new(ErrorCode::BadRequest, message));
        match &self.partition {
            Some(_) if !table.has_sort() => {
                bad(format!("table {} has no sort key, so a key holds one row: get it", table.name))
            }
            Some(key) => check_key(key),
            None if self.from.is_some() || self.to.is_some() => {
                bad("a sort range needs the key whose rows it cuts".to_owned())
            }
            None if self.descending => bad("only the rows of one key can be read downwards".to_owned()),
            None => Ok(()),
        }
    }
}

fn bound(table: &Table, edge: Option<&Edge>) -> Result<Bound, Refusal> {
    let Some(edge) = edge.filter(|edge| !edge.parts.is_empty()) else { return Ok(Bound::Open) };
    let encoded = fit::sort_key(table, &edge.parts)?.into_boxed_slice();
    Ok(if edge.exclusive { Bound::Excluding(encoded) } else { Bound::Including(encoded) })
}

/// A batch that fits its tables and stays in one partition.
pub(crate) struct CheckedBatch {
    conditions: Vec<(RowKeyBuf, Version)>,
    pub items: Vec<CheckedItem>,
}

pub(crate) enum CheckedItem {
    Change(Checked),
    Read { table: Arc<Table>, row: RowKeyBuf, fields: Vec<Vec<u8>> },
}

impl CheckedItem {
    pub(crate) fn row(&self) -> &RowKeyBuf {
        match self {
            Self::Change(checked) => &checked.row,
            Self::Read { row, .. } => row,
        }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        match self {
            Self::Change(checked) => &checked.table,
            Self::Read { table, .. } => table,
        }
    }
}

impl BatchOrder {
    pub(crate) fn check(self, catalogue: &Catalogue) -> Result<CheckedBatch, Refusal> {
        let count = self.items.len();
        if count == 0 {
            return Err(Refusal::new(ErrorCode::BadRequest, "a batch needs at least one command"));
        }
        if count.max(self.conditions.len()) > limits::BATCH_COMMANDS_MAX {
            let message = format!("a batch has at most {} commands and conditions", limits::BATCH_COMMANDS_MAX);
            return Err(Refusal::new(ErrorCode::TooLarge, message));
        }
        let mut conditions = Vec::with_capacity(self.conditions.len());
        for (address, version) in &self.conditions {
            conditions.push((address.check(catalogue)?.1, *version));
        }
        let mut items = Vec::with_capacity(count);
        for item in self.items {
            items.push(match item {
                Item::Change(order) => CheckedItem::Change(order.check(catalogue)?),
                Item::Read(get) => {
                    let (table, row) = get.check(catalogue)?;
                    CheckedItem::Read { table, row, fields: get.fields }
                }
            });
        }
        let batch = CheckedBatch { conditions, items };
        batch.check_partition()?;
        Ok(batch)
    }
}

impl CheckedBatch {
    fn check_partition(&self) -> Result<(), Refusal> {
        let mut keys = self.items.iter().map(CheckedItem::row).chain(self.conditions.iter().map(|(row, _)| row));
        let first = keys.next().map(|row| partition_key(&row.key));
        match keys.find(|row| Some(partition_key(&row.key)) != first) {
            None => Ok(()),
            Some(other) => {
                let (one, other) = (first.unwrap_or_default(), &other.key);
                let message = format!(
                    "{:?} and {:?} live in different partitions; a batch stays in one: give its keys one {{tag}}",
                    String::from_utf8_lossy(one),
                    String::from_utf8_lossy(other)
                );
                Err(Refusal::new(ErrorCode::BadRequest, message))
            }
        }
    }

    pub(crate) fn encode(&self, origin: Option<Origin>) -> Box<[u8]> {
        let commands = self.items.iter().map(|item| match item {
            CheckedItem::Change(checked) => BatchItem::Change(checked.command()),
            CheckedItem::Read { row, .. } => BatchItem::Read(row.as_ref()),
        });
        let batch = Batch {
            mode: BatchMode::AllOrNone,
            conditions: self.conditions.iter().map(|(row, version)| (row.as_ref(), *version)).collect(),
            commands: commands.collect(),
        };
        let mut request = Vec::new();
        Request { origin, body: Body::Batch(batch) }.encode(&mut request);
        request.into_boxed_slice()
    }
}

//! Load on miss: SQL is asked once per row however many wait, the row enters through the log, then they go on.

use std::collections::BTreeMap;

use shardine_model::codec::Reader;
use shardine_model::entry::LoadedRow as EntryRow;
use shardine_model::{Answer, Entry, ErrorCode, Request, RowKey, RowKeyBuf, TableId, limits};
use shardine_records::Lookup;

use crate::actions::{Actions, Caller, LoadedRow, SqlLoad};
use crate::gather::Then;
use crate::replica::{Replica, fail};

#[derive(Debug)]
struct Parked {
    caller: Caller,
    what: What,
}

#[derive(Debug)]
enum What {
    Read(RowKeyBuf),
    /// An encoded request.
    Request(Box<[u8]>),
}

/// Who waits for which row. A request that needs several rows waits for one of them at a time.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    waiting: BTreeMap<RowKeyBuf, Vec<Parked>>,
}

impl Loads {
    pub fn give_up(&mut self) -> Vec<Caller> {
        let parked = std::mem::take(&mut self.waiting).into_values().flatten();
        parked.map(|parked| parked.caller).collect()
    }

    #[cfg(test)]
    pub fn rows(&self) -> usize {
        self.waiting.len()
    }
}

impl Replica {
    /// Parks a request that needs a row from SQL, or that must queue behind one that does.
    #[inline]
    pub(crate) fn park_if_not_resident(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        actions: &mut Actions,
    ) -> bool {
        if !self.records.has_sql_tables() {
            return false;
        }
        let missing = request.rows().find(|row| {
            matches!(self.records.get(row.position(), *row), Lookup::NotResident)
                || self.loads.waiting.contains_key(&(*row).to_owned())
        });
        let Some(row) = missing else { return false };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.park(row.to_owned(), Parked { caller, what: What::Request(bytes.into()) }, actions);
        true
    }

    pub(crate) fn park_read(&mut self, caller: Caller, row: RowKey<'_>, actions: &mut Actions) {
        self.park(row.to_owned(), Parked { caller, what: What::Read(row.to_owned()) }, actions);
    }

    /// A request that met a row kicked after it was proposed: loads and goes again (DESIGN 3).
    pub(crate) fn park_again(
        &mut self,
        caller: Caller,
        request: Box<[u8]>,
        missing: &[RowKeyBuf],
        actions: &mut Actions,
    ) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        let row = missing.first().expect("something was missing").clone();
        self.park(row, Parked { caller, what: What::Request(request) }, actions);
    }

    fn park(&mut self, row: RowKeyBuf, parked: Parked, actions: &mut Actions) {
        let rows = self.loads.waiting.len();
        let waiters = self.loads.waiting.entry(row.clone()).or_default();
        if waiters.len() >= limits::LOAD_WAITERS_MAX || (waiters.is_empty() && rows >= limits::LOADS_MAX) {
            if waiters.is_empty() {
                self.loads.waiting.remove(&row);
            }
            return actions.answers.push((parked.caller, Answer::Failed(ErrorCode::Busy)));
        }
        waiters.push(parked);
        if waiters.len() == 1 {
            ask(actions, self.group.term(), row);
        }
    }

    /// SQL has answered. A result that comes after the term has changed is dropped (record-cache 46).
    pub fn loaded(&mut self, term: u64, rows: &[LoadedRow], actions: &mut Actions) {
        if term != self.group.term() || !self.is_serving() {
            return;
        }
        let entry = Entry::Load(
            rows.iter()
                .map(|loaded| EntryRow {
                    row: loaded.row.as_ref(),
                    version: loaded.version,
                    fields: &loaded.fields.packed,
                })
                .collect(),
        );
        let names: Vec<RowKeyBuf> = rows.iter().map(|loaded| loaded.row.clone()).collect();
        self.propose(&entry, Vec::new(), Then::Loaded(names));
        self.drain(actions);
    }

    /// SQL could not be asked: everyone who waits for these rows hears so, and nothing is written (record-cache 47).
    pub fn load_failed(&mut self, term: u64, rows: &[RowKeyBuf], actions: &mut Actions) {
        if term != self.group.term() {
            return;
        }
        for row in rows {
            let parked = self.loads.waiting.remove(row).unwrap_or_default();
            let callers = parked.into_iter().map(|parked| parked.caller).collect();
            fail(actions, callers, ErrorCode::BackendUnavailable);
        }
    }

    /// The rows are in memory: what waited goes on, in the order in which it came.
    pub(crate) fn release(&mut self, rows: &[RowKeyBuf], actions: &mut Actions) {
        for row in rows {
            for parked in self.loads.waiting.remove(row).unwrap_or_default() {
                match parked.what {
                    What::Read(row) => self.read(parked.caller, row.as_ref(), actions),
                    What::Request(bytes) => {
                        let request = Request::decode(&mut Reader::new(&bytes)).expect("encoded here");
                        self.submit(parked.caller, &request, actions);
                    }
                }
            }
        }
    }
}

/// Joins loads of one table in one turn into one question (record-cache 39).
fn ask(actions: &mut Actions, term: u64, row: RowKeyBuf) {
    let fits =
        |load: &&mut SqlLoad| load.table == row.table && load.term == term && load.rows.len() < limits::LOAD_ROWS_MAX;
    match actions.loads.iter_mut().rev().find(fits) {
        Some(load) => load.rows.push(row),
        None => {
            let table: TableId = row.table;
            actions.loads.push(SqlLoad { term, table, rows: vec![row] });
        }
    }
}

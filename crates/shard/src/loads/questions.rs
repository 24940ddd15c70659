//! Questions to SQL, and what it told: rows that were missed in one turn are asked for together (records 39), and
//! what SQL tells while the log is busy enters memory by one entry.

use std::collections::BTreeSet;

use shardine_model::entry::LoadedRow as EntryRow;
use shardine_model::{Entry, RowKeyBuf, limits};

use crate::actions::{Actions, LoadedRow, Question, SqlLoad};
use crate::row_map::RowMap;

/// Invariant: a row is to be asked for, or is being asked for, or neither; never both.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Rows to ask for at the end of the turn.
    gathered: BTreeSet<RowKeyBuf>,
    /// The open question of each row that SQL is being asked for. A row comes into memory by the answer to this one only,
    /// so an answer to an older one is news from the past: the row may have lived, changed and been kicked since.
    asked: RowMap<u64>,
    last_ticket: u64,
    /// Rows that SQL has told in this term and that are not proposed yet.
    news: Vec<LoadedRow>,
    news_term: u64,
}

impl Questions {
    pub fn next(&mut self, term: u64) -> Question {
        self.last_ticket += 1;
        Question { term, ticket: self.last_ticket }
    }

    /// Takes a row up for the end of the turn. If SQL is being asked for it already, that answer is not wanted any more.
    pub fn gather(&mut self, row: RowKeyBuf) {
        self.asked.remove(&row);
        self.gathered.insert(row);
    }

    pub fn are_open(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// One question for all rows of a table that were missed in this turn, or several where they are too many.
    pub fn ask(&mut self, term: u64, actions: &mut Actions) {
        for row in std::mem::take(&mut self.gathered) {
            let has_room = |load: &&mut SqlLoad| load.table == row.table && load.rows.len() < limits::LOAD_ROWS_MAX;
            let load = match actions.loads.last_mut().filter(has_room) {
                Some(load) => load,
                None => {
                    let question = self.next(term);
                    actions.loads.push(SqlLoad { question, table: row.table, rows: Vec::new() });
                    actions.loads.last_mut().expect("just pushed")
                }
            };
            self.asked.insert(row.clone(), load.question.ticket);
            load.rows.push(row);
        }
    }

    /// Nobody waits for the row any longer: an answer that comes yet would be news from the past.
    pub fn close(&mut self, row: &RowKeyBuf) {
        self.gathered.remove(row);
        self.asked.remove(row);
    }

    /// Whether this is the answer that the row waits for; it is taken once.
    pub fn take_answer(&mut self, ticket: u64, row: &RowKeyBuf) -> bool {
        let is_current = self.asked.get(row) == Some(&ticket);
        if is_current {
            self.asked.remove(row);
        }
        is_current
    }

    pub fn note_news(&mut self, term: u64, loaded: LoadedRow) {
        if self.news_term != term {
            (self.news, self.news_term) = (Vec::new(), term);
        }
        self.news.push(loaded);
    }

    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The next entry of rows that SQL has told in this term, and their names.
    pub fn take_news(&mut self, term: u64) -> Option<(Vec<u8>, Vec<RowKeyBuf>)> {
        let mut bytes = 0;
        let fits = |loaded: &&LoadedRow| {
            let has_room = bytes < limits::ENTRY_BYTES_MAX;
            bytes += loaded.fields.packed.len() + loaded.row.key.len() + loaded.row.sort.len();
            has_room
        };
        let count = self.news.iter().take_while(fits).count();
        let told: Vec<LoadedRow> = self.news.drain(..count).collect();
        if told.is_empty() || self.news_term != term {
            return None;
        }
        let rows = told.iter().map(|LoadedRow { row, version, fields }| EntryRow {
            row: row.as_ref(),
            version: *version,
            fields: &fields.packed,
        });
        let entry = Entry::Load(rows.collect()).to_bytes();
        Some((entry, told.into_iter().map(|loaded| loaded.row).collect()))
    }

    /// Nobody waits any longer, and what SQL told was told to a leader (records 46).
    pub fn give_up(&mut self) {
        self.gathered.clear();
        self.asked.clear();
        self.news.clear();
    }
}

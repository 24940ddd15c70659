//! Rows about which SQL and memory do not agree: refused ones become dead letters (write-back 113), and where SQL holds a
//! newer version the table's policy decides (write-back 117).

use shardine_model::entry::{RaisedRow, RefusedRow};
use shardine_model::sql::Class;
use shardine_model::{Answer, Conflict, Entry, ErrorCode, RowKey, RowKeyBuf, TableId, Version, limits};

use super::queue::{Sent, Urgency};
use super::settle::Winner;
use crate::actions::{Actions, Caller, Trouble};
use crate::gather::Then;
use crate::replica::Replica;

/// How long after a refusal a row is tried again that found no room among the dead letters.
const UNLISTED_PAUSE_MS: u64 = 10_000;

/// What a batch came back with besides written rows.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    pub newer: Vec<(RowKeyBuf, Sent, Version)>,
    pub refused: Vec<(RowKeyBuf, Sent, String)>,
    pub orphans: Vec<(RowKeyBuf, Sent, String)>,
}

/// SQL's words as far as a letter keeps them: no need to carry more through the log.
fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(limits::DEAD_LETTER_ERROR_BYTES_MAX)]
}

impl Replica {
    pub(super) fn take_up(&mut self, mut rejections: Rejections, actions: &mut Actions) {
        let mut raised = Vec::new();
        for (row, sent, held) in rejections.newer {
            let definition = self.records.catalogue().get(row.table);
            let policy = definition.map_or(Conflict::default(), |table| table.sql.conflict);
            let is_guest = definition.is_some_and(|table| table.sql.is_guest());
            let message = match held == Version::NEVER {
                true => {
                    format!("SQL has no such row any more, memory version {}: somebody else deleted it", sent.version)
                }
                false => format!("SQL holds version {held}, memory {}: somebody else wrote the row", sent.version),
            };
            let queue = self.writeback.tables.entry(row.table).or_default();
            queue.conflicts += 1;
            queue.last_trouble = Some(Trouble { class: Class::Row, message: message.clone() });
            match policy {
                // Only what changed here goes over what SQL has, and memory learns the rest.
                Conflict::CacheWins if held.has_next() && is_guest && sent.version.is_live() => {
                    self.settle_with_sql(row, sent.version, Winner::Both, actions);
                }
                Conflict::CacheWins if held.has_next() => raised.push((row, sent, held)),
                Conflict::SqlWins => self.settle_with_sql(row, sent.version, Winner::Sql(None), actions),
                Conflict::CacheWins | Conflict::Stop => rejections.refused.push((row, sent, message)),
            }
        }
        let referred = self.keep_orphans(rejections.orphans);
        rejections.refused.extend(referred);
        self.raise(raised);
        self.bury_letters(rejections.refused);
    }

    fn raise(&mut self, rows: Vec<(RowKeyBuf, Sent, Version)>) {
        if rows.is_empty() {
            return;
        }
        let list =
            rows.iter().map(|(row, sent, held)| RaisedRow { row: row.as_ref(), expected: sent.version, held: *held });
        let entry = Entry::Raise(list.collect());
        let then = Then::Raised(rows.iter().map(|(row, sent, _)| (row.clone(), sent.place)).collect());
        self.propose(&entry, Vec::new(), then);
    }

    pub(crate) fn finish_raised(&mut self, rows: Vec<(RowKeyBuf, Urgency)>, actions: &mut Actions) {
        let now = self.time.monotonic_ms;
        for (row, place) in rows {
            self.writeback.tables.entry(row.table).or_default().file(row, place, now);
        }
        self.write_back(actions);
    }

    fn bury_letters(&mut self, rows: Vec<(RowKeyBuf, Sent, String)>) {
        if rows.is_empty() {
            return;
        }
        for (row, sent, message) in &rows {
            self.writeback.kicks.fail(row, ErrorCode::SqlRefused);
            self.writeback.waits.refuse(row, sent.version);
            let queue = self.writeback.tables.entry(row.table).or_default();
            queue.last_trouble = Some(Trouble { class: Class::Row, message: message.clone() });
        }
        let list = rows.iter().map(|(row, sent, message)| RefusedRow {
            row: row.as_ref(),
            version: sent.version,
            error: cut(message),
        });
        let entry = Entry::Refused { at: self.stamp(), rows: list.collect() };
        let then = Then::Refused(rows.iter().map(|(row, sent, _)| (row.clone(), sent.version)).collect());
        self.propose(&entry, Vec::new(), then);
    }

    /// Where the list was full, the row is tried again later, and counted.
    pub(crate) fn finish_refused(&mut self, rows: Vec<(RowKeyBuf, Version)>, actions: &mut Actions) {
        let now = self.time.monotonic_ms;
        for (row, version) in rows {
            let is_listed = self.records.is_dead(&row, version);
            let is_current =
                super::send::dirty_image(&self.records, row.clone()).is_some_and(|now| now.version == version);
            if !is_listed && is_current {
                let queue = self.writeback.tables.entry(row.table).or_default();
                queue.unlisted += 1;
                queue.file(row, Urgency::PutOff { until_ms: now + UNLISTED_PAUSE_MS }, now);
            }
        }
        self.try_kicks(actions);
    }

    /// Writes dead letters again: one row, those of a table, or all. Answers when SQL has taken them all, or refused one.
    pub fn retry_dead_letters(
        &mut self,
        caller: Caller,
        row: Option<RowKey<'_>>,
        table: Option<TableId>,
        actions: &mut Actions,
    ) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        if row.is_some_and(|row| self.is_stray(caller, row, actions)) {
            return;
        }
        let is_meant = |letter: &RowKey<'_>| {
            row.is_none_or(|row| row == *letter) && table.is_none_or(|table| table == letter.table)
        };
        let letters = self.records.dead_letters().map(|(letter, _)| letter).filter(is_meant);
        let rows: Vec<RowKeyBuf> = letters.map(RowKey::to_owned).collect();
        if rows.is_empty() && row.is_some() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotFound)));
        }
        self.write_now(caller, rows, actions);
        self.drain(actions);
        self.write_back(actions);
    }

    /// Gives a dead letter up: what SQL holds takes the row's place in memory, one version higher, so that versions never go
    /// back. Answers when it is done; `busy` if the row was changed meanwhile.
    pub fn discard_dead_letter(&mut self, caller: Caller, row: RowKey<'_>, actions: &mut Actions) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        if self.is_stray(caller, row, actions) {
            return;
        }
        let row = row.to_owned();
        if self.records.dead_letter(&row).is_none() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotFound)));
        }
        let current = super::send::dirty_image(&self.records, row).expect("a dead letter's row is dirty");
        self.settle_with_sql(current.row, current.version, Winner::Sql(Some(caller)), actions);
    }
}

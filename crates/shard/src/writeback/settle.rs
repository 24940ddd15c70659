//! Asking SQL for a row that memory has, because SQL's is to take its place.

use std::collections::BTreeMap;

use shardine_model::entry::SettledRow;
use shardine_model::{Answer, ChangedFields, Entry, ErrorCode, FieldRef, FieldValue, RowKeyBuf, Version};
use shardine_records::Lookup;

use super::queue::Urgency;
use crate::actions::{Actions, Caller, LoadedRow, Question, SqlLoad};
use crate::gather::Then;
use crate::replica::Replica;

/// How long after a failure SQL is asked again where its row is to win.
const ASK_AGAIN_MS: u64 = 1_000;

/// Rows that SQL is being asked for. A row is asked for once at a time.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    open: BTreeMap<RowKeyBuf, Asked>,
}

#[derive(Debug)]
struct Asked {
    ticket: u64,
    /// The version whose place SQL's row is to take.
    expected: Version,
    winner: Winner,
}

/// What takes the row's place in memory.
#[derive(Debug)]
pub(super) enum Winner {
    /// SQL's row, because the table's rule or an operator says so; who waits for it.
    Sql(Option<Caller>),
    /// SQL's row, and over it what changed in memory since.
    Both,
}

impl Winner {
    fn into_caller(self) -> Option<Caller> {
        match self {
            Self::Sql(caller) => caller,
            Self::Both => None,
        }
    }
}

impl Settling {
    pub fn give_up(&mut self) -> Vec<Caller> {
        std::mem::take(&mut self.open).into_values().filter_map(|asked| asked.winner.into_caller()).collect()
    }

    fn take(&mut self, question: Question, row: &RowKeyBuf) -> Option<Asked> {
        let is_it = self.open.get(row).is_some_and(|asked| asked.ticket == question.ticket);
        if is_it { self.open.remove(row) } else { None }
    }
}

impl Replica {
    pub(super) fn settle_with_sql(&mut self, row: RowKeyBuf, expected: Version, winner: Winner, actions: &mut Actions) {
        if self.writeback.settling.open.contains_key(&row) {
            let refused = winner.into_caller().map(|caller| (caller, Answer::Failed(ErrorCode::Busy)));
            return actions.answers.extend(refused);
        }
        let question = self.loads.next_question(self.term());
        let asked = Asked { ticket: question.ticket, expected, winner };
        self.writeback.settling.open.insert(row.clone(), asked);
        actions.loads.push(SqlLoad { question, table: row.table, rows: vec![row] });
    }

    /// Takes SQL's answer if it was asked for here. The version tells at apply whether the row is still the one.
    pub(crate) fn take_settlement(&mut self, question: Question, loaded: &LoadedRow, actions: &mut Actions) -> bool {
        let Some(asked) = self.writeback.settling.take(question, &loaded.row) else { return false };
        if !asked.expected.has_next() {
            // The last version there is: nothing can take its place.
            actions
                .answers
                .extend(asked.winner.into_caller().map(|caller| (caller, Answer::Failed(ErrorCode::Overflow))));
            return true;
        }
        let (row, expected, sql_version) = (loaded.row.as_ref(), asked.expected, loaded.version);
        // Where SQL is ahead its version is taken over; else the row goes one above memory's, and is written.
        let (is_ahead, wins_alone) =
            (sql_version.magnitude() > expected.magnitude(), matches!(asked.winner, Winner::Sql(_)));
        let version = match is_ahead {
            true if wins_alone => sql_version,
            true => sql_version.next_live(),
            false if sql_version.is_live() || !wins_alone => expected.next_live(),
            false => expected.next_tombstone(),
        };
        let merged = if wins_alone { None } else { self.changed_over(loaded) };
        let fields = merged.as_deref().unwrap_or(&loaded.fields.packed);
        let entry = Entry::Settle(SettledRow { row, expected, version, sql_version, fields });
        let callers: Vec<Caller> = asked.winner.into_caller().into_iter().collect();
        self.propose(&entry, callers, Then::Settled(loaded.row.clone()));
        true
    }

    /// The fields of a row as SQL has it, with what changed in memory since over them; all of memory's where nobody has kept
    /// count, or SQL has no such row.
    fn changed_over(&self, loaded: &LoadedRow) -> Option<Vec<u8>> {
        let row = loaded.row.as_ref();
        let Lookup::Live(view) = self.records.get(row.position(), row) else { return None };
        let changed = if loaded.version.is_live() { view.changed } else { ChangedFields::ALL };
        let is_ours = |entry: &FieldValue<'_>| match entry.field {
            FieldRef::Id(id) => changed.holds(id) || changed.is_all(),
            FieldRef::Name(_) => true,
        };
        let mut packed = Vec::new();
        let theirs = loaded.fields.view();
        theirs.iter().filter(|entry| !is_ours(entry)).for_each(|entry| entry.encode(&mut packed));
        view.fields.iter().filter(is_ours).for_each(|entry| entry.encode(&mut packed));
        Some(packed)
    }

    /// SQL could not be asked. Whoever discards a letter hears so; where SQL is to win, it is asked again later.
    pub(crate) fn fail_settlement(
        &mut self,
        question: Question,
        row: &RowKeyBuf,
        code: ErrorCode,
        actions: &mut Actions,
    ) -> bool {
        let Some(asked) = self.writeback.settling.take(question, row) else { return false };
        let now = self.time.monotonic_ms;
        match asked.winner.into_caller() {
            Some(caller) => actions.answers.push((caller, Answer::Failed(code))),
            None => {
                let queue = self.writeback.tables.entry(row.table).or_default();
                queue.file(row.clone(), Urgency::PutOff { until_ms: now + ASK_AGAIN_MS }, now);
            }
        }
        true
    }

    pub(crate) fn finish_settled(&mut self, row: &RowKeyBuf, callers: Vec<Caller>, actions: &mut Actions) {
        let answer = match self.records.dead_letter(row) {
            None => Answer::Many(Vec::new()),
            Some(_) => Answer::Failed(ErrorCode::Busy),
        };
        actions.answers.extend(callers.into_iter().map(|caller| (caller, answer.clone())));
        self.finish_waits(actions);
    }
}

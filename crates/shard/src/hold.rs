//! Changes that are answered when SQL has them too (records 32, write-back 108): whose answer is held back, for which
//! rows, and what he is told in the end. A change that was made is never called a failure: `sql_version` says how far
//! SQL is.

use std::collections::BTreeMap;

use shardine_model::command::{BatchItem, BatchMode, Body};
use shardine_model::{Ack, AckAfter, Answer, Reply, Request, RowKey, RowKeyBuf, Version};

use crate::actions::{Actions, Caller};
use crate::replica::Replica;

/// When a request wants to be answered. Kept while it waits for its rows: the time counts from when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub after: AckAfter,
    pub until_ms: u64,
}

/// An answer that is to be held back: the row behind each of its replies, where SQL is to have that one.
#[derive(Debug)]
pub(crate) struct Hold {
    rows: Vec<Option<RowKeyBuf>>,
    mode: BatchMode,
    until_ms: u64,
}

/// An answer that is held back.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    pub answer: Answer,
    rows: Vec<Option<RowKeyBuf>>,
}

impl Hold {
    /// What the request wanted, for proposing it again.
    pub fn wish(&self) -> Wish {
        Wish { after: AckAfter::Sql, until_ms: self.until_ms }
    }

    /// The versions that SQL must have. What was refused or undone is in no need of SQL.
    fn wanted(&self, answer: &Answer) -> BTreeMap<RowKeyBuf, Version> {
        let replies = replies(answer);
        let is_refused = |(reply, row): (&Reply, &Option<RowKeyBuf>)| row.is_some() && reply.refusal().is_some();
        let mut wanted = BTreeMap::new();
        if self.mode == BatchMode::AllOrNone && replies.iter().zip(&self.rows).any(is_refused) {
            return wanted;
        }
        for (reply, row) in replies.iter().zip(&self.rows) {
            if let (None, Some(row)) = (reply.refusal(), row) {
                // The last change of a row is the one that counts.
                wanted.insert(row.clone(), reply.version);
            }
        }
        wanted
    }
}

impl HeldAnswer {
    /// SQL has this row's change.
    pub fn confirm(&mut self, row: &RowKeyBuf) {
        let replies = match &mut self.answer {
            Answer::One(reply) => std::slice::from_mut(reply),
            Answer::Many(replies) => replies,
            Answer::ConditionFailed | Answer::Failed(_) => &mut [],
        };
        for (reply, held) in replies.iter_mut().zip(&self.rows) {
            let is_behind = reply.sql_version.magnitude() < reply.version.magnitude();
            if held.as_ref() == Some(row) && is_behind && reply.refusal().is_none() {
                reply.sql_version = reply.version;
            }
        }
    }
}

fn replies(answer: &Answer) -> &[Reply] {
    match answer {
        Answer::One(reply) => std::slice::from_ref(reply),
        Answer::Many(replies) => replies,
        Answer::ConditionFailed | Answer::Failed(_) => &[],
    }
}

impl Replica {
    pub(crate) fn wish(&self, ack: Ack) -> Wish {
        Wish { after: ack.after, until_ms: self.time.monotonic_ms.saturating_add(ack.within_ms) }
    }

    /// Which of the request's replies wait for SQL, if any.
    #[inline]
    pub(crate) fn hold_for(&self, request: &Request<'_>, wish: Wish) -> Option<Hold> {
        if wish.after == AckAfter::Raft || !self.records.has_sql_tables() {
            return None;
        }
        let held = |row: RowKey<'_>| {
            let waits = match wish.after {
                AckAfter::Raft => false,
                AckAfter::Sql => self.records.is_sql_table(row.table),
                AckAfter::Table => self.records.is_written_through(row.table),
            };
            waits.then(|| row.to_owned())
        };
        let (rows, mode): (Vec<_>, _) = match &request.body {
            Body::Read(_) => return None,
            Body::One(command) => (vec![held(command.row)], BatchMode::EachItsOwn),
            Body::Batch(batch) => {
                let item = |item: &BatchItem<'_>| match item {
                    BatchItem::Change(command) => held(command.row),
                    BatchItem::Read(_) => None,
                };
                (batch.commands.iter().map(item).collect(), batch.mode)
            }
        };
        rows.iter().any(Option::is_some).then_some(Hold { rows, mode, until_ms: wish.until_ms })
    }

    /// Holds these answers back until SQL has what they tell of, and sees to it that it gets it. Whoever does not lead any
    /// more cannot: then they are told as they are.
    pub(crate) fn hold_answers(&mut self, held: Vec<(Caller, Answer, Hold)>, actions: &mut Actions) {
        if held.is_empty() {
            return;
        }
        for (caller, answer, hold) in held {
            let wanted = hold.wanted(&answer);
            if wanted.is_empty() || !self.has_taken_over() {
                actions.answers.push((caller, answer));
                continue;
            }
            #[cfg_attr(not(feature = "mutants"), allow(unused_mut))]
            let mut held = HeldAnswer { answer, rows: hold.rows };
            #[cfg(feature = "mutants")]
            if self.options.mutant == Some(shardine_records::Mutant::ThroughBeforeWritten) {
                wanted.keys().for_each(|row| held.confirm(row));
                actions.answers.push((caller, held.answer));
                continue;
            }
            self.wait_for_sql(caller, wanted.into_iter().collect(), Some(held), hold.until_ms, actions);
        }
        self.pursue_lease();
        self.write_back(actions);
    }
}

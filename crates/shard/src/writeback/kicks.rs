//! Kicks: records that leave memory once SQL has them, because somebody asked for it.

use std::collections::BTreeSet;

use shardine_model::{Answer, Entry, ErrorCode, RowKey, RowKeyBuf, Version};
use shardine_records::Lookup;

use crate::actions::{Actions, Caller};
use crate::gather::Then;
use crate::replica::Replica;

#[derive(Debug, Default)]
pub(crate) struct Kicks {
    waiting: Vec<(Caller, RowKeyBuf)>,
    /// Those whose row SQL did not take, and why: told at the next look (records 29).
    failed: Vec<(Caller, ErrorCode)>,
    /// Rows whose kick is on its way through the log.
    proposed: BTreeSet<RowKeyBuf>,
}

impl Kicks {
    #[inline]
    pub fn is_kicking(&self, row: RowKey<'_>) -> bool {
        !self.proposed.is_empty() && self.proposed.contains(&row.to_owned())
    }

    /// A row is on its way out; `false` if it was already.
    pub fn begin(&mut self, row: RowKeyBuf) -> bool {
        self.proposed.insert(row)
    }

    pub fn are_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        self.proposed.clear();
        let waiting = self.waiting.drain(..).map(|(caller, _)| caller);
        waiting.chain(self.failed.drain(..).map(|(caller, _)| caller)).collect()
    }

    /// Those that have not begun, for another shard.
    pub fn send_away(&mut self) -> impl Iterator<Item = Caller> + '_ {
        self.waiting.drain(..).map(|(caller, _)| caller)
    }

    /// SQL did not take the row: it stays, dirty, and whoever waits to kick it hears so.
    pub fn fail(&mut self, row: &RowKeyBuf, code: ErrorCode) {
        let failed = self.waiting.extract_if(.., |(_, kicked)| kicked == row);
        self.failed.extend(failed.map(|(caller, _)| (caller, code)));
    }
}

impl Replica {
    /// Drops a record from memory once SQL has it. Not in memory is done already, without a load (records 27-29). One with a
    /// time to live stays, because SQL does not keep it (records 136).
    pub fn kick(&mut self, caller: Caller, row: RowKey<'_>, nowait: bool, actions: &mut Actions) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        if self.is_stray(caller, row, actions) {
            return;
        }
        let is_dirty = match self.records.get(row.position(), row) {
            Lookup::NotResident => return actions.answers.push((caller, Answer::Many(Vec::new()))),
            Lookup::UnknownTable => return actions.answers.push((caller, Answer::Failed(ErrorCode::UnknownTable))),
            Lookup::Live(view) if view.expires_at.is_some() => {
                return actions.answers.push((caller, Answer::Failed(ErrorCode::Unsupported)));
            }
            Lookup::Live(view) => view.version != view.sql_version,
            Lookup::Absent { version, sql_version } => version != sql_version,
        };
        if !self.records.is_sql_table(row.table) {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Unsupported)));
        }
        if is_dirty && nowait {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Busy)));
        }
        if is_dirty {
            self.writeback.hurry(row.to_owned(), self.time.monotonic_ms);
        }
        self.writeback.kicks.waiting.push((caller, row.to_owned()));
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
        self.try_kicks(actions);
        // Else what was proposed would lie until something else happens to the group.
        self.drain(actions);
    }

    /// Proposes kicks of rows that are clean now. Locked until the lease is held: before that another
    /// leader's statement may be under way (write-back 83). A row with a command on its way is not kicked from under it: the command would have
    /// to load it and start again, and those that came after it would have gone ahead by then (records 52).
    pub(crate) fn try_kicks(&mut self, actions: &mut Actions) {
        actions.answers.extend(self.writeback.waits.take_refused());
        let failed = self.writeback.kicks.failed.drain(..);
        actions.answers.extend(failed.map(|(caller, code)| (caller, Answer::Failed(code))));
        if self.writeback.kicks.waiting.is_empty() || !self.writeback.lease.is_held(self.time.monotonic_ms) {
            return;
        }
        let mut still_waiting = Vec::new();
        for (caller, row) in std::mem::take(&mut self.writeback.kicks.waiting) {
            let clean = match self.records.get(row.as_ref().position(), row.as_ref()) {
                #[cfg(feature = "mutants")]
                Lookup::Live(view) if self.options.mutant == Some(shardine_records::Mutant::KickDirty) => {
                    Some(view.version)
                }
                Lookup::Live(_) | Lookup::Absent { .. } if self.is_touched(row.as_ref()) => None,
                Lookup::Absent { .. } if self.writeback.is_purging(row.as_ref()) => None,
                // It got a time to live while it was on its way to SQL.
                Lookup::Live(view) if view.expires_at.is_some() => {
                    actions.answers.push((caller, Answer::Failed(ErrorCode::Unsupported)));
                    continue;
                }
                Lookup::Live(view) if view.version == view.sql_version => Some(view.version),
                Lookup::Absent { version, sql_version } if version == sql_version => Some(version),
                Lookup::Live(_) | Lookup::Absent { .. } => None,
                Lookup::NotResident | Lookup::UnknownTable => {
                    actions.answers.push((caller, Answer::Many(Vec::new())));
                    continue;
                }
            };
            let Some(version) = clean.filter(|_| self.writeback.kicks.proposed.insert(row.clone())) else {
                still_waiting.push((caller, row));
                continue;
            };
            self.left.kicked += 1;
            let entry = Entry::Kick(vec![(row.as_ref(), version)]);
            let then = Then::Kicked(vec![(row.clone(), version)]);
            if !self.propose(&entry, vec![caller], then) {
                actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
            }
        }
        self.writeback.kicks.waiting.extend(still_waiting);
    }

    pub(crate) fn finish_kicks(&mut self, rows: &[(RowKeyBuf, Version)], callers: Vec<Caller>, actions: &mut Actions) {
        for (row, _) in rows {
            self.writeback.kicks.proposed.remove(row);
            let stayed = !matches!(self.records.get(row.as_ref().position(), row.as_ref()), Lookup::NotResident);
            for &caller in &callers {
                if self.is_stray(caller, row.as_ref(), actions) {
                    continue;
                }
                if !stayed {
                    actions.answers.push((caller, Answer::Many(Vec::new())));
                } else if self.member.leads() {
                    // A change came between; the kick waits for SQL again.
                    self.writeback.hurry(row.clone(), self.time.monotonic_ms);
                    self.writeback.kicks.waiting.push((caller, row.clone()));
                } else {
                    actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
                }
            }
            self.release(std::slice::from_ref(row), actions);
        }
        self.try_kicks(actions);
    }
}

//! Batches on their way to SQL, and what SQL says to them.

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{ChangedFields, Entry, RowKey, RowKeyBuf, Table, TableId, Version, WriteMode, limits};
use shardine_records::{Lookup, Records};

use super::dead_letters::Rejections;
use super::queue::{Queue, Sent, Urgency};
use crate::actions::{Actions, LogProgress, SqlWrite, Trouble};
use crate::gather::Then;
use crate::replica::Replica;

/// How long a row that nobody waits for may wait because lanes are busy, beyond its delay. Longer, and SQL would fall behind
/// without end where requests never cease.
const PATIENCE_MS: u64 = 10_000;

/// The next rows of a table.
#[derive(Default)]
struct Batch {
    rows: Vec<FlushRow>,
    is_awaited: bool,
}

impl Replica {
    /// Sends the next batch of every table that has rows due and none under way, if the lease is held. Whether it is or
    /// not, a new leader goes on looking for what it has to send.
    pub(crate) fn write_back(&mut self, actions: &mut Actions) {
        let now = self.time.monotonic_ms;
        self.look_through_inherited();
        if !self.is_serving() || !self.writeback.lease.is_held(now) {
            return;
        }
        let tables: Vec<TableId> = self.writeback.tables.keys().copied().collect();
        for table in tables {
            // Asked again for every table: while SQL is down, one probe goes out and the others wait for it.
            if !self.writeback.health.may_try(now) {
                return;
            }
            if self.records.catalogue().get(table).is_none() {
                // Dropped, and its rows with it: nobody can wait for them any longer.
                self.writeback.tables.remove(&table);
                self.finish_waits(actions);
                continue;
            }
            let Batch { rows, is_awaited } = self.next_batch(table, now);
            if !rows.is_empty() {
                self.writeback.health.sent();
                let begin_by_ms = self.writeback.lease.trusted_until_ms();
                let progress = self.log_progress();
                actions.writes.push(SqlWrite { term: self.term(), table, rows, begin_by_ms, is_awaited, progress });
            }
        }
    }

    /// How far this leader's log has come, and how far it had come without it.
    #[must_use]
    pub fn log_progress(&self) -> LogProgress {
        LogProgress { applied: self.applied(), inherited: self.member.inherited() }
    }

    /// The next rows of a table, within its batch and the limits of rows and bytes.
    fn next_batch(&mut self, table: TableId, now: u64) -> Batch {
        let mut batch = Batch { rows: Vec::new(), is_awaited: self.is_above_soft_limit() };
        let Some(definition) = self.records.catalogue().get(table) else { return batch };
        let late_since = now.checked_sub(u64::from(definition.sql.delay_ms) + PATIENCE_MS);
        let due_until = self.due_until_ms(definition);
        let parents_since = self.parents_since_ms(definition, now);
        let deletes_from_ms = self.deletes_from_ms(definition);
        let rows_max = self.writeback.health.rows_max().min(definition.sql.batch.max(1) as usize);
        let queue = self.writeback.tables.get_mut(&table).expect("named by the caller");
        if queue.under_way() > 0 || queue.pause.holds(now, definition.version) || definition.sql.is_read_only() {
            return batch;
        }
        let mut bytes = 0;
        let may_go = |queue: &Queue| match (parents_since, queue.next_due(now, due_until)) {
            (Some(parents), Some(row)) => queue.since_ms(row) < Some(parents),
            (_, next) => next.is_some(),
        };
        while batch.rows.len() < rows_max
            && may_go(queue)
            && let Some((row, mark)) = queue.pop_due(now, due_until)
        {
            let Some(flush) = dirty_image(&self.records, row) else { continue };
            // What SQL has refused goes there again when it has changed, or when somebody asks for it.
            if mark.place == Urgency::Patient && self.records.is_dead(&flush.row, flush.version) {
                continue;
            }
            if !flush.version.is_live() && now < deletes_from_ms {
                queue.file(flush.row, Urgency::PutOff { until_ms: deletes_from_ms }, mark.since_ms);
                continue;
            }
            bytes += flush.fields.packed.len();
            if bytes > limits::FLUSH_BYTES_MAX && !batch.rows.is_empty() {
                queue.file(flush.row, mark.place, mark.since_ms);
                break;
            }
            let sent = Sent { version: flush.version, place: mark.place, since_ms: mark.since_ms };
            queue.send(flush.row.clone(), sent);
            batch.is_awaited |= queue.is_awaited(&mark) || Some(mark.since_ms) <= late_since;
            batch.rows.push(flush);
        }
        batch
    }

    /// Whether a row's time has come, so that the lease is worth asking for.
    pub(crate) fn wants_lease(&self) -> bool {
        let now = self.time.monotonic_ms;
        let is_due = |(table, queue): (&TableId, &Queue)| {
            let definition = self.records.catalogue().get(*table);
            definition.is_some_and(|definition| queue.next_due(now, self.due_until_ms(definition)).is_some())
        };
        self.writeback.kicks.are_wanted()
            || self.wants_to_shed()
            || self.wants_to_purge()
            || self.writeback.tables.iter().any(is_due)
    }

    /// SQL has answered for these rows. Confirmed ones are told to all replicas; the others are tried again.
    pub fn flushed(&mut self, term: u64, results: &[(RowKeyBuf, FlushResult)], actions: &mut Actions) {
        if term != self.term() || !self.is_serving() {
            return;
        }
        self.writeback.health.succeeded();
        let mut written: Vec<(RowKey<'_>, Version)> = Vec::new();
        let mut rejections = Rejections::default();
        for (row, result) in results {
            let Some(queue) = self.writeback.tables.get_mut(&row.table) else { continue };
            let Some(sent) = queue.returned(row) else { continue };
            match result {
                FlushResult::Written => {
                    queue.written += 1;
                    queue.pause.end();
                    written.push((row.as_ref(), sent.version));
                }
                #[cfg(feature = "mutants")]
                FlushResult::Newer(_) if self.options.mutant == Some(shardine_records::Mutant::ConflictIsWritten) => {
                    written.push((row.as_ref(), sent.version));
                }
                FlushResult::Newer(held) => rejections.newer.push((row.clone(), sent, *held)),
                FlushResult::Refused(message) => rejections.refused.push((row.clone(), sent, message.clone())),
                FlushResult::Orphan(message) => rejections.orphans.push((row.clone(), sent, message.clone())),
            }
        }
        if !written.is_empty() {
            let rows = written.iter().map(|&(row, _)| row.to_owned()).collect();
            self.propose(&Entry::Written(written), Vec::new(), Then::Written(rows));
        }
        self.take_up(rejections, actions);
        self.drain(actions);
        self.write_back(actions);
        self.advance_hand_over(actions);
    }

    /// The whole batch failed, or nobody knows whether it did: it is written again, which is harmless (write-back 93). One
    /// that found no room goes again soon, and whoever waits for its rows waits on.
    pub fn flush_failed(&mut self, term: u64, rows: &[RowKeyBuf], trouble: &Trouble) {
        if term != self.term() || !self.is_serving() {
            return;
        }
        for row in rows {
            let Some(queue) = self.writeback.tables.get_mut(&row.table) else { continue };
            let Some(sent) = queue.returned(row) else { continue };
            #[cfg(feature = "mutants")]
            if self.options.mutant == Some(shardine_records::Mutant::UnknownCountsAsWritten) {
                let then = Then::Written(vec![row.clone()]);
                self.propose(&Entry::Written(vec![(row.as_ref(), sent.version)]), Vec::new(), then);
                continue;
            }
            queue.file(row.clone(), sent.place, sent.since_ms);
            if trouble.was_sent() {
                self.writeback.kicks.fail(row, trouble.code());
            }
        }
        if trouble.was_sent() {
            self.writeback.purges.lost_sight(self.time.monotonic_ms);
        }
        if let Some(row) = rows.first() {
            self.note_trouble(row.table, trouble);
        }
    }

    /// Trouble of the database makes all tables wait, trouble of a table that one (write-back 111, 112).
    fn note_trouble(&mut self, table: TableId, trouble: &Trouble) {
        let now = self.time.monotonic_ms;
        let definition = self.records.catalogue().get(table).map_or(0, |table| table.version);
        let salt = self.salt();
        let queue = self.writeback.tables.entry(table).or_default();
        queue.last_trouble = Some(trouble.clone());
        if trouble.is_of_the_database() {
            self.writeback.health.failed(now, salt);
        } else {
            queue.pause.begin(now, definition, trouble.class);
            self.writeback.health.settled();
        }
    }

    /// Rows of the table that became dirty by then have waited long enough for more changes (write-back 108); `None` if
    /// all wait until they are called. A row of a table that comes after it calls those that must go before it.
    fn due_until_ms(&self, definition: &Table) -> Option<u64> {
        let now = self.time.monotonic_ms;
        let own = match definition.sql.mode {
            _ if self.is_above_soft_limit() => Some(now),
            WriteMode::Behind | WriteMode::Through => now.checked_sub(u64::from(definition.sql.delay_ms)),
            WriteMode::OnEvict => None,
        };
        let called = self.children(definition).filter_map(|child| {
            let queue = self.writeback.tables.get(&child.id)?;
            queue.last_due_ms(self.due_until_ms(child))
        });
        called.chain(own).max()
    }

    /// What tells this replica's pauses from those of others.
    pub(crate) fn salt(&self) -> (u64, u64) {
        (self.options.replica.0 << 32 | u64::from(self.options.shard.0), self.term())
    }
}

/// The newest state of a row that SQL does not have.
pub(super) fn dirty_image(records: &Records, row: RowKeyBuf) -> Option<FlushRow> {
    if !records.is_sql_table(row.table) {
        return None;
    }
    match records.get(row.as_ref().position(), row.as_ref()) {
        Lookup::Live(view) if view.version != view.sql_version => {
            let changed = if view.sql_version.is_live() { view.changed } else { ChangedFields::ALL };
            Some(FlushRow { version: view.version, fields: view.fields.to_image(), changed, row })
        }
        Lookup::Absent { version, sql_version } if version != sql_version => {
            Some(FlushRow { version, fields: Default::default(), changed: ChangedFields::ALL, row })
        }
        Lookup::Live(_) | Lookup::Absent { .. } | Lookup::NotResident | Lookup::UnknownTable => None,
    }
}

/// The same without the row's content: the version that SQL does not have.
pub(super) fn dirty_version(records: &Records, row: &RowKeyBuf) -> Option<Version> {
    if !records.is_sql_table(row.table) {
        return None;
    }
    let (version, sql_version) = match records.get(row.as_ref().position(), row.as_ref()) {
        Lookup::Live(view) => (view.version, view.sql_version),
        Lookup::Absent { version, sql_version } => (version, sql_version),
        Lookup::NotResident | Lookup::UnknownTable => return None,
    };
    (version != sql_version).then_some(version)
}

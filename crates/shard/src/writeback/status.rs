//! The write-back in numbers, for `status`. What only a leader can know is zero elsewhere.

use shardine_model::{Backing, Table, TableId};

use super::queue::Queue;
use crate::actions::Trouble;
use crate::replica::Replica;

/// How far SQL is behind in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStatus {
    pub table: TableId,
    pub dirty_rows: u64,
    pub dirty_bytes: u64,
    /// Rows that a leader has marked for SQL; dead letters are not among them.
    pub queued_rows: u64,
    pub under_way_rows: u64,
    /// How long the row that waits longest has been dirty, as far as this leader has seen. 0 if none waits.
    pub oldest_dirty_ms: u64,
    /// Rows that SQL has confirmed since this leader took over.
    pub written_rows: u64,
    /// Rows that SQL held in a version of somebody else's, in the same time (write-back 117).
    pub conflicts: u64,
    pub dead_letters: u64,
    /// Refusals that found the list of dead letters full; those rows are tried again and again.
    pub unlisted_refusals: u64,
    pub last_trouble: Option<Trouble>,
    /// How long until the next try, if SQL is being left alone.
    pub paused_ms: u64,
}

impl Replica {
    /// One line per table with SQL behind it.
    #[must_use]
    pub fn writeback_status(&self) -> Vec<TableStatus> {
        let tables = self.records.catalogue().tables().filter(|table| table.backing == Backing::Sql);
        tables.map(|table| self.table_status(table)).collect()
    }

    fn table_status(&self, table: &Table) -> TableStatus {
        let (now, dirty) = (self.time.monotonic_ms, self.records.dirty(Some(table.id)));
        let mut status = TableStatus {
            table: table.id,
            dirty_rows: dirty.rows,
            dirty_bytes: dirty.bytes,
            dead_letters: self.records.dead_letters().filter(|(row, _)| row.table == table.id).count() as u64,
            ..TableStatus::default()
        };
        let until = match self.writeback.tables.get(&table.id) {
            None => self.writeback.health.paused_until_ms(),
            Some(queue) => {
                fill_in(&mut status, queue, now);
                queue.pause.until_ms(now, table.version).max(self.writeback.health.paused_until_ms())
            }
        };
        status.paused_ms = until.map_or(0, |until| until.saturating_sub(now));
        status
    }
}

fn fill_in(status: &mut TableStatus, queue: &Queue, now_ms: u64) {
    status.queued_rows = queue.len() as u64;
    status.under_way_rows = queue.under_way() as u64;
    status.oldest_dirty_ms = queue.oldest_since_ms().map_or(0, |since| now_ms.saturating_sub(since));
    status.written_rows = queue.written;
    status.conflicts = queue.conflicts;
    status.unlisted_refusals = queue.unlisted;
    status.last_trouble.clone_from(&queue.last_trouble);
}

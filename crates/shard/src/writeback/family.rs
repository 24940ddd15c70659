//! Parents before children: tables whose rows refer to rows of other tables in SQL (write-back 107).
//!
//! Inside a shard, what became dirty in a parent goes to SQL before what became dirty in a child at the same time or later.
//! A parent's row may be another shard's, and then nobody here knows of it: SQL refuses the child's row, which is tried again,
//! later and later, and never becomes a dead letter. Knows no foreign keys, only which table comes after which.

use std::sync::Arc;

use shardine_model::sql::Class;
use shardine_model::{Entry, RowKeyBuf, Table, Version};

use super::queue::{Sent, Urgency};
use crate::actions::Trouble;
use crate::gather::Then;
use crate::replica::Replica;

/// A row that waits for its parent is tried again when it has waited twice as long, within these limits.
const ORPHAN_FIRST_MS: u64 = 50;
const ORPHAN_LAST_MS: u64 = 10_000;

/// How long a row that was deleted waits for rows that refer to it to be deleted in SQL as well. Then it is a dead letter: they
/// may be others', and stay for ever.
const REFERRED_MS: u64 = 30_000;

impl Replica {
    /// Tables that come after this one. They were made later, so going from child to child ends.
    pub(super) fn children(&self, definition: &Table) -> impl Iterator<Item = &Arc<Table>> {
        let parent = definition.id;
        self.records.catalogue().children(&definition.name).filter(move |child| child.id > parent)
    }

    /// Since when the oldest row is dirty that the table's parents will bring to SQL: rows that became dirty then or later
    /// wait for it. A parent that SQL does not take at the moment holds up nobody: its rows may be years old.
    pub(super) fn parents_since_ms(&self, definition: &Table, now_ms: u64) -> Option<u64> {
        let parents = definition.sql.after.iter().filter(|name| **name != definition.name);
        let queues = parents.filter_map(|name| {
            let parent = self.records.catalogue().named(name)?;
            let queue = self.writeback.tables.get(&parent.id)?;
            (!queue.pause.holds(now_ms, parent.version)).then_some(queue)
        });
        queues.filter_map(|queue| queue.first_to_come_ms()).chain(self.unseen_parents_since_ms(definition)).min()
    }

    /// Rows whose parent SQL does not have come again later, and so do rows that cannot be deleted because others refer to them:
    /// their own deletion may be on its way. Gives those of which that is no longer to be expected.
    pub(super) fn keep_orphans(&mut self, orphans: Vec<(RowKeyBuf, Sent, String)>) -> Vec<(RowKeyBuf, Sent, String)> {
        let (now, is_quiet) = (self.time.monotonic_ms, self.is_quiet());
        let (mut unborn, mut referred) = (Vec::new(), Vec::new());
        for (row, sent, message) in orphans {
            let is_guest = self.records.catalogue().get(row.table).is_some_and(|table| table.sql.is_guest());
            let waited = now.saturating_sub(sent.since_ms);
            if is_guest && !sent.version.is_live() && waited > REFERRED_MS {
                referred.push((row, sent, message));
                continue;
            }
            let queue = self.writeback.tables.entry(row.table).or_default();
            queue.last_trouble = Some(Trouble { class: Class::Row, message });
            if !sent.version.is_live() && is_quiet && !is_guest {
                unborn.push((row, sent.version));
                continue;
            }
            let until_ms = now + waited.clamp(ORPHAN_FIRST_MS, ORPHAN_LAST_MS);
            queue.file(row, Urgency::PutOff { until_ms }, sent.since_ms);
        }
        self.forget_unborn(&unborn);
        referred
    }

    /// Rows that were deleted before SQL ever had them, and whose tombstone it cannot take: it refers to nothing. SQL is as
    /// it should be without. As with a purge, first the floor of the table sees to it that no version is used twice, and it
    /// must be quiet: a late statement could still bring the row.
    fn forget_unborn(&mut self, rows: &[(RowKeyBuf, Version)]) {
        for (row, version) in rows {
            let entry = Entry::Floor { table: row.table, floor: version.magnitude() };
            self.propose(&entry, Vec::new(), Then::Answer);
            self.propose(&Entry::Written(vec![(row.as_ref(), *version)]), Vec::new(), Then::Written(vec![row.clone()]));
        }
    }
}

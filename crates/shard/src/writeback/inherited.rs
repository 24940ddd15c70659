//! Rows that were dirty when this leader took over (write-back 84). Nobody has a list of them: they are looked for, segment
//! by segment and some at every turn, so that a new leader serves at once however far SQL is behind.

use shardine_model::{Bound, Table};

use crate::replica::Replica;

/// Rows that one turn marks, or a few more, because a segment is looked through as a whole: some milliseconds' work, and
/// more than SQL takes between two ticks.
const ROWS_PER_TURN: usize = 4_096;

/// How far the search has come.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// Nothing behind this place has been looked at.
    from: Bound,
    /// When this leader took over: since when the rows are dirty, as far as it knows.
    since_ms: u64,
}

impl Inherited {
    pub fn since(since_ms: u64) -> Self {
        Self { from: Bound::default(), since_ms }
    }
}

impl Replica {
    /// Marks the next rows. One that SQL gets before the search comes to it is clean by then, or has changed again.
    pub(crate) fn look_through_inherited(&mut self) {
        let Some(Inherited { from, since_ms }) = self.writeback.inherited.take() else { return };
        let mut dirty = Vec::new();
        let rest = self.records.dirty_from(&from, ROWS_PER_TURN, &mut dirty);
        dirty.iter().for_each(|dirty| self.writeback.mark(dirty.row.as_ref(), since_ms));
        self.writeback.inherited = rest.map(|from| Inherited { from, since_ms });
    }

    /// Rows of this table that became dirty then or later wait: among what was not looked through yet there may be rows of
    /// its parents (write-back 107).
    pub(super) fn unseen_parents_since_ms(&self, definition: &Table) -> Option<u64> {
        let has_parents = definition.sql.after.iter().any(|name| *name != definition.name);
        self.writeback.inherited.as_ref().filter(|_| has_parents).map(|inherited| inherited.since_ms)
    }
}

//! What a program is shown: rows as they are applied, where nobody changes them at the moment. It may be shown what a new leader
//! elsewhere has changed already, for nothing that it comes to counts before the log has taken it, under the versions that it saw.

use shardine_model::{Position, RowKey};
use shardine_records::Lookup;

use crate::replica::Replica;

impl Replica {
    /// A row, if it is at hand. Else it is asked for with [`Replica::read`].
    #[must_use]
    pub fn peek(&self, position: Position, row: RowKey<'_>) -> Option<Lookup<'_>> {
        let is_here =
            self.is_serving() && !self.records.is_suspended() && self.records.bounds().contains(position, row);
        if !is_here || self.is_touched(row) {
            return None;
        }
        match self.records.get(position, row) {
            Lookup::Live(view) if view.expires_at.is_some_and(|at| at <= self.stamp()) => None,
            found @ (Lookup::Live(_) | Lookup::Absent { .. }) => {
                self.evictor.touch(row);
                Some(found)
            }
            Lookup::NotResident | Lookup::UnknownTable => None,
        }
    }

    /// Whether what it shows is what is: nobody else could have been elected.
    #[must_use]
    pub fn may_answer_at_once(&self) -> bool {
        self.may_read_at_once()
    }
}

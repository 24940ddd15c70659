//! What goes wrong for records only: SQL, and what operators do.

use shardine_model::{Bound, Entry};

use crate::ground::{MS, SECOND};
use crate::records::event::Event;
use crate::records::{NOBODY, Records};
use crate::tenant::Own;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    SqlDown,
    SqlUnreachable,
    /// Somebody outside changes a row in SQL.
    SqlEdited,
    /// An operator suspends a shard, and resumes it later.
    Suspend,
    /// An operator gives a dead letter up.
    Discard,
    /// A shard is to be split: where its data has its middle, or at some row.
    Split,
}

impl Own for Fault {
    const ALL: &'static [Self] = &[Self::SqlDown, Self::SqlUnreachable, Self::SqlEdited, Self::Suspend, Self::Discard];
}

impl World<Records> {
    pub fn strike_records(&mut self, fault: Fault, victim: usize) {
        let now = self.now;
        match fault {
            Fault::SqlDown => self.tenant.sql.go_down(now + self.chance.between((200 * MS, 6 * SECOND))),
            Fault::SqlUnreachable => {
                self.tenant.sql.cut_off(victim, now + self.chance.between((200 * MS, 6 * SECOND)));
            }
            Fault::SqlEdited => {
                let row = self.chance.index(self.tenant.universe.rows.len());
                let key = self.tenant.universe.rows[row].key.clone();
                self.tenant.counters.sql_edits += u64::from(self.tenant.sql.edit(&key));
            }
            Fault::Suspend => {
                let living = self.living();
                let shard = self.chance.pick(&living);
                self.operate(shard, &Entry::Suspend);
                let length = self.chance.between((50 * MS, 1_500 * MS));
                self.later(length, Event::ResumeShard { shard }.into());
            }
            Fault::Split => self.split_shard(),
            Fault::Discard => {
                let living = self.living();
                let shard = self.chance.pick(&living);
                self.discard_letter(shard);
            }
        }
    }

    fn split_shard(&mut self) {
        let row = self.chance.index(self.tenant.universe.rows.len());
        let shard = self.tenant.watch.truth.owner(row);
        let middle = self.leader_of(shard).and_then(|leader| self.nodes[leader].replicas[shard].records().middle());
        let at = middle.filter(|_| self.chance.percent(30));
        let at = at.unwrap_or_else(|| Bound::at(self.tenant.universe.rows[row].key.as_ref().position()));
        self.split_some(shard, at);
    }

    /// An operator speaks to whoever leads the shard, if anybody does.
    pub fn operate(&mut self, shard: usize, entry: &Entry<'_>) {
        let Some(leader) = self.leader_of(shard) else { return };
        self.tenant.counters.suspensions += u64::from(*entry == Entry::Suspend);
        self.note(&[15, shard as u64, leader as u64], || format!("node {} is to {entry:?} shard {shard}", leader + 1));
        self.drive(leader, shard, |replica, actions| replica.propose_for(NOBODY, entry, actions));
    }

    /// An operator gives up the first dead letter of a shard: what SQL holds takes the row's place.
    pub fn discard_letter(&mut self, shard: usize) {
        let Some(leader) = self.leader_of(shard) else { return };
        let records = self.nodes[leader].replicas[shard].records();
        let Some(row) = records.dead_letters().next().map(|(row, _)| row.to_owned()) else { return };
        self.tenant.counters.discards += 1;
        self.note(&[17, shard as u64, leader as u64], || format!("node {} is to discard {row:?}", leader + 1));
        self.drive(leader, shard, |replica, actions| replica.discard_dead_letter(NOBODY, row.as_ref(), actions));
    }
}

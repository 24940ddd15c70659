//! Definitions in a cluster: what a shard has applied, its node knows; and whoever leads a shard that lacks one that the node
//! knows teaches it. So a definition that the home shard has comes everywhere, whoever dies on the way.

use std::collections::{BTreeMap, BTreeSet};

use shardine_host::SeatId;
use shardine_model::{Catalogue, Entry, Table};
use shardine_router::ShardAsk;
use shardine_shard::Replica;

use super::core::Core;
use crate::lane_message::LaneMessage;

#[derive(Default)]
pub(crate) struct Definitions {
    /// How often each seat's definitions had changed when they were last looked at.
    seen: BTreeMap<SeatId, u64>,
    /// Seats that may lack something.
    owed: BTreeSet<SeatId>,
    /// One of this lane's shards has told the tables that were there when the node started.
    are_known: bool,
}

impl Definitions {
    pub fn owe(&mut self, seat: SeatId) {
        self.owed.insert(seat);
    }
}

impl Core {
    /// Tells the node what a shard of this lane has learned.
    pub(super) fn note_definitions(&mut self, seat: SeatId) {
        if self.exchange.cluster.is_none() {
            return;
        }
        let Some(replica) = self.host.replica(seat) else { return };
        let held = replica.records().catalogue();
        if self.definitions.seen.insert(seat, held.changes()) != Some(held.changes()) {
            self.exchange.learn(held);
        }
    }

    /// After a start in a cluster, a definition in a replica's log counts when the leader says that it is committed; one that was
    /// made meanwhile comes from there as well. Every shard has each definition before its table is said to be there, so one
    /// that has caught up is enough.
    pub fn look_for_tables(&mut self) {
        if self.definitions.are_known || self.exchange.cluster.is_none() {
            return;
        }
        let mut seats = self.host.seats().filter_map(|seat| self.host.seat_of(seat.shard));
        let caught_up = seats.find(|seat| self.host.replica(*seat).is_some_and(Replica::has_caught_up));
        drop(seats);
        if let Some(seat) = caught_up {
            self.note_definitions(seat);
            self.definitions.are_known = true;
            self.exchange.tell_lanes(|| LaneMessage::TablesKnown);
        }
    }

    /// There may be something that shards of this lane lack.
    pub(super) fn teach_all(&mut self) {
        if self.exchange.cluster.is_some() {
            let seats = self.host.seats().filter_map(|seat| self.host.seat_of(seat.shard));
            self.definitions.owed = seats.collect();
            self.teach();
        }
    }

    /// Teaches the shards that this node leads what they lack.
    pub fn teach(&mut self) {
        for seat in self.definitions.owed.clone() {
            let Some(replica) = self.host.replica(seat) else { continue };
            if !replica.is_serving() {
                continue;
            }
            let (shard, lacking) = (replica.shard(), lacking(replica.records().catalogue(), &self.catalogue));
            self.definitions.owed.remove(&seat);
            for table in lacking {
                let entry = Entry::definition(table).to_bytes();
                self.ask_shard(shard, ShardAsk::Propose { entry }, Box::new(|_| {}));
            }
        }
    }
}

/// Definitions that one catalogue has and another has not, or not so new.
fn lacking(held: &Catalogue, known: &Catalogue) -> Vec<Table> {
    let version = |table: &Table| held.definitions().find(|held| held.id == table.id).map(|held| held.version);
    let is_new = |table: &&std::sync::Arc<Table>| version(table).is_none_or(|held| held < table.version);
    known.definitions().filter(is_new).map(|table| Table::clone(table)).collect()
}

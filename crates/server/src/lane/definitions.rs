//! Definitions in a cluster: they come with the map, and whoever leads a shard that lacks one teaches it.

use std::collections::BTreeSet;

use shardine_host::SeatId;
use shardine_model::{Catalogue, Entry, Table};
use shardine_router::ShardAsk;
use shardine_shard::Replica;

use super::core::Core;
use crate::lane_message::LaneMessage;

#[derive(Default)]
pub(crate) struct Definitions {
    /// The number of the node's catalogue that this lane has.
    seen: u64,
    /// Seats that may lack something.
    owed: BTreeSet<SeatId>,
    /// Whether what was there when the node started is known.
    are_known: bool,
}

impl Definitions {
    pub fn owe(&mut self, seat: SeatId) {
        self.owed.insert(seat);
    }
}

impl Core {
    /// Takes the node's definitions if there are others. Asked when bytes of a client have been read, and not only when a message
    /// says so: whoever was told that a table is there may name it on any lane, and before the lane has come to its messages.
    #[inline]
    pub fn see_definitions(&mut self) {
        let changes = self.exchange.catalogue.changes();
        if changes != self.definitions.seen {
            self.take_definitions(changes);
        }
    }

    #[cold]
    fn take_definitions(&mut self, changes: u64) {
        self.definitions.seen = changes;
        self.catalogue = self.exchange.catalogue.get();
        self.teach_all();
    }

    /// After a start in a cluster the map on disk may be old. Whoever keeps the map hears from its leader how far it is; where there
    /// is no leader, a shard that has caught up tells: each had every definition before its table was said to be there.
    pub fn look_for_tables(&mut self) {
        if self.definitions.are_known || self.exchange.cluster.is_none() {
            return;
        }
        let known = self.catalogue.version();
        let tells = |replica: &Replica| replica.has_caught_up() && replica.records().catalogue().version() <= known;
        if self.host.replicas().any(tells) {
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
                // All of them under the newest version: whoever has read by it may come as soon as the first is there, and finds
                // the others behind it in the log.
                let entry = Entry::Schema { catalogue: self.catalogue.version(), table: Box::new(table) }.to_bytes();
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

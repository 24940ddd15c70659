//! The map's way: from the replica or from whoever leads to this node's disk, then to the rest of the node; and, of a leader, what it
//! does about the map and how the other nodes hear of it.

use std::sync::Arc;

use shardine_model::{ErrorCode, NodeId, Refusal, ShardId};
use shardine_shard::Restored;
use shardine_shard::meta::{BadDelta, Delta, Feed, Followers, Meta, Move, Options, Replica, Ticket, Work, work_of};
use shardine_store::NodeFile;

use super::MetaThread;
use crate::atlas::Sheet;
use crate::lane_message::LaneMessage;
use crate::peers::{Content, ControlMessage, Parcel};

/// Ticks between two looks at what should be done: at operations, and at the whole map.
const WORK_TICKS: u64 = 2;
const PLAN_TICKS: u64 = 10;

impl MetaThread {
    /// What whoever leads does beside its ticks: begins the map, plans, works on its own group, and tells the others.
    pub(super) fn lead(&mut self) {
        let (ticks, sheet) = (self.ticks, Arc::clone(&self.sheet));
        self.ask_for_load();
        let Some(seat) = self.seat() else { return };
        let at = self.parts.host.time().wall;
        let sight = ticks.is_multiple_of(PLAN_TICKS).then(|| self.sight(&sheet.full));
        sight.iter().for_each(|sight| self.spread_leads(sight));
        self.parts.host.act(seat, |replica, actions| {
            if !replica.map().is_formed() {
                if !replica.wants_proposal() {
                    replica.submit(Ticket::NOBODY, &sheet.init(), actions);
                }
                return;
            }
            if let Some(sight) = sight {
                for Move { command, why, .. } in replica.plan(&sight, at, actions) {
                    tracing::info!(?command, why, "planned");
                }
            }
            if !ticks.is_multiple_of(WORK_TICKS) {
                return;
            }
            match work_of(replica.map(), ShardId::META, replica.group()) {
                Some(Work::Change(change)) => drop(replica.change_members(&change, actions)),
                Some(Work::Report(command)) => replica.submit(Ticket::NOBODY, &command, actions),
                Some(Work::HandOver(heir)) if !replica.is_handing_over() => {
                    let _ = replica.hand_over(Some(heir), actions);
                }
                // Only shards of records are split.
                Some(Work::HandOver(_) | Work::Split(..)) => {}
                None => {}
            }
        });
        self.feed();
    }

    /// Sends every node what it lacks of the map.
    fn feed(&mut self) {
        if !self.is_ready() {
            return;
        }
        let heard = &self.heard;
        let mut followers = self.followers.take().unwrap_or_else(|| {
            let mut followers = Followers::default();
            heard.iter().for_each(|(node, version)| followers.heard(*node, *version));
            followers
        });
        let now_ms = self.now_ms();
        if let Some(replica) = self.replica() {
            for node in self.parts.book.peers() {
                match followers.due(replica.meta(), node, now_ms) {
                    Feed::Nothing => {}
                    Feed::Delta { from, to, change } => {
                        if let Some(control) = self.cluster().control.get() {
                            control.send(ControlMessage::Delta { node, from, to, change });
                        }
                    }
                    Feed::Whole { version, map } => {
                        self.parts.bulk.send(Parcel { node, content: Content::Map { version, map } });
                    }
                }
            }
        }
        self.followers = Some(followers);
    }

    pub(super) fn hear_version(&mut self, node: NodeId, version: u64) {
        self.heard.insert(node, version);
        if let Some(followers) = &mut self.followers {
            followers.heard(node, version);
        }
        self.feed();
    }

    pub(super) fn hear_delta(&mut self, bytes: &[u8]) {
        let mut map = self.sheet.full.clone();
        let taken = Delta::decode(bytes).map_err(BadDelta::from).and_then(|delta| map.take(&delta));
        match taken {
            Ok(()) => self.adopt(Sheet::new(map)),
            // It has come another way meanwhile, or what is before it is still on its way; whoever leads hears what there is.
            Err(BadDelta::Older { .. } | BadDelta::NotNext { .. }) => {}
            Err(error) => tracing::error!(%error, "a change of the map is not taken"),
        }
    }

    /// What the replica has applied is decided, whoever leads.
    pub(super) fn look_at_map(&mut self) {
        let Some(replica) = self.replica() else { return };
        if replica.map().is_formed() && replica.map().version > self.sheet.version() {
            let sheet = Sheet::new(replica.map().clone());
            self.adopt(sheet);
            self.feed();
        }
    }

    /// A newer map: on disk first, then it counts.
    fn adopt(&mut self, sheet: Arc<Sheet>) {
        if sheet.version() <= self.sheet.version() {
            return;
        }
        if let Err(error) = self.parts.data.save_file(NodeFile::Map, &sheet.to_bytes()) {
            tracing::error!(%error, "the map cannot be kept: stopping at once");
            std::process::exit(74);
        }
        let was_changing = !self.sheet.full.operations.is_empty();
        match (was_changing, sheet.full.operations.len()) {
            (false, 1..) => tracing::info!("members of groups are being changed"),
            (true, 0) => tracing::info!("no members of groups are being changed any more"),
            (true, 1..) | (false, 0) => {}
        }
        self.sheet = Arc::clone(&sheet);
        self.parts.book.turn_to(&sheet);
        self.parts.exchange.turn_to(&sheet);
        if sheet.is_removed(self.parts.node) {
            tracing::error!(
                "this node has been removed from the cluster: stopping; start it with an empty --data to join again"
            );
            std::process::exit(69);
        }
        self.seat_own();
    }

    /// Makes room for this node's replica of the group, or lets go of one that was removed.
    fn seat_own(&mut self) {
        let wanted = self.sheet.cluster.replica_on(ShardId::META, self.parts.node);
        let held = self.seat().and_then(|seat| self.parts.host.seat(seat)).map(|seat| seat.replica_id);
        if wanted == held {
            return;
        }
        if let Some(seat) = self.seat() {
            self.parts.host.remove(seat);
            self.told = None;
            let refusal = || Refusal::new(ErrorCode::InDoubt, "this node has left the group of the map");
            let tickets: Vec<Ticket> = self.waiting.keys().copied().collect();
            tickets.into_iter().for_each(|ticket| self.answer(ticket, Err(refusal())));
        }
        if let Some(replica) = wanted {
            let options =
                Options { incarnation: self.parts.joiner.incarnation, seed: rand::random(), ..Options::new(replica) };
            let new = Replica::new(options, Meta::new(), Restored::default());
            self.parts.host.add(ShardId::META, replica, Ok(new));
        }
    }

    /// Everything that was in the map when the node started is known: as much as whoever leads has.
    pub(super) fn note_caught_up(&mut self) {
        if self.has_caught_up {
            return;
        }
        let leader = self.cluster().board.leader(ShardId::META);
        let of_leader = leader.and_then(|leader| self.heard.get(&leader));
        if self.is_ready() || of_leader.is_some_and(|version| *version <= self.sheet.version()) {
            self.has_caught_up = true;
            self.parts.exchange.tell_lanes(|| LaneMessage::TablesKnown);
        }
    }
}

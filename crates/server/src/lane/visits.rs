//! Requests that other nodes have for this one. Each is done by the lane that has its shard, whichever lane's link it came on: nodes
//! need not have the same number of lanes.

use shardine_model::{CatalogueVersion, ErrorCode, Position, Refusal, ShardId};
use shardine_router::{Admission, Arrival, Refused, RemoteCall, Response, RowCall};
use shardine_transport as transport;

use super::core::{Core, Outside};
use super::forward::{Departure, is_misdirected, is_stale};
use super::peers::lane_of;
use super::questions::is_question;
use crate::lane_message::LaneMessage;

/// A request of another node: its number there, and its place in the other one's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub id: u64,
    pub arrival: Arrival,
}

/// A request of another node as it has come, and what it was read by.
pub(crate) struct Visit {
    to: Foreign,
    catalogue: CatalogueVersion,
    call: RemoteCall,
}

impl Core {
    /// A peer asks, on a link of this lane.
    pub(super) fn hear_forward(&mut self, link: u64, forward: &transport::Forward<'_>) {
        let transport::Forward { id, stream, generation, shard, .. } = *forward;
        let (transport::Body::Call(body) | transport::Body::Request(body)) = forward.body;
        let call = RemoteCall::from_bytes(body);
        let position = call.as_ref().ok().and_then(|call| self.position_of(call, shard));
        let arrival = Arrival { link, stream, generation, position: position.unwrap_or_default() };
        let to = Foreign { id, arrival };
        let Ok(call) = call else {
            let response = Response::Refused(Refusal::new(ErrorCode::BadRequest, "the call cannot be read"));
            return self.depart(Departure::Answer { to, response });
        };
        // A shard of which this node has not heard: it was parted off a moment ago, and is asked for again.
        let Some(position) = position else { return self.depart(Departure::Refusal { to, why: Refused::StaleRoute }) };
        let lane = if is_of_shard(&call) { self.exchange.places.lane_of(position) } else { self.number };
        let visit = Visit { to, catalogue: forward.epoch.catalogue, call };
        match lane == self.number {
            true => self.receive(visit),
            false => self.exchange.inboxes[lane].send(LaneMessage::Visit(Box::new(visit))),
        }
    }

    /// Does what a peer asks of a shard of this lane, or of the node.
    pub(super) fn receive(&mut self, visit: Visit) {
        let Visit { to, catalogue, call } = visit;
        // Its text was read before a table came or went: it may mean another row than its sender thinks.
        if matches!(call, RemoteCall::Row(_)) && catalogue < self.catalogue.named_in() {
            let refusal = Refusal::new(ErrorCode::Busy, "the tables have changed since this was read; try again");
            return self.depart(Departure::Answer { to, response: Response::Refused(refusal) });
        }
        let Some(way) = &mut self.way else { return };
        if needs_lead(&call) {
            match way.gate.admit(to.arrival, &way.routes) {
                Admission::Run { .. } => {}
                Admission::Refuse(why) => return self.depart(Departure::Refusal { to, why }),
                Admission::Close => return self.depart(Departure::Close { link: to.arrival.link }),
            }
        }
        let caller = self.outside.enter(Outside::Foreign(to));
        self.run(call, to.arrival.position, caller);
    }

    /// What a peer's request has come to. What was certainly not executed, because this node does not lead, ends its generation.
    pub(super) fn answer_foreign(&mut self, to: Foreign, response: Response) {
        // What a node is asked about itself, or about the map, is no part of any order.
        if !is_misdirected(&response) || is_question(to.id) {
            return self.depart(Departure::Answer { to, response });
        }
        let Some(way) = &mut self.way else { return };
        let link = to.arrival.link;
        // Where bounds have changed whoever asked is told who has the rows now (sharding P-2).
        let why = match is_stale(&response) {
            true => Refused::Moved(way.routes.moved(to.arrival.position)),
            false => Refused::NoLeader,
        };
        let departure = match way.gate.refuse(to.arrival) {
            true => Departure::Refusal { to, why },
            false => Departure::Close { link },
        };
        self.depart(departure);
    }

    /// Sends what belongs on a link of another lane there.
    fn depart(&mut self, departure: Departure) {
        let link = match &departure {
            Departure::Answer { to, .. } | Departure::Refusal { to, .. } => Some(to.arrival.link),
            Departure::Close { link } => Some(*link),
            Departure::Request { .. } | Departure::Question { .. } => None,
        };
        match link.map(lane_of).filter(|lane| *lane != self.number) {
            None => self.departures.push(departure),
            Some(lane) => self.exchange.inboxes[lane].send(LaneMessage::Depart(Box::new(departure))),
        }
    }

    /// Something of another lane's goes out on a link of this one.
    pub fn depart_for_other(&mut self, departure: Departure) {
        self.departures.push(departure);
    }

    /// A link that others have dialled is gone: nothing more comes of what they asked on it.
    pub fn forget_link(&mut self, link: u64) {
        if let Some(way) = &mut self.way {
            way.gate.closed(link);
        }
    }

    /// The same of a link of this lane: the others may have been asked something on it.
    pub(super) fn forget_own_link(&mut self, link: u64) {
        self.forget_link(link);
        let others = self.exchange.inboxes.iter().enumerate().filter(|(lane, _)| *lane != self.number);
        others.for_each(|(_, inbox)| inbox.send(LaneMessage::LinkGone(link)));
    }

    /// Where a call belongs. What is about a whole shard begins where that does, and what is about the node nowhere.
    pub(super) fn position_of(&self, call: &RemoteCall, shard: ShardId) -> Option<Position> {
        match call {
            RemoteCall::Row(call) => call.position().ok(),
            RemoteCall::Shard { .. } | RemoteCall::Table(_) => self.begin_of(shard),
            RemoteCall::Writeback
            | RemoteCall::DeadLetters { .. }
            | RemoteCall::Status
            | RemoteCall::Coord { .. }
            | RemoteCall::Meta { .. }
            | RemoteCall::Transfer { .. } => Some(Position(0)),
        }
    }
}

/// Whether it is for a shard, and not for the node.
fn is_of_shard(call: &RemoteCall) -> bool {
    match call {
        RemoteCall::Row(_) | RemoteCall::Shard { .. } | RemoteCall::Table(_) => true,
        RemoteCall::Writeback
        | RemoteCall::DeadLetters { .. }
        | RemoteCall::Status
        | RemoteCall::Coord { .. }
        | RemoteCall::Meta { .. }
        | RemoteCall::Transfer { .. } => false,
    }
}

/// Whether only the shard's leader may do it.
fn needs_lead(call: &RemoteCall) -> bool {
    is_of_shard(call) && !matches!(call, RemoteCall::Row(RowCall::ReadStale { .. } | RowCall::Explain { .. }))
}

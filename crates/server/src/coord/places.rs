//! Where the path of a request is. In a cluster the map says it; what this node's map lacks may have come a moment ago, so whoever
//! keeps the map is asked before anybody is told that there is nothing.
//!
//! A node is made when its path has a place, and dropped for good when that place is forgotten (`shardine-meta`, `apply/paths.rs`).
//! Whatever is left of one by a crash in between is found by the group's leader, now and then, and put in order.

use std::collections::BTreeMap;

use shardine_host::{Seat, SeatId};
use shardine_model::{ErrorCode, GroupKind, Refusal as MapRefusal, ShardId};
use shardine_shard::coord::{
    NodeCall, NodeReply, Opening, Path, Refusal, Replica, StatusCode, StreamId, StreamMessage, Ticket,
};
use shardine_shard::meta::{Command, Place, Reply};
use shardine_ydb::Hear;

use super::thread::{CoordThread, ELSEWHERE, STOPPED, unavailable};
use super::{CoordMessage, RespondNode, groups};
use crate::atlas::Sheet;

/// Places that a path may be given one after the other before whoever asks is told to try again.
const TRIES_MAX: u32 = 5;

/// Looks at a place without a node after which it is taken for left behind: by then whoever wanted to make it has done so.
const LOOKS_MAX: u32 = 5;

/// What is put in order at one look. The rest has time until the next.
const REPAIRS_MAX: usize = 100;

/// Requests whose path is being asked for, by the number under which the answer comes.
#[derive(Default)]
pub(super) struct Asked {
    last: u64,
    waiting: BTreeMap<u64, Waiter>,
    /// Places that had no node at the last look: their numbers, and how often that was so.
    empty: BTreeMap<String, (u64, u32)>,
}

enum Waiter {
    Stream {
        stream: StreamId,
        opening: Opening,
        hear: Hear,
    },
    Call(Call),
    /// A node is to be made, at the so manieth place.
    Make(Call, u32),
    /// A node was dropped; whoever did it is told when its path is free.
    Dropped(NodeReply, RespondNode),
}

/// A call about a node.
pub(super) struct Call {
    pub ticket: Ticket,
    pub call: NodeCall,
    pub done: RespondNode,
}

/// A call that a group has been given.
pub(super) struct Given {
    pub seat: SeatId,
    /// The number of its path's place; 0 if it has none, or does not need one.
    pub placed: u64,
    pub tries: u32,
    pub call: NodeCall,
    pub done: RespondNode,
}

impl Asked {
    /// Whoever waits has left.
    pub fn forget_stream(&mut self, stream: StreamId) {
        self.waiting.retain(|_, waiter| !matches!(waiter, Waiter::Stream { stream: other, .. } if *other == stream));
    }

    /// The same for a call that is not in a group yet. What makes or drops a node goes on.
    pub fn forget_call(&mut self, ticket: Ticket) {
        self.waiting.retain(|_, waiter| !matches!(waiter, Waiter::Call(call) if call.ticket == ticket));
    }
}

/// The place of a path as the map has it. With one group it is clear also without.
pub(crate) fn place_in(sheet: &Sheet, path: &str) -> Option<Place> {
    let known = Path::parse(path).and_then(|path| sheet.full.paths.get(&path.to_string()).copied());
    known.or_else(|| only_group(sheet).map(|group| Place { group, placed: 0 }))
}

pub(crate) fn only_group(sheet: &Sheet) -> Option<ShardId> {
    let mut groups = sheet.cluster.groups_of(GroupKind::Coordination);
    groups.next().filter(|_| groups.next().is_none()).map(|group| group.shard)
}

impl CoordThread {
    /// The group of a path, as far as it is known here.
    pub(super) fn place_of(&self, path: &str) -> Option<Place> {
        match &self.sheet {
            Some(sheet) => place_in(sheet, path),
            None => {
                let seat = *self.seats.get(groups::place_of(path, self.seats.len().max(1)))?;
                Some(Place { group: self.host.seat(seat)?.shard, placed: 0 })
            }
        }
    }

    /// Whether the map has sent somebody here for a node that is not here: it may be that the map is old.
    fn is_doubtful(&self, place: Place, path: &str) -> bool {
        let is_missing = |seat| {
            let replica = self.host.replica(seat);
            replica.is_some_and(|replica| replica.is_serving() && replica.coord().find_node(path).is_none())
        };
        self.sheet.as_ref().is_some_and(|sheet| only_group(sheet).is_none())
            && self.host.seat_of(place.group).is_some_and(is_missing)
    }

    fn ask(&mut self, command: Command, waiter: Option<Waiter>) {
        self.asked.last += 1;
        let number = self.asked.last;
        if let Some(waiter) = waiter {
            self.asked.waiting.insert(number, waiter);
        }
        let back = self.back.clone();
        self.exchange
            .ask_meta_then(command, Box::new(move |reply| drop(back.send(CoordMessage::Placed { number, reply }))));
    }

    pub(super) fn open(&mut self, stream: StreamId, opening: Opening, hear: Hear) {
        match self.place_of(&opening.path) {
            Some(place) if !self.is_doubtful(place, &opening.path) => self.start(place.group, stream, &opening, hear),
            Some(_) | None => match Path::parse(&opening.path) {
                Some(path) => {
                    let find = Command::FindPath { path: path.to_string() };
                    self.ask(find, Some(Waiter::Stream { stream, opening, hear }));
                }
                None => hear(StreamMessage::Failure(Refusal::new(StatusCode::BadRequest, "the path is empty"))),
            },
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        let Some(path) = groups::path_of(&call.call) else { return (call.done)(self.list()) };
        let Some(path) = Path::parse(path) else {
            return (call.done)(refused(StatusCode::BadRequest, "the path is empty"));
        };
        match (&call.call, &self.sheet) {
            (NodeCall::Create { .. }, None) if self.clashes(&path) => {
                let reason = "it is a directory, or below another coordination node";
                (call.done)(refused(StatusCode::SchemeError, format!("{path}: {reason}")));
            }
            (NodeCall::Create { .. }, Some(_)) => self.make(call, &path, 0),
            (_, Some(_)) => {
                let place = self.place_of(path.as_str()).filter(|place| !self.is_doubtful(*place, path.as_str()));
                // Only who knows its place can have it forgotten.
                let place = place.filter(|place| place.placed > 0 || !matches!(call.call, NodeCall::Drop { .. }));
                match place {
                    Some(place) => self.give(place, 0, call),
                    None => self.ask(Command::FindPath { path: path.to_string() }, Some(Waiter::Call(call))),
                }
            }
            (_, None) if self.is_elsewhere_a_directory(&call.call, &path) => {
                (call.done)(refused(StatusCode::BadRequest, format!("{path} is no coordination node")));
            }
            (_, None) => match self.place_of(path.as_str()) {
                Some(place) => self.give(place, 0, call),
                None => (call.done)(NodeReply::Refused(unavailable(ELSEWHERE))),
            },
        }
    }

    /// Makes a node when its path has a place that counts.
    fn make(&mut self, call: Call, path: &Path, tries: u32) {
        if let Err(refusal) = path.check() {
            return (call.done)(NodeReply::Refused(refusal));
        }
        let known = self.sheet.as_ref().and_then(|sheet| sheet.full.paths.get(&path.to_string()).copied());
        match known {
            Some(place) if !self.was_given_up(place, path) => self.give(place, tries, call),
            known => {
                let instead_of = known.map_or(0, |place| place.placed);
                let place = Command::PlacePath { path: path.to_string(), instead_of, group: None };
                self.ask(place, Some(Waiter::Make(call, tries + 1)));
            }
        }
    }

    /// Whether the group here makes no node for the place.
    fn was_given_up(&self, place: Place, path: &Path) -> bool {
        let replica = self.host.seat_of(place.group).and_then(|seat| self.host.replica(seat));
        replica.is_some_and(|replica| {
            let coord = replica.coord();
            replica.is_serving() && place.placed <= coord.given_up() && coord.find_node(path.as_str()).is_none()
        })
    }

    /// Hands a call to its group.
    fn give(&mut self, place: Place, tries: u32, call: Call) {
        let Call { ticket, call, done } = call;
        let Some(seat) = self.host.seat_of(place.group) else {
            return done(NodeReply::Refused(unavailable(ELSEWHERE)));
        };
        let acted = self.host.act(seat, |replica, actions| replica.call_placed(ticket, &call, place.placed, actions));
        match acted {
            Some(()) => drop(self.calls.insert(ticket, Given { seat, placed: place.placed, tries, call, done })),
            None => done(NodeReply::Refused(unavailable(STOPPED))),
        }
    }

    /// A group has answered a call.
    pub(super) fn finish(&mut self, ticket: Ticket, reply: NodeReply) {
        let Some(Given { seat, placed, tries, call, done }) = self.calls.remove(&ticket) else { return };
        let path = groups::path_of(&call).and_then(Path::parse);
        match (&call, &reply, path) {
            (NodeCall::Drop { .. }, NodeReply::Done, Some(path)) if placed > 0 => {
                let forget = Command::ForgetPath { path: path.to_string(), placed };
                self.ask(forget, Some(Waiter::Dropped(reply, done)));
            }
            (NodeCall::Create { .. }, NodeReply::Refused(refusal), Some(path))
                if refusal.status == StatusCode::Unavailable && placed > 0 && tries < TRIES_MAX =>
            {
                let place = self.host.seat(seat).map(|seat| Place { group: seat.shard, placed });
                // Its place was given up while it was on its way into the log.
                match place.filter(|place| self.was_given_up(*place, &path)) {
                    Some(_) => self.make(Call { ticket, call, done }, &path, tries + 1),
                    None => done(reply),
                }
            }
            _ => done(reply),
        }
    }

    /// Whoever keeps the map has answered.
    pub(super) fn hear_place(&mut self, number: u64, reply: Result<Reply, MapRefusal>) {
        let Some(waiter) = self.asked.waiting.remove(&number) else { return };
        match (waiter, reply) {
            // The path is free when the map says so everywhere; whether it was heard here changes nothing.
            (Waiter::Dropped(reply, done), _) => done(reply),
            (Waiter::Stream { stream, opening, hear }, Ok(Reply::Place(place))) => {
                self.start(place.group, stream, &opening, hear);
            }
            (Waiter::Stream { hear, opening, .. }, reply) => {
                let missing = Refusal::new(StatusCode::NotFound, format!("there is no {}", opening.path));
                hear(StreamMessage::Failure(refusal_of(reply).unwrap_or(missing)));
            }
            (Waiter::Call(call), Ok(Reply::Place(place))) => self.give(place, 0, call),
            (Waiter::Call(call), reply) => {
                let only = self.sheet.as_ref().and_then(|sheet| only_group(sheet));
                match (refusal_of(reply), only) {
                    (Some(refusal), _) => (call.done)(NodeReply::Refused(refusal)),
                    // A node that has no place yet, or none at all: its group knows.
                    (None, Some(group)) => self.give(Place { group, placed: 0 }, 0, call),
                    (None, None) => {
                        let refusal = self.missing(&call.call);
                        (call.done)(NodeReply::Refused(refusal));
                    }
                }
            }
            (Waiter::Make(call, tries), Ok(Reply::Place(place))) => {
                let path = groups::path_of(&call.call).and_then(Path::parse);
                match path.filter(|path| tries < TRIES_MAX && self.was_given_up(place, path)) {
                    Some(path) => {
                        let instead_of = place.placed;
                        let again = Command::PlacePath { path: path.to_string(), instead_of, group: None };
                        self.ask(again, Some(Waiter::Make(call, tries + 1)));
                    }
                    None => self.give(place, tries, call),
                }
            }
            (Waiter::Make(call, _), reply) => {
                let strange = || unavailable("the map gives the path no place; try again");
                (call.done)(NodeReply::Refused(refusal_of(reply).unwrap_or_else(strange)));
            }
        }
    }

    /// What a call about a path is told that no node has.
    fn missing(&self, call: &NodeCall) -> Refusal {
        let path = groups::path_of(call).and_then(Path::parse).map(|path| path.to_string()).unwrap_or_default();
        let is_directory = self.sheet.as_ref().is_some_and(|sheet| sheet.full.is_directory(&path));
        match (call, is_directory) {
            (NodeCall::Resource { .. }, true) => {
                Refusal::new(StatusCode::BadRequest, format!("{path} is no coordination node"))
            }
            (_, true) => Refusal::new(StatusCode::SchemeError, format!("{path} is a directory")),
            (_, false) => Refusal::new(StatusCode::SchemeError, format!("there is no {path}")),
        }
    }

    /// Of a node that is alone: whether a new path would be below another group's node, or above one. A path that is on its way
    /// into the log counts.
    fn clashes(&self, path: &Path) -> bool {
        let on_its_way = self.calls.values().filter(|given| matches!(given.call, NodeCall::Create { .. }));
        let mut on_its_way = on_its_way.filter_map(|given| groups::path_of(&given.call).and_then(Path::parse));
        let is_there = |seat: &Seat<Replica>| {
            let Ok(replica) = &seat.replica else { return false };
            let coord = replica.coord();
            coord.has_directory(path) || path.parents().any(|parent| coord.find_node(parent).is_some())
        };
        self.seats.len() > 1
            && (self.host.seats().any(is_there)
                || on_its_way.any(|other| other.is_inside(path) || path.is_inside(&other)))
    }

    fn is_elsewhere_a_directory(&self, call: &NodeCall, path: &Path) -> bool {
        let is_there =
            |seat: &Seat<Replica>| seat.replica.as_ref().is_ok_and(|replica| replica.coord().has_directory(path));
        matches!(call, NodeCall::Resource { .. }) && self.host.seats().any(is_there)
    }

    /// Puts in order what was left behind: places of groups that are led here without a node, and nodes without a place, as clusters
    /// had them before they had places.
    pub(super) fn tidy_places(&mut self) {
        let Some(sheet) = self.sheet.clone() else { return };
        let empty = std::mem::take(&mut self.asked.empty);
        for seat in self.seats.clone() {
            let Some(replica) = self.host.replica(seat).filter(|replica| replica.is_serving()) else { continue };
            let (group, coord) = (replica.shard(), replica.coord());
            let mut commands = Vec::new();
            let mut gives_up = 0;
            for (path, place) in sheet.full.paths.iter().filter(|(_, place)| place.group == group) {
                if coord.find_node(path).is_some() {
                    continue;
                }
                let looks =
                    empty.get(path).filter(|(placed, _)| *placed == place.placed).map_or(1, |(_, looks)| looks + 1);
                if place.placed <= coord.given_up() {
                    commands.push(Command::ForgetPath { path: path.clone(), placed: place.placed });
                } else if looks > LOOKS_MAX {
                    gives_up = gives_up.max(place.placed);
                }
                self.asked.empty.insert(path.clone(), (place.placed, looks));
            }
            for line in coord.list_nodes().filter(|line| !sheet.full.paths.contains_key(&line.path)) {
                commands.push(Command::PlacePath { path: line.path, instead_of: 0, group: Some(group) });
            }
            if gives_up > 0 {
                self.host.act(seat, |replica, _| replica.give_up(gives_up));
            }
            commands.into_iter().take(REPAIRS_MAX).for_each(|command| self.ask(command, None));
        }
    }
}

/// Why whoever keeps the map has not given a place; nothing if there is none.
fn refusal_of(reply: Result<Reply, MapRefusal>) -> Option<Refusal> {
    let refusal = reply.err()?;
    let status = match refusal.code {
        ErrorCode::NotFound => return None,
        ErrorCode::Exists => StatusCode::SchemeError,
        ErrorCode::TooLarge => StatusCode::PreconditionFailed,
        ErrorCode::BadRequest => StatusCode::BadRequest,
        _ => StatusCode::Unavailable,
    };
    Some(Refusal::new(status, refusal.message))
}

fn refused(status: StatusCode, message: impl Into<std::borrow::Cow<'static, str>>) -> NodeReply {
    NodeReply::Refused(Refusal::new(status, message))
}

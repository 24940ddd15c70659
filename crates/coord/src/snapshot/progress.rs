//! How far one node is written.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;
use shardine_model::codec::{DecodeError, put_varint};
use shardine_model::stream::put_item;

use super::form::{put_claim, put_node, put_resource, put_semaphore, put_session};
use super::{Unit, VERSION, tag};
use crate::ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
use crate::state::{Claim, Node, Semaphore};

/// What is below the first number is written, what is above the last came later.
#[derive(Clone, Copy, Debug)]
struct Span {
    next: u64,
    last: u64,
}

impl Span {
    fn contains(self, number: u64) -> bool {
        (self.next..=self.last).contains(&number)
    }
}

/// A claim's place in the order in which claims are written: owners of a semaphore before its waiters. Both are written in the
/// order of their numbers.
type ClaimPlace = (SemaphoreId, List, OrderId);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum List {
    Owners,
    Waiters,
}

impl List {
    pub fn tag(self) -> u8 {
        match self {
            Self::Owners => 0,
            Self::Waiters => 1,
        }
    }

    pub fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        match tag {
            0 => Ok(Self::Owners),
            1 => Ok(Self::Waiters),
            _ => Err(DecodeError::Unknown { what: "list of a claim", value: u64::from(tag) }),
        }
    }

    pub fn of_mut(self, semaphore: &mut Semaphore) -> &mut BTreeMap<OrderId, Claim> {
        match self {
            Self::Owners => &mut semaphore.owners,
            Self::Waiters => &mut semaphore.waiters,
        }
    }

    pub fn of(self, semaphore: &Semaphore) -> &BTreeMap<OrderId, Claim> {
        match self {
            Self::Owners => &semaphore.owners,
            Self::Waiters => &semaphore.waiters,
        }
    }
}

#[derive(Debug)]
pub(super) struct Progress {
    pub has_node: bool,
    sessions: Span,
    semaphores: Span,
    resources: Span,
    next_claim: ClaimPlace,
    last_order: OrderId,
    /// Written ahead of their turn.
    early: BTreeSet<Unit>,
    /// Semaphores that are no longer there.
    gone: BTreeMap<SemaphoreId, Semaphore>,
}

impl Progress {
    pub fn of(node: &Node) -> Self {
        Self {
            has_node: false,
            sessions: Span { next: 1, last: node.last_session },
            semaphores: Span { next: 1, last: node.last_semaphore },
            resources: Span { next: 1, last: node.last_resource },
            next_claim: (SemaphoreId(0), List::Owners, OrderId(0)),
            last_order: OrderId(node.last_order),
            early: BTreeSet::new(),
            gone: BTreeMap::new(),
        }
    }

    /// The item of a unit that is not written yet; it counts as written from now on.
    pub fn save(&mut self, number: NodeNumber, node: &Node, unit: Unit) -> Option<Vec<u8>> {
        if self.early.contains(&unit) {
            return None;
        }
        let mut item = Vec::new();
        match unit {
            Unit::Session(id) if self.sessions.contains(id.0) => {
                put_units(&mut item, tag::SESSIONS, number, |out| put_session(out, id, &node.sessions[&id]));
            }
            Unit::Semaphore(id) if self.semaphores.contains(id.0) => {
                put_units(&mut item, tag::SEMAPHORES, number, |out| put_semaphore(out, id, &node.semaphores[&id]));
            }
            Unit::Resource(id) if self.resources.contains(id.0) => {
                put_units(&mut item, tag::RESOURCES, number, |out| put_resource(out, id, &node.resources[&id]));
            }
            Unit::Claim(id, order) => {
                let semaphore = &node.semaphores[&id];
                let list = if semaphore.owners.contains_key(&order) { List::Owners } else { List::Waiters };
                if order > self.last_order || (id, list, order) < self.next_claim {
                    return None;
                }
                // A claim is read by its semaphore, which comes before it.
                item.extend(self.save(number, node, Unit::Semaphore(id)).unwrap_or_default());
                let claim = &list.of(semaphore)[&order];
                put_claims(&mut item, number, id, |out| put_claim(out, list, order, claim));
            }
            Unit::Session(_) | Unit::Semaphore(_) | Unit::Resource(_) => return None,
        }
        self.early.insert(unit);
        Some(item)
    }

    pub fn keep(&mut self, id: SemaphoreId, semaphore: Semaphore) {
        if id.0 <= self.semaphores.last {
            self.gone.insert(id, semaphore);
        }
    }

    /// Writes about so many bytes; says if anything was left.
    pub fn write_some(&mut self, number: NodeNumber, node: &Node, bytes: usize, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_node, true) {
            put_node(out, number, node);
            return true;
        }
        let begin = out.len();
        self.write_sessions(number, node, bytes, out);
        if out.len() == begin {
            self.write_semaphores(number, node, bytes, out);
        }
        if out.len() == begin {
            self.write_claims(number, node, bytes, out);
        }
        if out.len() == begin {
            self.write_resources(number, node, bytes, out);
        }
        out.len() > begin
    }

    fn write_sessions(&mut self, number: NodeNumber, node: &Node, bytes: usize, out: &mut Vec<u8>) {
        let Self { sessions, early, .. } = self;
        let all = node.sessions.range(SessionId(sessions.next)..);
        let left = all.filter(|(id, _)| !early.contains(&Unit::Session(**id))).map(|(id, held)| (id.0, *id, held));
        put_some((out, bytes), (tag::SESSIONS, number), sessions, left, put_session);
    }

    fn write_semaphores(&mut self, number: NodeNumber, node: &Node, bytes: usize, out: &mut Vec<u8>) {
        let Self { semaphores, early, gone, .. } = self;
        let from = SemaphoreId(semaphores.next);
        let all = merged(&node.semaphores, gone, from);
        let left = all.filter(|(id, _)| !early.contains(&Unit::Semaphore(*id))).map(|(id, held)| (id.0, id, held));
        put_some((out, bytes), (tag::SEMAPHORES, number), semaphores, left, put_semaphore);
    }

    fn write_resources(&mut self, number: NodeNumber, node: &Node, bytes: usize, out: &mut Vec<u8>) {
        let Self { resources, early, .. } = self;
        let all = node.resources.range(ResourceId(resources.next)..);
        let left = all.filter(|(id, _)| !early.contains(&Unit::Resource(**id))).map(|(id, held)| (id.0, *id, held));
        put_some((out, bytes), (tag::RESOURCES, number), resources, left, put_resource);
    }

    /// Claims of one list of one semaphore.
    fn write_claims(&mut self, number: NodeNumber, node: &Node, bytes: usize, out: &mut Vec<u8>) {
        let Self { next_claim, last_order, semaphores, early, gone, .. } = self;
        let all = merged(&node.semaphores, gone, next_claim.0).take_while(|(id, _)| id.0 <= semaphores.last);
        for (id, semaphore) in all {
            for list in [List::Owners, List::Waiters].into_iter().filter(|list| (id, *list, LAST) >= *next_claim) {
                let from = (*next_claim).max((id, list, OrderId(0))).2;
                let claims = list.of(semaphore).range(from..).take_while(|(order, _)| *order <= last_order);
                let mut left = claims.filter(|(order, _)| !early.contains(&Unit::Claim(id, **order))).peekable();
                if left.peek().is_none() {
                    continue;
                }
                return put_claims(out, number, id, |out| {
                    let end = out.len() + bytes;
                    for (order, claim) in left {
                        put_claim(out, list, *order, claim);
                        *next_claim = (id, list, OrderId(order.0 + 1));
                        if out.len() >= end {
                            return;
                        }
                    }
                });
            }
        }
        *next_claim = (SemaphoreId(u64::MAX), List::Waiters, LAST);
    }
}

/// Behind every claim of a list.
const LAST: OrderId = OrderId(u64::MAX);

/// Units of one kind and one node.
fn put_units(out: &mut Vec<u8>, tag: u8, number: NodeNumber, write: impl FnOnce(&mut Vec<u8>)) {
    put_item(out, tag, VERSION, |out| {
        put_varint(out, number.0);
        write(out);
    });
}

fn put_claims(out: &mut Vec<u8>, number: NodeNumber, semaphore: SemaphoreId, write: impl FnOnce(&mut Vec<u8>)) {
    put_units(out, tag::CLAIMS, number, |out| {
        put_varint(out, semaphore.0);
        write(out);
    });
}

/// Writes units of one kind, about so many bytes; nothing if all of them are written.
fn put_some<'a, K: Copy, V: 'a>(
    (out, bytes): (&mut Vec<u8>, usize),
    (tag, number): (u8, NodeNumber),
    span: &mut Span,
    left: impl Iterator<Item = (u64, K, &'a V)>,
    put: fn(&mut Vec<u8>, K, &V),
) {
    let Span { next, last } = span;
    let mut left = left.take_while(|(number, ..)| number <= last).peekable();
    if left.peek().is_none() {
        *next = *last + 1;
        return;
    }
    put_units(out, tag, number, |out| {
        let end = out.len() + bytes;
        for (number, id, held) in left {
            put(out, id, held);
            *next = number + 1;
            if out.len() >= end {
                return;
            }
        }
    });
}

/// Semaphores that are there, and those that were, from a number on.
fn merged<'a>(
    now: &'a BTreeMap<SemaphoreId, Semaphore>,
    gone: &'a BTreeMap<SemaphoreId, Semaphore>,
    from: SemaphoreId,
) -> impl Iterator<Item = (SemaphoreId, &'a Semaphore)> {
    now.range(from..).merge_by(gone.range(from..), |one, other| one.0 < other.0).map(|(id, held)| (*id, held))
}

//! Makes a group out of a snapshot.

use std::collections::BTreeMap;

use shardine_model::GroupKind;
use shardine_model::codec::Reader;
use shardine_model::stream::{Assembler, Item, SnapshotError};

use super::form::{read_claim, read_node, read_resource, read_semaphore, read_session};
use super::progress::List;
use super::tag;
use crate::ids::{NodeNumber, SemaphoreId};
use crate::state::{Coord, Node};

/// A snapshot that is being taken in. What comes of it is used only when it is whole.
#[derive(Debug)]
pub struct Restore {
    coord: Coord,
    stream: Assembler,
    has_head: bool,
}

const TWICE: SnapshotError = SnapshotError::Contradiction("something comes twice");

impl Restore {
    /// Takes a snapshot in over a state that has begun empty.
    #[must_use]
    pub fn new(empty: Coord) -> Self {
        Self { coord: empty, stream: Assembler::new(GroupKind::Coordination), has_head: false }
    }

    /// Takes the next chunk in. After an error there is nothing to go on with.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError> {
        let Self { coord, stream, has_head } = self;
        stream.push(chunk, |item| {
            let is_first = !std::mem::replace(has_head, true);
            if is_first != (item.tag == tag::HEAD) {
                return Err(SnapshotError::Contradiction("its sections are in disorder"));
            }
            coord.take(&item)
        })
    }

    /// The state, if the snapshot was whole.
    pub fn finish(self) -> Result<Coord, SnapshotError> {
        self.stream.finish()?;
        let has_sessions = |node: &Node| node.links.keys().all(|(session, _)| node.sessions.contains_key(session));
        if !self.has_head || !self.coord.nodes.values().all(has_sessions) {
            return Err(SnapshotError::Contradiction("a claim without its session"));
        }
        Ok(self.coord)
    }
}

impl Coord {
    /// Makes a state that has begun empty into what all chunks of a snapshot say.
    pub fn restored(self, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, SnapshotError> {
        let mut restore = Restore::new(self);
        chunks.into_iter().try_for_each(|chunk| restore.push(chunk.as_ref()))?;
        restore.finish()
    }

    fn take(&mut self, item: &Item<'_>) -> Result<(), SnapshotError> {
        let mut reader = Reader::new(&item.content);
        let reader = &mut reader;
        match (item.tag, item.version) {
            (tag::HEAD, 1) => self.last_node = reader.varint("last node")?,
            (tag::HEAD, 2) => {
                self.last_node = reader.varint("last node")?;
                self.given_up = reader.varint("place of a path")?;
            }
            (tag::NODE, 1) => self.take_node(reader)?,
            (tag::SESSIONS, 1) => self.take_sessions(reader)?,
            (tag::SEMAPHORES, 1) => self.take_semaphores(reader)?,
            (tag::CLAIMS, 1) => self.take_claims(reader)?,
            (tag::RESOURCES, 1) => self.take_resources(reader)?,
            _ => return Err(item.unknown()),
        }
        Ok(reader.clone().finish("item")?)
    }

    fn take_node(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let (number, node) = read_node(reader)?;
        #[cfg(feature = "mutants")]
        let node =
            Node { last_order: if self.is(crate::Mutant::OrderIdsBeginAnew) { 0 } else { node.last_order }, ..node };
        let is_new = self.paths.insert(node.path.clone(), number).is_none();
        if self.nodes.insert(number, node).is_none() && is_new { Ok(()) } else { Err(TWICE) }
    }

    fn take_sessions(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, session) = read_session(reader)?;
            self.bytes += session.bytes();
            if node.sessions.insert(id, session).is_some() {
                return Err(TWICE);
            }
        }
        Ok(())
    }

    fn take_semaphores(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, semaphore) = read_semaphore(reader)?;
            self.bytes += semaphore.bytes();
            let is_new = node.names.insert(semaphore.name.clone(), id).is_none();
            if node.semaphores.insert(id, semaphore).is_some() || !is_new {
                return Err(TWICE);
            }
        }
        Ok(())
    }

    /// Owners that hold more than the limit are no state that ever was.
    fn take_claims(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let node = restored_node(&mut self.nodes, reader)?;
        let id = SemaphoreId(reader.varint("semaphore")?);
        let Some(semaphore) = node.semaphores.get_mut(&id) else {
            return Err(SnapshotError::Contradiction("a claim without its semaphore"));
        };
        while !reader.is_empty() {
            let (list, order, claim) = read_claim(reader)?;
            #[cfg(feature = "mutants")]
            if self.mutant == Some(crate::Mutant::OrderIdsBeginAnew) {
                node.last_order = node.last_order.max(order.0);
            }
            self.bytes += claim.bytes();
            if node.links.insert((claim.session, id), order).is_some() {
                return Err(TWICE);
            }
            if list == List::Owners {
                if !semaphore.has_room_for(claim.count) {
                    return Err(SnapshotError::Contradiction("more tokens are held than there are"));
                }
                semaphore.count += claim.count;
            }
            if list.of_mut(semaphore).insert(order, claim).is_some() {
                return Err(TWICE);
            }
        }
        Ok(())
    }

    fn take_resources(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, resource) = read_resource(reader)?;
            self.bytes += resource.bytes();
            let is_new = node.resource_paths.insert(resource.path.clone(), id).is_none();
            if node.resources.insert(id, resource).is_some() || !is_new {
                return Err(TWICE);
            }
        }
        Ok(())
    }
}

fn restored_node<'a>(
    nodes: &'a mut BTreeMap<NodeNumber, Node>,
    reader: &mut Reader<'_>,
) -> Result<&'a mut Node, SnapshotError> {
    let number = NodeNumber(reader.varint("node")?);
    nodes.get_mut(&number).ok_or(SnapshotError::Contradiction("something of a node that is not there"))
}

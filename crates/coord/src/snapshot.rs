//! Snapshots of a group, cut without stopping it.
//!
//! A cut fixes the state at one index. Sessions, semaphores and resources are then written over many turns, in the order of
//! their numbers; one that is about to change before its turn is written first. Numbers only grow, so whatever came after the cut
//! is told by its number. What is derived (names, links, counts, bytes) is not written but made again.

mod form;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};

use self::form::{put_resource, put_semaphore, put_session, read_resource, read_semaphore, read_session};
use crate::config::Config;
use crate::ids::{NodeNumber, ResourceId, SemaphoreId, SessionId};
use crate::path::Path;
use crate::state::{Coord, Node};

/// The first format, still read, knew no resources.
const FORMAT_WITHOUT_RESOURCES: u8 = 1;
const SNAPSHOT_FORMAT: u8 = 2;
const CHUNK_HEAD: u8 = 1;
const CHUNK_SESSIONS: u8 = 2;
const CHUNK_SEMAPHORES: u8 = 3;
const CHUNK_RESOURCES: u8 = 4;

/// Bytes after which a chunk ends. One semaphore may make a longer one.
const CHUNK_BYTES: usize = 64 << 10;

/// What the next step of a cut gave.
#[derive(Debug, PartialEq, Eq)]
pub enum CutStep {
    Chunk(Vec<u8>),
    /// Everything has been given; the cut is over.
    Done,
}

/// The smallest thing that is written as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Session(SessionId),
    Semaphore(SemaphoreId),
    Resource(ResourceId),
}

/// A number that units are written in the order of.
trait Number: Copy + Ord {
    fn of(number: u64) -> Self;
    fn value(self) -> u64;
    fn unit(self) -> Unit;
}

macro_rules! number {
    ($id:ident, $unit:ident) => {
        impl Number for $id {
            fn of(number: u64) -> Self {
                Self(number)
            }

            fn value(self) -> u64 {
                self.0
            }

            fn unit(self) -> Unit {
                Unit::$unit(self)
            }
        }
    };
}

number!(SessionId, Session);
number!(SemaphoreId, Semaphore);
number!(ResourceId, Resource);

/// A cut in progress.
#[derive(Debug)]
pub(crate) struct Cut {
    ready: VecDeque<Vec<u8>>,
    /// Nodes that are not written to the end.
    todo: BTreeMap<NodeNumber, Progress>,
}

/// How far a node is written: what is below the first number of each pair is, what is above the second came later.
#[derive(Debug)]
struct Progress {
    sessions: (u64, u64),
    semaphores: (u64, u64),
    resources: (u64, u64),
    /// Written ahead of their turn.
    early: BTreeSet<Unit>,
}

impl Progress {
    fn of(node: &Node) -> Self {
        Self {
            sessions: (1, node.last_session),
            semaphores: (1, node.last_semaphore),
            resources: (1, node.last_resource),
            early: BTreeSet::new(),
        }
    }

    fn wants(&self, unit: Unit) -> bool {
        let ((from, to), number) = match unit {
            Unit::Session(id) => (self.sessions, id.0),
            Unit::Semaphore(id) => (self.semaphores, id.0),
            Unit::Resource(id) => (self.resources, id.0),
        };
        (from..=to).contains(&number) && !self.early.contains(&unit)
    }

    /// The next chunk of the node, or nothing if it is all written.
    fn next_chunk(&mut self, number: NodeNumber, node: &Node) -> Option<Vec<u8>> {
        let Self { sessions, semaphores, resources, early } = self;
        let chunk = |kind| open_chunk(kind, number);
        write_some(chunk(CHUNK_SESSIONS), sessions, early, &node.sessions, put_session)
            .or_else(|| write_some(chunk(CHUNK_SEMAPHORES), semaphores, early, &node.semaphores, put_semaphore))
            .or_else(|| write_some(chunk(CHUNK_RESOURCES), resources, early, &node.resources, put_resource))
    }
}

/// Writes units of one kind until the chunk is full; nothing if all of them are written.
fn write_some<K: Number, V>(
    mut chunk: Vec<u8>,
    (from, to): &mut (u64, u64),
    early: &mut BTreeSet<Unit>,
    all: &BTreeMap<K, V>,
    put: fn(&mut Vec<u8>, K, &V),
) -> Option<Vec<u8>> {
    let empty = chunk.len();
    for (&id, held) in all.range(K::of(*from)..).take_while(|(id, _)| id.value() <= *to) {
        if !early.remove(&id.unit()) {
            put(&mut chunk, id, held);
        }
        *from = id.value() + 1;
        if chunk.len() >= CHUNK_BYTES {
            return Some(chunk);
        }
    }
    *from = *to + 1;
    (chunk.len() > empty).then_some(chunk)
}

impl Cut {
    /// Called before any change of a session, a semaphore or a resource.
    pub fn save_before_change(&mut self, number: NodeNumber, node: &Node, unit: Unit) {
        let Some(progress) = self.todo.get_mut(&number).filter(|progress| progress.wants(unit)) else { return };
        let mut chunk;
        match unit {
            Unit::Session(id) => {
                chunk = open_chunk(CHUNK_SESSIONS, number);
                put_session(&mut chunk, id, &node.sessions[&id]);
            }
            Unit::Semaphore(id) => {
                chunk = open_chunk(CHUNK_SEMAPHORES, number);
                put_semaphore(&mut chunk, id, &node.semaphores[&id]);
            }
            Unit::Resource(id) => {
                chunk = open_chunk(CHUNK_RESOURCES, number);
                put_resource(&mut chunk, id, &node.resources[&id]);
            }
        }
        progress.early.insert(unit);
        self.ready.push_back(chunk);
    }

    /// Called before a node goes: it takes as long to write as it takes to let go of.
    pub fn save_all(&mut self, number: NodeNumber, node: &Node) {
        let Some(mut progress) = self.todo.remove(&number) else { return };
        while let Some(chunk) = progress.next_chunk(number, node) {
            self.ready.push_back(chunk);
        }
    }
}

impl Coord {
    /// Fixes the present state as a snapshot. Its chunks come from [`Coord::cut_step`].
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "one cut at a time");
        self.cut = Some(self.new_cut());
    }

    fn new_cut(&self) -> Cut {
        let todo = self.nodes.iter().map(|(&number, node)| (number, Progress::of(node))).collect();
        Cut { ready: VecDeque::from([self.head()]), todo }
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// Gives up a cut; the next one begins anew.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
    }

    /// The next chunk of the cut.
    pub fn cut_step(&mut self) -> CutStep {
        let cut = self.cut.as_mut().expect("only called during a cut");
        match next_of(cut, &self.nodes) {
            Some(chunk) => CutStep::Chunk(chunk),
            None => {
                self.cut = None;
                CutStep::Done
            }
        }
    }

    /// All chunks of the present state, whatever cut is running.
    pub(crate) fn each_chunk(&self, mut each: impl FnMut(&[u8])) {
        let mut cut = self.new_cut();
        while let Some(chunk) = next_of(&mut cut, &self.nodes) {
            each(&chunk);
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut out = vec![SNAPSHOT_FORMAT, CHUNK_HEAD];
        put_varint(&mut out, self.last_node);
        put_varint(&mut out, self.nodes.len() as u64);
        for (number, node) in &self.nodes {
            put_varint(&mut out, number.0);
            put_bytes(&mut out, node.path.as_str().as_bytes());
            node.config.encode(&mut out);
            for last in [node.last_session, node.last_semaphore, node.last_order, node.last_resource] {
                put_varint(&mut out, last);
            }
        }
        out
    }

    /// Takes in one chunk of a snapshot. The state must have begun empty, and the head comes first.
    pub fn restore_chunk(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(chunk);
        let format = reader.u8("chunk format")?;
        if !(FORMAT_WITHOUT_RESOURCES..=SNAPSHOT_FORMAT).contains(&format) {
            return Err(DecodeError::Unknown { what: "chunk format", value: u64::from(format) });
        }
        match reader.u8("chunk kind")? {
            CHUNK_HEAD => self.restore_head(&mut reader, format),
            CHUNK_SESSIONS => self.restore_sessions(&mut reader),
            CHUNK_SEMAPHORES => self.restore_semaphores(&mut reader),
            CHUNK_RESOURCES => self.restore_resources(&mut reader),
            kind => return Err(DecodeError::Unknown { what: "chunk kind", value: u64::from(kind) }),
        }?;
        reader.finish("chunk")
    }

    fn restore_head(&mut self, reader: &mut Reader<'_>, format: u8) -> Result<(), DecodeError> {
        self.last_node = reader.varint("last node")?;
        for _ in 0..reader.count("node count")? {
            let number = NodeNumber(reader.varint("node")?);
            let path = Path::parse(reader.text("path")?).ok_or(DecodeError::Unknown { what: "path", value: 0 })?;
            let mut node = Node::new(path.clone(), Config::decode(reader)?);
            node.last_session = reader.varint("last session")?;
            node.last_semaphore = reader.varint("last semaphore")?;
            node.last_order = reader.varint("last order")?;
            if format > FORMAT_WITHOUT_RESOURCES {
                node.last_resource = reader.varint("last resource")?;
            }
            #[cfg(feature = "mutants")]
            if self.is(crate::Mutant::OrderIdsBeginAnew) {
                node.last_order = 0;
            }
            self.paths.insert(path, number);
            self.nodes.insert(number, node);
        }
        Ok(())
    }

    fn restore_sessions(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, session) = read_session(reader)?;
            self.bytes += session.bytes();
            node.sessions.insert(id, session);
        }
        Ok(())
    }

    fn restore_semaphores(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, semaphore) = read_semaphore(reader)?;
            for (&order, claim) in semaphore.owners.iter().chain(&semaphore.waiters) {
                node.links.insert((claim.session, id), order);
                #[cfg(feature = "mutants")]
                if self.mutant == Some(crate::Mutant::OrderIdsBeginAnew) {
                    node.last_order = node.last_order.max(order.0);
                }
            }
            self.bytes += semaphore.bytes();
            node.names.insert(semaphore.name.clone(), id);
            node.semaphores.insert(id, semaphore);
        }
        Ok(())
    }

    fn restore_resources(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let (id, resource) = read_resource(reader)?;
            self.bytes += resource.bytes();
            node.resource_paths.insert(resource.path.clone(), id);
            node.resources.insert(id, resource);
        }
        Ok(())
    }
}

fn next_of(cut: &mut Cut, nodes: &BTreeMap<NodeNumber, Node>) -> Option<Vec<u8>> {
    loop {
        if let Some(chunk) = cut.ready.pop_front() {
            return Some(chunk);
        }
        let mut first = cut.todo.first_entry()?;
        let number = *first.key();
        match first.get_mut().next_chunk(number, &nodes[&number]) {
            Some(chunk) => return Some(chunk),
            None => first.remove(),
        };
    }
}

fn open_chunk(kind: u8, number: NodeNumber) -> Vec<u8> {
    let mut out = vec![SNAPSHOT_FORMAT, kind];
    put_varint(&mut out, number.0);
    out
}

fn restored_node<'a>(
    nodes: &'a mut BTreeMap<NodeNumber, Node>,
    reader: &mut Reader<'_>,
) -> Result<&'a mut Node, DecodeError> {
    let number = reader.varint("node")?;
    nodes.get_mut(&NodeNumber(number)).ok_or(DecodeError::Unknown { what: "node of a chunk", value: number })
}

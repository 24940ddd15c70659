//! Snapshots of a group, cut without stopping it.
//!
//! A cut fixes the state at one index. Sessions and semaphores are then written over many turns, in the order of their
//! numbers; one that is about to change before its turn is written first. Numbers only grow, so whatever came after the cut
//! is told by its number. What is derived (names, links, counts, bytes) is not written but made again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};

use crate::command::{read_flag, read_revision};
use crate::config::Config;
use crate::ids::{NodeNumber, OrderId, SemaphoreId, SessionId};
use crate::path::Path;
use crate::state::{Claim, Coord, Node, Semaphore, Session};

const SNAPSHOT_FORMAT: u8 = 1;
const CHUNK_HEAD: u8 = 1;
const CHUNK_SESSIONS: u8 = 2;
const CHUNK_SEMAPHORES: u8 = 3;

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
}

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
    /// Written ahead of their turn.
    early: BTreeSet<Unit>,
}

impl Progress {
    fn of(node: &Node) -> Self {
        let (sessions, semaphores) = ((1, node.last_session), (1, node.last_semaphore));
        Self { sessions, semaphores, early: BTreeSet::new() }
    }

    fn wants(&self, unit: Unit) -> bool {
        let ((from, to), number) = match unit {
            Unit::Session(id) => (self.sessions, id.0),
            Unit::Semaphore(id) => (self.semaphores, id.0),
        };
        (from..=to).contains(&number) && !self.early.contains(&unit)
    }

    /// The next chunk of the node, or nothing if it is all written.
    fn next_chunk(&mut self, number: NodeNumber, node: &Node) -> Option<Vec<u8>> {
        let mut chunk = open_chunk(CHUNK_SESSIONS, number);
        let empty = chunk.len();
        let (from, to) = self.sessions;
        for (&id, session) in node.sessions.range(SessionId(from)..).take_while(|(id, _)| id.0 <= to) {
            if !self.early.remove(&Unit::Session(id)) {
                put_session(&mut chunk, id, session);
            }
            self.sessions.0 = id.0 + 1;
            if chunk.len() >= CHUNK_BYTES {
                return Some(chunk);
            }
        }
        self.sessions.0 = to + 1;
        if chunk.len() > empty {
            return Some(chunk);
        }
        let mut chunk = open_chunk(CHUNK_SEMAPHORES, number);
        let (from, to) = self.semaphores;
        for (&id, semaphore) in node.semaphores.range(SemaphoreId(from)..).take_while(|(id, _)| id.0 <= to) {
            if !self.early.remove(&Unit::Semaphore(id)) {
                put_semaphore(&mut chunk, id, semaphore);
            }
            self.semaphores.0 = id.0 + 1;
            if chunk.len() >= CHUNK_BYTES {
                return Some(chunk);
            }
        }
        self.semaphores.0 = to + 1;
        (chunk.len() > empty).then_some(chunk)
    }
}

impl Cut {
    /// Called before any change of a session or a semaphore.
    pub fn save_before_change(&mut self, number: NodeNumber, node: &Node, unit: Unit) {
        let Some(progress) = self.todo.get_mut(&number).filter(|progress| progress.wants(unit)) else { return };
        let chunk = match unit {
            Unit::Session(id) => {
                let mut chunk = open_chunk(CHUNK_SESSIONS, number);
                put_session(&mut chunk, id, &node.sessions[&id]);
                chunk
            }
            Unit::Semaphore(id) => {
                let mut chunk = open_chunk(CHUNK_SEMAPHORES, number);
                put_semaphore(&mut chunk, id, &node.semaphores[&id]);
                chunk
            }
        };
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
            for last in [node.last_session, node.last_semaphore, node.last_order] {
                put_varint(&mut out, last);
            }
        }
        out
    }

    /// Takes in one chunk of a snapshot. The state must have begun empty, and the head comes first.
    pub fn restore_chunk(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(chunk);
        let format = reader.u8("chunk format")?;
        if format != SNAPSHOT_FORMAT {
            return Err(DecodeError::Unknown { what: "chunk format", value: u64::from(format) });
        }
        match reader.u8("chunk kind")? {
            CHUNK_HEAD => self.restore_head(&mut reader),
            CHUNK_SESSIONS => self.restore_sessions(&mut reader),
            CHUNK_SEMAPHORES => self.restore_semaphores(&mut reader),
            kind => return Err(DecodeError::Unknown { what: "chunk kind", value: u64::from(kind) }),
        }?;
        reader.finish("chunk")
    }

    fn restore_head(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.last_node = reader.varint("last node")?;
        for _ in 0..reader.count("node count")? {
            let number = NodeNumber(reader.varint("node")?);
            let path = Path::parse(reader.text("path")?).ok_or(DecodeError::Unknown { what: "path", value: 0 })?;
            let mut node = Node::new(path.clone(), Config::decode(reader)?);
            node.last_session = reader.varint("last session")?;
            node.last_semaphore = reader.varint("last semaphore")?;
            node.last_order = reader.varint("last order")?;
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
            let id = SessionId(reader.varint("session")?);
            let session = Session {
                timeout_ms: reader.varint("session timeout")?,
                description: reader.text("description")?.into(),
                protection_key: reader.bytes("protection key")?.into(),
            };
            self.bytes += session.bytes();
            node.sessions.insert(id, session);
        }
        Ok(())
    }

    fn restore_semaphores(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let node = restored_node(&mut self.nodes, reader)?;
        while !reader.is_empty() {
            let id = SemaphoreId(reader.varint("semaphore")?);
            let mut semaphore = Semaphore {
                name: reader.text("name")?.into(),
                limit: reader.varint("limit")?,
                count: 0,
                ephemeral: read_flag(reader)?,
                data: reader.bytes("data")?.into(),
                owners: read_claims(reader)?,
                waiters: read_claims(reader)?,
            };
            semaphore.count = sum_of(&semaphore)?;
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

fn put_session(out: &mut Vec<u8>, id: SessionId, session: &Session) {
    put_varint(out, id.0);
    put_varint(out, session.timeout_ms);
    put_bytes(out, session.description.as_bytes());
    put_bytes(out, &session.protection_key);
}

fn put_semaphore(out: &mut Vec<u8>, id: SemaphoreId, semaphore: &Semaphore) {
    put_varint(out, id.0);
    put_bytes(out, semaphore.name.as_bytes());
    put_varint(out, semaphore.limit);
    out.push(u8::from(semaphore.ephemeral));
    put_bytes(out, &semaphore.data);
    put_claims(out, &semaphore.owners);
    put_claims(out, &semaphore.waiters);
}

fn put_claims(out: &mut Vec<u8>, claims: &BTreeMap<OrderId, Claim>) {
    put_varint(out, claims.len() as u64);
    for (order, claim) in claims {
        for number in [order.0, claim.session.0, claim.count, claim.timeout_ms, u64::from(claim.revision)] {
            put_varint(out, number);
        }
        put_bytes(out, &claim.data);
    }
}

fn read_claims(reader: &mut Reader<'_>) -> Result<BTreeMap<OrderId, Claim>, DecodeError> {
    let mut claims = BTreeMap::new();
    for _ in 0..reader.count("claim count")? {
        let order = OrderId(reader.varint("order")?);
        let claim = Claim {
            session: SessionId(reader.varint("session")?),
            count: reader.varint("count")?,
            timeout_ms: reader.varint("acquire timeout")?,
            revision: read_revision(reader)?,
            data: reader.bytes("data")?.into(),
        };
        claims.insert(order, claim);
    }
    Ok(claims)
}

/// What the owners hold together. More than the limit is no state that ever was.
fn sum_of(semaphore: &Semaphore) -> Result<u64, DecodeError> {
    let held = semaphore.owners.values().try_fold(0u64, |sum, claim| sum.checked_add(claim.count));
    match held {
        Some(held) if held <= semaphore.limit => Ok(held),
        _ => Err(DecodeError::Unknown { what: "tokens held", value: held.unwrap_or(u64::MAX) }),
    }
}

//! Snapshots of a group, cut without stopping it.
//!
//! A cut fixes the state at one index. Nodes are then written over many turns, each with its sessions, semaphores, claims and
//! resources in the order of their numbers; what is about to change before its turn is written first, and a semaphore or node
//! that goes is kept as it was. Numbers only grow, so whatever came after the cut is told by its number. What is derived (names,
//! links, counts, bytes) is not written but made again. The stream is that of `shardine_model::stream`.

// In the order in which a newcomer should read them.
mod progress;
mod form;
mod restore;
mod summing;

use std::collections::{BTreeMap, VecDeque};

use shardine_model::GroupKind;
use shardine_model::codec::put_varint;
use shardine_model::stream::{Chunks, put_end, put_item};

use self::form::put_node;
use self::progress::Progress;
pub use self::restore::Restore;
use crate::ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
use crate::state::{Coord, Node, Semaphore};

/// The items of the stream. Frozen: a section that changes gets a new version, a new one a new number.
mod tag {
    /// What belongs to no node. Comes first.
    pub const HEAD: u8 = 1;
    /// A node without what is in it, which follows.
    pub const NODE: u8 = 2;
    pub const SESSIONS: u8 = 3;
    /// Without their claims, which follow.
    pub const SEMAPHORES: u8 = 4;
    pub const CLAIMS: u8 = 5;
    pub const RESOURCES: u8 = 6;
}

/// The version of every section, so far.
const VERSION: u8 = 1;
/// The head's, with the places that were given up.
const HEAD_VERSION: u8 = 2;

/// Bytes after which a step ends. One session, semaphore or claim may make a longer one.
const STEP_BYTES: usize = 64 << 10;

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
    Claim(SemaphoreId, OrderId),
    Resource(ResourceId),
}

/// A cut in progress.
#[derive(Debug)]
pub(crate) struct Cut {
    chunks: Chunks,
    /// Items that were written ahead of their turn.
    ahead: VecDeque<Vec<u8>>,
    /// Nodes that are not written to the end.
    todo: BTreeMap<NodeNumber, Progress>,
    /// Those of them that were dropped meanwhile.
    gone: BTreeMap<NodeNumber, Node>,
    has_ended: bool,
}

impl Cut {
    /// Called before anything of a node changes: its own numbers and settings may.
    pub fn save_node(&mut self, number: NodeNumber, node: &Node) {
        let Some(progress) = self.todo.get_mut(&number) else { return };
        if !std::mem::replace(&mut progress.has_node, true) {
            let mut item = Vec::new();
            put_node(&mut item, number, node);
            self.ahead.push_back(item);
        }
    }

    /// Called before any change of a session, a semaphore, a claim or a resource.
    pub fn save_before_change(&mut self, number: NodeNumber, node: &Node, unit: Unit) {
        if let Some(progress) = self.todo.get_mut(&number)
            && let Some(item) = progress.save(number, node, unit)
        {
            self.ahead.push_back(item);
        }
    }

    /// Called with a semaphore that is no longer there.
    pub fn keep_semaphore(&mut self, number: NodeNumber, id: SemaphoreId, semaphore: Semaphore) {
        if let Some(progress) = self.todo.get_mut(&number) {
            progress.keep(id, semaphore);
        }
    }

    /// Called with a node that is no longer there.
    pub fn keep_node(&mut self, number: NodeNumber, node: Node) {
        if self.todo.contains_key(&number) {
            self.gone.insert(number, node);
        }
    }

    /// The next chunk, of about so many bytes, or nothing when all were given.
    fn next_chunk(&mut self, nodes: &BTreeMap<NodeNumber, Node>, bytes: usize) -> Option<Vec<u8>> {
        if let Some(chunk) = self.chunks.take_rest() {
            return Some(chunk);
        }
        if self.has_ended {
            return None;
        }
        let mut chunk = self.chunks.open(0);
        let head = chunk.len();
        while chunk.len() < head + bytes && !self.has_ended {
            if !self.write_some(nodes, bytes, &mut chunk) {
                put_end(&mut chunk);
                self.has_ended = true;
            }
        }
        Some(self.chunks.close(chunk))
    }

    /// Writes what comes next; says if there was anything left.
    fn write_some(&mut self, nodes: &BTreeMap<NodeNumber, Node>, bytes: usize, out: &mut Vec<u8>) -> bool {
        if let Some(item) = self.ahead.pop_front() {
            out.extend_from_slice(&item);
            return true;
        }
        while let Some(mut first) = self.todo.first_entry() {
            let number = *first.key();
            let node = nodes.get(&number).or_else(|| self.gone.get(&number)).expect("a node that goes is kept");
            if first.get_mut().write_some(number, node, bytes, out) {
                return true;
            }
            first.remove();
            self.gone.remove(&number);
        }
        false
    }
}

impl Coord {
    /// Fixes the present state as a snapshot. Its chunks come from [`Coord::cut_step`].
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "one cut at a time");
        self.cut = Some(self.new_cut());
    }

    fn new_cut(&self) -> Cut {
        let mut head = Vec::new();
        // A group that has given nothing up says what it always said.
        let version = if self.given_up > 0 { HEAD_VERSION } else { VERSION };
        put_item(&mut head, tag::HEAD, version, |out| {
            put_varint(out, self.last_node);
            if version == HEAD_VERSION {
                put_varint(out, self.given_up);
            }
        });
        Cut {
            chunks: Chunks::new(GroupKind::Coordination),
            ahead: VecDeque::from([head]),
            todo: self.nodes.iter().map(|(&number, node)| (number, Progress::of(node))).collect(),
            gone: BTreeMap::new(),
            has_ended: false,
        }
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
        self.cut_step_of(STEP_BYTES)
    }

    /// The same with about so many bytes, one session, semaphore, claim or resource at the least.
    pub fn cut_step_of(&mut self, bytes: usize) -> CutStep {
        let cut = self.cut.as_mut().expect("only called during a cut");
        match cut.next_chunk(&self.nodes, bytes) {
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
        while let Some(chunk) = cut.next_chunk(&self.nodes, STEP_BYTES) {
            each(&chunk);
        }
    }
}

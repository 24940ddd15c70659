//! What every replica holds: nodes with their sessions, semaphores and resources, in ordered maps.
//!
//! Invariants: the sum of a semaphore's owners is its `count` and never above its limit; a claim's session is there, and
//! `links` has exactly one line for it; waiters stand in the order of their numbers; no number is given twice.

use std::collections::BTreeMap;
use std::ops::Bound;

use xxhash_rust::xxh3::Xxh3;

use crate::config::Config;
use crate::ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
use crate::limits::{CLAIM_COST, SEMAPHORE_COST, SESSION_COST};
use crate::outcome::{ClaimLine, ClaimRef, Description, NodeLine, Notice, Range, SemaphoreLine, SessionLine};
use crate::path::Path;
use crate::resources::Resource;
use crate::snapshot::{Cut, Unit};

/// The state of one coordination group.
#[derive(Debug, Default)]
pub struct Coord {
    pub(crate) nodes: BTreeMap<NodeNumber, Node>,
    pub(crate) paths: BTreeMap<Path, NodeNumber>,
    /// The last number that was given to a node.
    pub(crate) last_node: u64,
    /// No node is made for places of the cluster's map with this number or a lower one.
    pub(crate) given_up: u64,
    pub(crate) bytes: u64,
    pub(crate) cut: Option<Cut>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::Mutant>,
}

/// A coordination node.
#[derive(Debug)]
pub(crate) struct Node {
    pub path: Path,
    pub config: Config,
    // The last numbers given out. They only grow.
    pub last_session: u64,
    pub last_semaphore: u64,
    pub last_order: u64,
    pub last_resource: u64,
    pub sessions: BTreeMap<SessionId, Session>,
    pub semaphores: BTreeMap<SemaphoreId, Semaphore>,
    pub names: BTreeMap<Box<str>, SemaphoreId>,
    /// Every claim by its session: a session has at most one on a semaphore.
    pub links: BTreeMap<(SessionId, SemaphoreId), OrderId>,
    pub resources: BTreeMap<ResourceId, Resource>,
    pub resource_paths: BTreeMap<Box<str>, ResourceId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub timeout_ms: u64,
    pub description: Box<str>,
    /// Empty: anybody may come back to it.
    pub protection_key: Box<[u8]>,
}

#[derive(Debug)]
pub(crate) struct Semaphore {
    pub name: Box<str>,
    pub limit: u64,
    pub count: u64,
    pub ephemeral: bool,
    pub data: Box<[u8]>,
    pub owners: BTreeMap<OrderId, Claim>,
    pub waiters: BTreeMap<OrderId, Claim>,
}

/// Tokens that a session holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub session: SessionId,
    pub count: u64,
    pub timeout_ms: u64,
    /// Grows when a waiter asks again, so that a timeout of the older request cannot end the newer one.
    pub revision: u32,
    pub data: Box<[u8]>,
}

/// The group in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub nodes: u64,
    pub sessions: u64,
    pub semaphores: u64,
    pub bytes: u64,
}

impl Node {
    pub fn new(path: Path, config: Config) -> Self {
        Self {
            path,
            config,
            last_session: 0,
            last_semaphore: 0,
            last_order: 0,
            last_resource: 0,
            sessions: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            names: BTreeMap::new(),
            links: BTreeMap::new(),
            resources: BTreeMap::new(),
            resource_paths: BTreeMap::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        let sessions: u64 = self.sessions.values().map(Session::bytes).sum();
        let semaphores: u64 = self.semaphores.values().map(Semaphore::bytes).sum();
        sessions + semaphores + self.resources.values().map(Resource::bytes).sum::<u64>()
    }
}

impl Session {
    pub fn bytes(&self) -> u64 {
        SESSION_COST + self.description.len() as u64
    }
}

impl Semaphore {
    pub fn bytes(&self) -> u64 {
        let claims = self.owners.values().chain(self.waiters.values()).map(Claim::bytes);
        self.own_bytes() + claims.sum::<u64>()
    }

    /// Without its claims. The name stands there twice: once for looking it up.
    pub fn own_bytes(&self) -> u64 {
        SEMAPHORE_COST + 2 * self.name.len() as u64 + self.data.len() as u64
    }

    /// With so many owners and waiters at most.
    fn describe(&self, owners_max: usize, waiters_max: usize) -> Description {
        let line = |(&order, claim): (&OrderId, &Claim)| ClaimLine {
            order,
            session: claim.session,
            timeout_ms: claim.timeout_ms,
            count: claim.count,
            data: claim.data.to_vec(),
        };
        let owner_line = |found: (&OrderId, &Claim)| ClaimLine { timeout_ms: 0, ..line(found) };
        Description {
            name: self.name.to_string(),
            data: self.data.to_vec(),
            limit: self.limit,
            count: self.count,
            ephemeral: self.ephemeral,
            owners: self.owners.iter().take(owners_max).map(owner_line).collect(),
            waiters: self.waiters.iter().take(waiters_max).map(line).collect(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.owners.is_empty() && self.waiters.is_empty()
    }

    /// Whether so many more tokens are free.
    pub fn has_room_for(&self, count: u64) -> bool {
        // Never more than the limit is held: the subtraction fails only where a bug was planted.
        self.limit.checked_sub(self.count).is_some_and(|free| free >= count)
    }
}

impl Claim {
    pub fn bytes(&self) -> u64 {
        CLAIM_COST + self.data.len() as u64
    }
}

impl Coord {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn totals(&self) -> Totals {
        let nodes = self.nodes.values();
        let (sessions, semaphores) = nodes.fold((0, 0), |(sessions, semaphores), node| {
            (sessions + node.sessions.len() as u64, semaphores + node.semaphores.len() as u64)
        });
        Totals { nodes: self.nodes.len() as u64, sessions, semaphores, bytes: self.bytes }
    }

    #[must_use]
    pub fn find_node(&self, path: &str) -> Option<NodeNumber> {
        self.paths.get(&Path::parse(path)?).copied()
    }

    #[must_use]
    pub fn config(&self, node: NodeNumber) -> Option<Config> {
        self.nodes.get(&node).map(|node| node.config)
    }

    /// A node's settings and its own name, as its description tells them.
    #[must_use]
    pub fn describe_node(&self, path: &str) -> Option<(String, Config)> {
        let node = &self.nodes[&self.find_node(path)?];
        Some((node.path.name().to_owned(), node.config))
    }

    pub fn list_nodes(&self) -> impl Iterator<Item = NodeLine> {
        self.paths.values().map(|number| {
            let node = &self.nodes[number];
            NodeLine {
                path: node.path.to_string(),
                config: node.config,
                sessions: node.sessions.len() as u64,
                semaphores: node.semaphores.len() as u64,
            }
        })
    }

    /// Sessions with higher numbers than `after`.
    pub fn list_sessions(&self, node: NodeNumber, after: u64) -> impl Iterator<Item = SessionLine> {
        let node = self.nodes.get(&node);
        let sessions = node.map(|node| node.sessions.range((Bound::Excluded(SessionId(after)), Bound::Unbounded)));
        sessions.into_iter().flatten().map(move |(&id, session)| {
            let all = (id, SemaphoreId(0))..=(id, SemaphoreId(u64::MAX));
            SessionLine {
                id,
                timeout_ms: session.timeout_ms,
                description: session.description.to_string(),
                claims: node.map_or(0, |node| node.links.range(all).count() as u64),
            }
        })
    }

    /// Semaphores by name, each with so many owners and waiters at most: there may be a million of them.
    pub fn list_semaphores(
        &self,
        number: NodeNumber,
        range: Range<'_>,
        claims_max: usize,
    ) -> impl Iterator<Item = SemaphoreLine> {
        let bounds: (Bound<&str>, Bound<&str>) = match range {
            Range::All => (Bound::Unbounded, Bound::Unbounded),
            Range::After(name) => (Bound::Excluded(name), Bound::Unbounded),
            Range::Named(name) => (Bound::Included(name), Bound::Included(name)),
        };
        let node = self.nodes.get(&number);
        let found = node.map(|node| node.names.range::<str, _>(bounds).map(|(_, id)| &node.semaphores[id]));
        found.into_iter().flatten().map(move |semaphore| SemaphoreLine {
            description: semaphore.describe(claims_max, claims_max),
            owners: semaphore.owners.len() as u64,
            waiters: semaphore.waiters.len() as u64,
        })
    }

    #[must_use]
    pub fn find_semaphore(&self, node: NodeNumber, name: &str) -> Option<SemaphoreId> {
        self.nodes.get(&node)?.names.get(name).copied()
    }

    /// Owners and waiters only where they are asked for: they may be many.
    #[must_use]
    pub fn describe(&self, node: NodeNumber, name: &str, owners: bool, waiters: bool) -> Option<Description> {
        let semaphore = &self.nodes.get(&node)?.semaphores[&self.find_semaphore(node, name)?];
        let all = |included| if included { usize::MAX } else { 0 };
        Some(semaphore.describe(all(owners), all(waiters)))
    }

    /// Two replicas at the same index have the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.each_chunk(|chunk| hash.update(chunk));
        hash.digest()
    }

    pub(crate) fn edit<'a>(&'a mut self, number: NodeNumber, notices: &'a mut Vec<Notice>) -> Option<NodeEdit<'a>> {
        let node = self.nodes.get_mut(&number)?;
        if let Some(cut) = &mut self.cut {
            cut.save_node(number, node);
        }
        Some(NodeEdit {
            number,
            node,
            cut: &mut self.cut,
            bytes: &mut self.bytes,
            notices,
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
        })
    }
}

/// One node while a command works on it. All changes of sessions, semaphores and resources go through here, so that a running cut
/// gets what it has not written yet before it changes, and bytes are counted.
pub(crate) struct NodeEdit<'a> {
    pub number: NodeNumber,
    pub node: &'a mut Node,
    cut: &'a mut Option<Cut>,
    pub bytes: &'a mut u64,
    pub notices: &'a mut Vec<Notice>,
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

impl NodeEdit<'_> {
    pub fn place(&self, semaphore: SemaphoreId, order: OrderId) -> ClaimRef {
        ClaimRef { node: self.number, semaphore, order }
    }

    fn save(&mut self, unit: Unit) {
        if let Some(cut) = self.cut {
            cut.save_before_change(self.number, self.node, unit);
        }
    }

    pub fn session_mut(&mut self, id: SessionId) -> &mut Session {
        self.save(Unit::Session(id));
        self.node.sessions.get_mut(&id).expect("the caller has seen it")
    }

    pub fn add_session(&mut self, session: Session) -> SessionId {
        self.node.last_session += 1;
        let id = SessionId(self.node.last_session);
        *self.bytes += session.bytes();
        self.node.sessions.insert(id, session);
        id
    }

    pub fn remove_session(&mut self, id: SessionId) {
        self.save(Unit::Session(id));
        let session = self.node.sessions.remove(&id).expect("the caller has seen it");
        *self.bytes -= session.bytes();
    }

    pub fn semaphore(&self, id: SemaphoreId) -> &Semaphore {
        &self.node.semaphores[&id]
    }

    pub fn set_data(&mut self, id: SemaphoreId, data: &[u8]) {
        self.save(Unit::Semaphore(id));
        self.node.semaphores.get_mut(&id).expect("the caller has seen it").data = data.into();
    }

    /// The semaphore of a claim that is made, changed or moved. Others of its claims must stay as they are.
    pub fn claims_mut(&mut self, id: SemaphoreId, order: OrderId) -> &mut Semaphore {
        self.save(Unit::Claim(id, order));
        self.node.semaphores.get_mut(&id).expect("the caller has seen it")
    }

    pub fn add_semaphore(&mut self, semaphore: Semaphore) -> SemaphoreId {
        self.node.last_semaphore += 1;
        let id = SemaphoreId(self.node.last_semaphore);
        *self.bytes += semaphore.bytes();
        self.node.names.insert(semaphore.name.clone(), id);
        self.node.semaphores.insert(id, semaphore);
        id
    }

    pub fn remove_semaphore(&mut self, id: SemaphoreId) {
        let semaphore = self.node.semaphores.remove(&id).expect("the caller has seen it");
        *self.bytes -= semaphore.bytes();
        self.node.names.remove(&semaphore.name);
        for claim in semaphore.owners.values().chain(semaphore.waiters.values()) {
            self.node.links.remove(&(claim.session, id));
        }
        if let Some(cut) = self.cut {
            cut.keep_semaphore(self.number, id, semaphore);
        }
        self.notices.push(Notice::SemaphoreGone { node: self.number, semaphore: id });
    }

    pub fn resource_mut(&mut self, id: ResourceId) -> &mut Resource {
        self.save(Unit::Resource(id));
        self.node.resources.get_mut(&id).expect("the caller has seen it")
    }

    pub fn add_resource(&mut self, resource: Resource) -> ResourceId {
        self.node.last_resource += 1;
        let id = ResourceId(self.node.last_resource);
        *self.bytes += resource.bytes();
        self.node.resource_paths.insert(resource.path.clone(), id);
        self.node.resources.insert(id, resource);
        id
    }

    pub fn remove_resource(&mut self, id: ResourceId) {
        self.save(Unit::Resource(id));
        let resource = self.node.resources.remove(&id).expect("the caller has seen it");
        *self.bytes -= resource.bytes();
        self.node.resource_paths.remove(&resource.path);
    }
}

//! Who this process is, who the others are, where they can be reached, and which of their starts were seen.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use anyhow::Context;
use shardine_model::NodeId;
use shardine_store::{DataDir, NodeFile};
use shardine_transport::{
    Admission, Hello, LinkKind, Local, PROTOCOL_VERSION, PROTOCOL_VERSION_LEAST, Refusal, Sightings, Standing, Welcome,
    Who,
};

use crate::atlas::Sheet;

pub(crate) struct Book {
    who: Who,
    data: Arc<DataDir>,
    sightings: Mutex<Sightings>,
    peers: RwLock<Peers>,
    addresses: Mutex<BTreeMap<NodeId, SocketAddr>>,
}

/// The others, as the newest map has them.
struct Peers {
    sheet: Arc<Sheet>,
    /// Name and peer address.
    known: BTreeMap<NodeId, (String, String)>,
}

impl Peers {
    fn of(sheet: &Arc<Sheet>, own: NodeId) -> Self {
        let others = sheet.full.members().filter(|node| node.node != own);
        let known = others.map(|node| (node.node, (node.name.clone(), node.addresses.peer.clone()))).collect();
        Self { sheet: Arc::clone(sheet), known }
    }
}

impl Book {
    /// Takes up what earlier starts have seen of the others.
    pub fn open(who: Who, sheet: &Arc<Sheet>, data: Arc<DataDir>) -> anyhow::Result<Self> {
        let bytes = data.load_file(NodeFile::Peers)?;
        let sightings = bytes.map(|bytes| Sightings::decode(&bytes)).transpose();
        let sightings = sightings.context("the file PEERS in the data directory")?.unwrap_or_default();
        let peers = RwLock::new(Peers::of(sheet, who.node));
        Ok(Self { who, data, sightings: Mutex::new(sightings), peers, addresses: Mutex::default() })
    }

    /// There is a new map. A node that is at another address is looked for there.
    pub fn turn_to(&self, sheet: &Arc<Sheet>) {
        let next = Peers::of(sheet, self.who.node);
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        let address = |peers: &Peers, node: &NodeId| peers.known.get(node).map(|(_, address)| address.clone());
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.retain(|node, _| address(&peers, node) == address(&next, node));
        *peers = next;
    }

    fn read(&self) -> RwLockReadGuard<'_, Peers> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn own(&self) -> NodeId {
        self.who.node
    }

    /// Grows with every start of this process.
    pub fn incarnation(&self) -> u64 {
        self.who.incarnation
    }

    /// The other nodes.
    pub fn peers(&self) -> Vec<NodeId> {
        self.read().known.keys().copied().collect()
    }

    pub fn name(&self, node: NodeId) -> String {
        self.read().known.get(&node).map_or_else(|| "?".to_owned(), |(name, _)| name.clone())
    }

    /// The version of the map that this node has.
    pub fn map_version(&self) -> u64 {
        self.read().sheet.version()
    }

    pub fn hello(&self, kind: LinkKind, to: NodeId, lane: usize) -> Hello {
        Hello { lane: u16::try_from(lane).unwrap_or(u16::MAX), ..Hello::new(self.who.clone(), kind, to) }
    }

    pub fn welcome(&self, to: &Hello) -> Welcome {
        Welcome::new(self.who.clone(), to)
    }

    /// Whether somebody who has dialled may stay. A start that was not seen before is on disk when this returns.
    pub fn admit(&self, hello: &Hello) -> Result<(), Refusal> {
        let mut sightings = self.lock();
        let admission = Local { who: &self.who, sightings: &sightings }.admit(hello, self.standing(hello.who.node))?;
        self.remember(&mut sightings, admission);
        Ok(())
    }

    /// The same for one that was dialled and has answered.
    pub fn admit_acceptor(&self, hello: &Hello, welcome: &Welcome) -> Result<(), Refusal> {
        let mut sightings = self.lock();
        let local = Local { who: &self.who, sightings: &sightings };
        let admission = local.admit_acceptor(hello, welcome, self.standing(welcome.who.node))?;
        self.remember(&mut sightings, admission);
        Ok(())
    }

    /// One that is not on the map may have come since.
    fn standing(&self, node: NodeId) -> Standing {
        if self.read().sheet.is_removed(node) { Standing::Removed } else { Standing::Fine }
    }

    fn remember(&self, sightings: &mut Sightings, admission: Admission) {
        let Admission::Remember(node, sighting) = admission else { return };
        if sightings.note(node, sighting)
            && let Err(error) = self.data.save_file(NodeFile::Peers, &sightings.to_bytes())
        {
            // A second copy of that node's directory could not be told from it after the next start.
            tracing::error!(%error, "what was seen of a node cannot be kept: stopping at once");
            std::process::exit(74);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sightings> {
        self.sightings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one that speaks none of our versions is told.
    pub fn other_version(&self) -> Refusal {
        Refusal::OtherVersion { newest: PROTOCOL_VERSION, least: PROTOCOL_VERSION_LEAST }
    }

    /// Where a node can be dialled, as far as that was found out.
    pub fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// Finds out where a node is. May wait for a name server, which a lane must not.
    pub fn resolve(&self, node: NodeId) -> Option<SocketAddr> {
        let text = self.read().known.get(&node)?.1.clone();
        let address = text.to_socket_addrs().ok()?.next()?;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(node, address);
        Some(address)
    }
}

//! Who this process is, who the others are, where they can be reached, and which of their starts were seen.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use shardine_model::NodeId;
use shardine_router::ClusterMap;
use shardine_store::{DataDir, NodeFile};
use shardine_transport::{
    Admission, Hello, LinkKind, Local, PROTOCOL_VERSION, PROTOCOL_VERSION_LEAST, Refusal, Sightings, Standing, Welcome,
    Who,
};

pub(crate) struct Book {
    who: Who,
    data: Arc<DataDir>,
    sightings: Mutex<Sightings>,
    names: BTreeMap<NodeId, String>,
    addresses: Mutex<BTreeMap<NodeId, SocketAddr>>,
    peers: BTreeMap<NodeId, String>,
}

impl Book {
    /// Takes up what earlier starts have seen of the others.
    pub fn open(who: Who, map: &ClusterMap, data: Arc<DataDir>) -> anyhow::Result<Self> {
        let bytes = data.load_file(NodeFile::Peers)?;
        let sightings = bytes.map(|bytes| Sightings::decode(&bytes)).transpose();
        let sightings = sightings.context("the file PEERS in the data directory")?.unwrap_or_default();
        let others = map.nodes.iter().filter(|entry| entry.node != who.node);
        let peers = others.clone().map(|entry| (entry.node, entry.addresses.peer.clone())).collect();
        let names = others.map(|entry| (entry.node, entry.name.clone())).collect();
        Ok(Self { who, data, sightings: Mutex::new(sightings), names, addresses: Mutex::default(), peers })
    }

    pub fn own(&self) -> NodeId {
        self.who.node
    }

    /// The other nodes.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.peers.keys().copied()
    }

    pub fn name(&self, node: NodeId) -> &str {
        self.names.get(&node).map_or("?", String::as_str)
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

    fn standing(&self, node: NodeId) -> Standing {
        if node == self.who.node || self.peers.contains_key(&node) { Standing::Fine } else { Standing::Removed }
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
        let text = self.peers.get(&node)?;
        let address = text.to_socket_addrs().ok()?.next()?;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(node, address);
        Some(address)
    }
}

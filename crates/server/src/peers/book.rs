//! Who this process is, who the others are, where they can be reached, and which of their starts were seen.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use anyhow::Context;
use shardine_host::Speakers;
use shardine_model::{ClusterMap, DoorAddresses, NodeId, ReplicaId, ShardId};
use shardine_router::Whereabouts;
use shardine_store::{DataDir, NodeFile};
use shardine_transport::{
    Admission, Hello, LinkKind, Local, PROTOCOL_VERSION, PROTOCOL_VERSION_LEAST, Refusal, Sightings, Standing, Welcome,
    Who,
};

use shardine_shard::meta::Settings;

use crate::atlas::Sheet;

pub(crate) struct Book {
    who: Who,
    data: Arc<DataDir>,
    sightings: Mutex<Sightings>,
    peers: RwLock<Peers>,
    addresses: Mutex<BTreeMap<NodeId, SocketAddr>>,
    /// Where nodes have said that they are, this one among them. Counts where the map knows only of an earlier start.
    met: Mutex<BTreeMap<NodeId, Whereabouts>>,
    /// Who has spoken on any lane.
    speakers: Mutex<Speakers>,
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
    pub fn open(who: Who, own: DoorAddresses, sheet: &Arc<Sheet>, data: Arc<DataDir>) -> anyhow::Result<Self> {
        let bytes = data.load_file(NodeFile::Peers)?;
        let sightings = bytes.map(|bytes| Sightings::decode(&bytes)).transpose();
        let sightings = sightings.context("the file PEERS in the data directory")?.unwrap_or_default();
        let peers = RwLock::new(Peers::of(sheet, who.node));
        let own = Whereabouts { node: who.node, incarnation: who.incarnation, addresses: own };
        let met = Mutex::new(BTreeMap::from([(who.node, own)]));
        let (addresses, speakers) = (Mutex::default(), Mutex::default());
        Ok(Self { who, data, sightings: Mutex::new(sightings), peers, addresses, met, speakers })
    }

    /// There is a new map. A node that is at another address is looked for there.
    pub fn turn_to(&self, sheet: &Arc<Sheet>) {
        let next = Peers::of(sheet, self.who.node);
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        let met = self.met_nodes();
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.retain(|node, _| text(&peers, &met, *node) == text(&next, &met, *node));
        *peers = next;
        self.speakers().turn_to(&sheet.cluster);
    }

    fn speakers(&self) -> MutexGuard<'_, Speakers> {
        self.speakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A replica has spoken from a node for the first time.
    pub fn heard(&self, shard: ShardId, replica: ReplicaId, from: NodeId) {
        self.speakers().hear(shard, replica, from);
    }

    /// Where a replica lives: as a map says, or, where that is too old to know it, as it has spoken.
    pub fn node_of(&self, map: &ClusterMap, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        map.node_of(shard, replica).or_else(|| self.speakers().find(map, shard, replica))
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

    /// Bytes of snapshots that this node may send in a second.
    pub fn bulk_speed(&self) -> u64 {
        Settings::of(&self.read().sheet.full.settings).speed_bytes
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

    /// In words: as the node has said since its newest start, or as the map has it.
    fn whereabouts(&self, node: NodeId) -> Option<String> {
        text(&self.read(), &self.met_nodes(), node)
    }

    fn met_nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, Whereabouts>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node says where it is, or somebody who has met it. Who it is it proves when it is dialled. May wait for a name server.
    pub fn meet(&self, one: Whereabouts) {
        let node = one.node;
        if node == self.who.node || !self.read().known.contains_key(&node) {
            return;
        }
        let before = self.whereabouts(node);
        {
            let mut met = self.met_nodes();
            if met.get(&node).is_some_and(|known| known.incarnation >= one.incarnation) {
                return;
            }
            met.insert(node, one);
        }
        if self.whereabouts(node) != before {
            self.resolve(node);
        }
    }

    /// This directory is an old or a second copy, and says so from now on. Every start counts: one that went on trying would be
    /// taken for the newest when it has started often enough.
    pub fn give_up(&self, why: &str) {
        if let Err(error) = self.data.save_file(NodeFile::Refused, why.as_bytes()) {
            tracing::error!(%error, "that the directory is of no use cannot be written into it: do not start it again");
        }
    }

    /// This node, and all that it has met.
    pub fn met(&self) -> Vec<Whereabouts> {
        self.met_nodes().values().cloned().collect()
    }

    /// Finds out where a node is. May wait for a name server, which a lane must not.
    pub fn resolve(&self, node: NodeId) -> Option<SocketAddr> {
        let address = self.whereabouts(node)?.to_socket_addrs().ok()?.next()?;
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(node, address);
        Some(address)
    }
}

/// What a node has said counts where the map knows only of an earlier start.
fn text(peers: &Peers, met: &BTreeMap<NodeId, Whereabouts>, node: NodeId) -> Option<String> {
    let known = peers.sheet.full.nodes.get(&node).map_or(0, |node| node.incarnation);
    let newer = met.get(&node).filter(|met| met.incarnation > known).map(|met| met.addresses.peer.clone());
    newer.or_else(|| peers.known.get(&node).map(|(_, address)| address.clone()))
}

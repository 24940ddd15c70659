//! How nodes without a cluster become one: some wait for each other, one of them is told to begin, and makes the first map.
//!
//! An empty directory never makes a cluster by itself: a lost or unmounted disk and the same line of a unit file must not
//! begin an empty one over the same SQL.

use std::collections::BTreeMap;

use shardine_model::key::Interval;
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, ErrorCode, Generation, GroupKind, NodeEntry,
    NodeId, Placement, RangeVersion, Refusal, ReplicaId, ShardId, ShardState,
};

/// Replicas of a group, if there are as many nodes. Two would be worse than one: either one's loss stops both.
const REPLICAS: usize = 3;
/// Those of the map's own group, which nothing can be changed without.
const META_REPLICAS: usize = 5;

/// Coordination groups of a cluster, or of a node that is alone. Those of a node share a thread and its log writes, so more of them
/// would gain nothing.
pub const COORD_GROUPS_MAX: u32 = 64;

/// A node that asks to belong to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applicant {
    pub name: String,
    pub zone: String,
    pub addresses: DoorAddresses,
    /// Whether it is to hold no data: it founds no cluster, and joins the one that others have made.
    pub is_gateway: bool,
    /// Drawn at its start: tells one that asks again from another one of the same name.
    pub start: u64,
}

/// What a new cluster is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub sql: String,
    pub shards: u32,
    pub coord_groups: u32,
    /// Fewer nodes than this are refused; 0 takes those that wait.
    pub nodes: usize,
}

/// Nodes that wait for a cluster at one of them.
#[derive(Debug)]
pub struct WaitingRoom {
    own: Applicant,
    others: BTreeMap<String, (Applicant, u64)>,
}

/// Milliseconds after which one that has not asked again has left.
const LEFT_AFTER_MS: u64 = 5_000;

impl WaitingRoom {
    #[must_use]
    pub fn new(own: Applicant) -> Self {
        Self { own, others: BTreeMap::new() }
    }

    /// Takes note of one that asks. A name belongs to the first one that has it, until that one has left.
    pub fn enter(&mut self, applicant: Applicant, now_ms: u64) -> Result<(), Refusal> {
        self.others.retain(|_, (_, seen_ms)| now_ms.saturating_sub(*seen_ms) <= LEFT_AFTER_MS);
        let known = if applicant.name == self.own.name {
            Some(&self.own)
        } else {
            self.others.get(&applicant.name).map(|(known, _)| known)
        };
        if known.is_some_and(|known| known.start != applicant.start) {
            let message = format!("another node is called {:?} already: give this one another --name", applicant.name);
            return Err(Refusal::new(ErrorCode::Exists, message));
        }
        if applicant.name != self.own.name {
            self.others.insert(applicant.name.clone(), (applicant, now_ms));
        }
        Ok(())
    }

    /// Their names, one's own first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        std::iter::once(&self.own.name).chain(self.others.keys()).cloned().collect()
    }

    /// Those besides oneself that will hold data of the cluster. Gateways find it when it is there.
    pub fn founders(&self) -> impl Iterator<Item = &Applicant> {
        self.others.values().map(|(applicant, _)| applicant).filter(|applicant| !applicant.is_gateway)
    }

    /// The first map. Numbers go by names, so that whoever looks at them is not surprised; the node that is asked has no
    /// privilege.
    pub fn form(&self, cluster: u128, plan: &Plan) -> Result<First, Refusal> {
        if plan.coord_groups == 0 || plan.coord_groups > COORD_GROUPS_MAX {
            let asked = plan.coord_groups;
            let message = format!("--coord-groups {asked}: there may be 1 to {COORD_GROUPS_MAX} coordination groups");
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        let mut applicants: Vec<&Applicant> = std::iter::once(&self.own).chain(self.founders()).collect();
        if self.own.is_gateway {
            let message = format!("node {} is a gateway and holds no data: ask one that does", self.own.name);
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        applicants.sort_by(|one, other| one.name.cmp(&other.name));
        if applicants.len() < plan.nodes {
            let names: Vec<&str> = applicants.iter().map(|one| one.name.as_str()).collect();
            let message = format!("{} of {} nodes wait here: {}", names.len(), plan.nodes, names.join(", "));
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        let starts = applicants.iter().map(|one| one.start).collect();
        let nodes: Vec<NodeEntry> = applicants.into_iter().zip(1..).map(|(one, number)| entry(one, number)).collect();
        let cuts = Interval::cut_evenly(plan.shards).into_iter().map(Bounds::from);
        let records = cuts.zip(1..).map(|(bounds, number)| (ShardId(number), bounds));
        let first = ShardId::FIRST_COORDINATION.0;
        let coordination = (first..first + plan.coord_groups).map(|number| (ShardId(number), Bounds::default()));
        let meta = (ShardId::META, Bounds::default());
        let groups =
            records.chain(coordination).chain([meta]).map(|(shard, bounds)| group(shard, bounds, &nodes)).collect();
        let map = ClusterMap { cluster, version: 1, nodes, groups, sql: plan.sql.clone() };
        map.check().map_err(|error| Refusal::new(ErrorCode::BadRequest, error.to_string()))?;
        Ok(First { map, starts })
    }
}

/// A cluster that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    pub map: ClusterMap,
    /// What was drawn at the start of each node, in their order: only that start of it is told its number.
    pub starts: Vec<u64>,
}

fn entry(applicant: &Applicant, number: u64) -> NodeEntry {
    let Applicant { name, zone, addresses, is_gateway: _, start: _ } = applicant.clone();
    NodeEntry { node: NodeId(number), name, zone, addresses }
}

/// A group's first members: neighbours in the ring of nodes, beginning at another node for each group, zones apart first.
fn group(shard: ShardId, bounds: Bounds, nodes: &[NodeEntry]) -> Descriptor {
    let count = match (shard.kind(), nodes.len()) {
        (GroupKind::Meta, META_REPLICAS..) => META_REPLICAS,
        (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, REPLICAS..) => REPLICAS,
        (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, _) => 1,
    };
    let begin = shard.0 as usize % nodes.len();
    let ring = || nodes.iter().cycle().skip(begin).take(nodes.len());
    let mut chosen: Vec<&NodeEntry> = Vec::new();
    for entry in ring() {
        if chosen.len() < count && chosen.iter().all(|one| one.zone != entry.zone) {
            chosen.push(entry);
        }
    }
    for entry in ring() {
        if chosen.len() < count && chosen.iter().all(|one| one.node != entry.node) {
            chosen.push(entry);
        }
    }
    let mut all: Vec<NodeId> = chosen.into_iter().map(|entry| entry.node).collect();
    all.sort_unstable();
    // A replica's number is given once for each group; these are the first.
    let place = |(node, number)| Placement { node, replica: ReplicaId(number) };
    let voters: Vec<Placement> = all.into_iter().zip(1..).map(place).collect();
    let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
    Descriptor { shard, epoch, state: ShardState::Serving, bounds, voters, learners: Vec::new() }
}

/// How a waiting or a running node answers those that ask to belong to its cluster, and whoever tells it to begin.
pub trait Formation: Send + Sync {
    /// The map, if there is a cluster, and the number of the node that asks; else who waits.
    fn join(&self, applicant: Applicant) -> Result<Joined, Refusal>;

    /// A node of the cluster says where it is, and hears where those are that this one knows better than the map.
    fn meet(&self, cluster: u128, own: Whereabouts) -> Result<Vec<Whereabouts>, Refusal>;

    /// Makes the cluster.
    fn init(&self, plan: Plan) -> Result<Made, Refusal>;
}

/// Where a node is since its newest start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub node: NodeId,
    /// How often it has started: the highest counts.
    pub incarnation: u64,
    pub addresses: DoorAddresses,
}

/// What one that asks is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    Waiting(Vec<String>),
    /// The map as bytes: only those who have a place in it read it.
    Formed {
        cluster: u128,
        node: NodeId,
        map: Vec<u8>,
    },
}

/// A cluster that was made, and the names of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub cluster: u128,
    pub nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applicant(name: &str, zone: &str) -> Applicant {
        let (addresses, is_gateway) = (DoorAddresses::default(), false);
        Applicant { name: name.into(), zone: zone.into(), addresses, is_gateway, start: 1 }
    }

    fn room(names: &[&str]) -> WaitingRoom {
        let mut room = WaitingRoom::new(applicant(names[0], ""));
        names[1..].iter().for_each(|name| room.enter(applicant(name, ""), 0).unwrap());
        room
    }

    fn plan(nodes: usize) -> Plan {
        Plan { sql: "none".into(), shards: 4, coord_groups: 1, nodes }
    }

    #[test]
    fn three_nodes_hold_every_group_three_times_under_numbers_of_their_own() {
        let map = room(&["c", "a", "b"]).form(7, &plan(3)).unwrap().map;

        assert_eq!(
            map.nodes.iter().map(|node| (node.node.0, node.name.as_str())).collect::<Vec<_>>(),
            [(1, "a"), (2, "b"), (3, "c")]
        );
        assert_eq!(map.groups_of(GroupKind::Records).count(), 4);
        assert_eq!(map.groups_of(GroupKind::Coordination).count(), 1);
        assert!(map.group(ShardId::META).is_some());
        for group in &map.groups {
            assert_eq!(group.voters.iter().map(|one| one.replica.0).collect::<Vec<_>>(), [1, 2, 3]);
        }
    }

    #[test]
    fn a_cluster_may_have_several_coordination_groups_and_not_too_many() {
        let form = |coord_groups| room(&["a", "b", "c"]).form(7, &Plan { coord_groups, ..plan(3) });

        let map = form(4).unwrap().map;

        assert_eq!(map.groups_of(GroupKind::Coordination).count(), 4);
        assert_eq!(form(0).unwrap_err().code, ErrorCode::BadRequest);
        assert!(form(COORD_GROUPS_MAX).is_ok());
        assert_eq!(form(COORD_GROUPS_MAX + 1).unwrap_err().code, ErrorCode::BadRequest);
    }

    #[test]
    fn two_nodes_hold_a_group_once_for_two_are_worse_than_one() {
        let map = room(&["a", "b"]).form(7, &plan(2)).unwrap().map;

        assert!(map.groups.iter().all(|group| group.voters.len() == 1));
    }

    #[test]
    fn replicas_of_five_nodes_go_to_different_zones_first() {
        let mut room = WaitingRoom::new(applicant("a", "east"));
        for (name, zone) in [("b", "east"), ("c", "east"), ("d", "west"), ("e", "north")] {
            room.enter(applicant(name, zone), 0).unwrap();
        }

        let map = room.form(7, &plan(5)).unwrap().map;

        assert_eq!(map.group(ShardId::META).unwrap().voters.len(), 5);
        for group in map.groups.iter().filter(|group| group.shard != ShardId::META) {
            let mut zones: Vec<&str> =
                group.voters.iter().map(|one| map.node(one.node).unwrap().zone.as_str()).collect();
            zones.sort_unstable();
            assert_eq!(zones, ["east", "north", "west"]);
        }
    }

    #[test]
    fn a_missing_node_is_waited_for_and_one_that_left_is_missing() {
        let mut room = room(&["a", "b"]);

        let refusal = room.form(7, &plan(3)).unwrap_err();
        assert_eq!(refusal.message, "2 of 3 nodes wait here: a, b");

        room.enter(applicant("c", ""), LEFT_AFTER_MS + 1).unwrap();
        assert_eq!(room.names(), ["a", "c"]);
    }

    #[test]
    fn a_gateway_founds_nothing() {
        let mut room = room(&["b", "c"]);
        room.enter(Applicant { is_gateway: true, ..applicant("a", "") }, 0).unwrap();

        let refusal = room.form(7, &plan(3)).unwrap_err();
        assert_eq!(refusal.message, "2 of 3 nodes wait here: b, c");
        let map = room.form(7, &plan(2)).unwrap().map;
        assert_eq!(map.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);

        let own = WaitingRoom::new(Applicant { is_gateway: true, ..applicant("a", "") });
        assert_eq!(own.form(7, &plan(0)).unwrap_err().code, ErrorCode::BadRequest);
    }

    #[test]
    fn a_name_is_given_once() {
        let mut room = room(&["a", "b"]);
        let second = |name: &str| Applicant { start: 2, ..applicant(name, "") };

        assert_eq!(room.enter(second("b"), 1).unwrap_err().code, ErrorCode::Exists);
        assert_eq!(room.enter(second("a"), 1).unwrap_err().code, ErrorCode::Exists);
        assert!(room.enter(applicant("b", ""), 2).is_ok());
    }
}

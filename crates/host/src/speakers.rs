//! Where replicas live that have spoken, whatever the map says: it may be old here, and a group whose members have changed meanwhile must
//! be able to reach this node's replica, and to be answered, also while nobody can tell this node of a new map.

use std::collections::BTreeMap;

use shardine_model::{ClusterMap, NodeId, ReplicaId, ShardId};

/// Replicas that are kept in mind: those of the largest number of groups that a node is likely to share with others.
const HEARD_MAX: usize = 1 << 16;

/// Everybody who has spoken, and from which node: that is known by the link, and a number belongs to one node for ever, so it stays
/// true.
#[derive(Clone, Debug, Default)]
pub struct Speakers {
    heard: BTreeMap<(ShardId, ReplicaId), NodeId>,
}

impl Speakers {
    /// A replica has spoken from a node. Says whether that is news.
    pub fn hear(&mut self, shard: ShardId, replica: ReplicaId, from: NodeId) -> bool {
        let is_news = !self.heard.contains_key(&(shard, replica)) && self.heard.len() < HEARD_MAX;
        if is_news {
            self.heard.insert((shard, replica), from);
        }
        is_news
    }

    /// There is a new map. Nobody speaks any more from a node that is not in it.
    pub fn turn_to(&mut self, map: &ClusterMap) {
        self.heard.retain(|_, node| map.node(*node).is_some());
    }

    /// The node of a replica.
    #[must_use]
    pub fn find(&self, map: &ClusterMap, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        map.node_of(shard, replica).or_else(|| self.heard.get(&(shard, replica)).copied())
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::{Descriptor, DoorAddresses, NodeEntry, Placement};

    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn map(nodes: &[u64]) -> ClusterMap {
        let entry = |number: &u64| NodeEntry {
            node: NodeId(*number),
            name: format!("n{number}"),
            zone: String::new(),
            addresses: DoorAddresses::default(),
        };
        let place = |number: &u64| Placement { node: NodeId(*number), replica: ReplicaId(*number) };
        let group = Descriptor {
            shard: SHARD,
            epoch: Default::default(),
            state: Default::default(),
            bounds: Default::default(),
            voters: nodes.iter().filter(|number| **number < 4).map(place).collect(),
            learners: Vec::new(),
        };
        ClusterMap {
            cluster: 1,
            version: 1,
            nodes: nodes.iter().map(entry).collect(),
            groups: vec![group],
            sql: String::new(),
        }
    }

    /// reliability F28: the map is from before replica 9 came, and it leads now.
    #[test]
    fn one_that_the_map_does_not_know_is_found_where_it_spoke() {
        let (map, mut speakers) = (map(&[1, 2, 3, 4]), Speakers::default());
        assert_eq!(speakers.find(&map, SHARD, ReplicaId(9)), None);

        assert!(speakers.hear(SHARD, ReplicaId(9), NodeId(4)));
        assert!(!speakers.hear(SHARD, ReplicaId(9), NodeId(4)), "it is news once");

        assert_eq!(speakers.find(&map, SHARD, ReplicaId(9)), Some(NodeId(4)));
        assert_eq!(speakers.find(&map, SHARD, ReplicaId(2)), Some(NodeId(2)));
    }

    #[test]
    fn nobody_is_looked_for_on_a_node_that_has_left() {
        let mut speakers = Speakers::default();
        speakers.hear(SHARD, ReplicaId(9), NodeId(4));

        speakers.turn_to(&map(&[1, 2, 3]));

        assert_eq!(speakers.find(&map(&[1, 2, 3]), SHARD, ReplicaId(9)), None);
    }
}

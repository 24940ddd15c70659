//! Which leads should be elsewhere: as many on each node, for its weight, as on any other, where a vote is there already. That costs nothing but
//! an election that is won beforehand.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{Descriptor, GroupKind, NodeId, ShardId};

use super::fill::{Fill, Fills, Goal};
use super::{Planner, Sight};
use crate::map::Map;
use crate::node::Node;

/// A lead that is to be given to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadMove {
    pub shard: ShardId,
    pub from: NodeId,
    pub to: NodeId,
    pub why: String,
}

/// What to ask leaders for, at most one lead of each node and one for each. Nothing while anything else is under way or somebody is silent,
/// and nothing if nobody tells who leads.
#[must_use]
pub fn plan_leads(map: &Map, sight: &Sight) -> Vec<LeadMove> {
    let Some(load) = sight.load.as_ref().filter(|_| map.is_formed() && map.operations.is_empty()) else {
        return Vec::new();
    };
    let planner = Planner::new(map, sight);
    let able: Vec<&Node> = map.nodes.values().filter(|node| node.may_lead()).collect();
    if able.iter().any(|node| !planner.is_living(node.node)) {
        return Vec::new();
    }
    let shards = map.groups.values().filter(|group| group.shard.kind() == GroupKind::Records);
    let mut led: BTreeMap<NodeId, Vec<&Descriptor>> = BTreeMap::new();
    for group in shards {
        if let Some(leader) = load.leaders.get(&group.shard) {
            led.entry(*leader).or_default().push(group);
        }
    }
    let mut fills = fills(&able, &led);
    let (mut moves, mut busy) = (Vec::new(), BTreeSet::new());
    while let Some(found) = next(&fills, &led, &busy) {
        let (from, to) = (place(&fills, found.from), place(&fills, found.to));
        busy.extend([found.from, found.to]);
        fills.change(from, |fill| fill.replicas -= 1);
        fills.change(to, |fill| fill.replicas += 1);
        moves.push(found);
    }
    moves
}

fn fills<'a>(able: &[&'a Node], led: &BTreeMap<NodeId, Vec<&Descriptor>>) -> Fills<'a> {
    let fill = |node: &&'a Node| Fill {
        node: node.node,
        name: &node.name,
        zone: &node.zone,
        weight: u64::from(node.weight.max(1)),
        // Leads take the place of replicas here.
        replicas: led.get(&node.node).map_or(0, Vec::len) as u64,
        bytes: 0,
        receives: 0,
        sends: 0,
    };
    Fills::new(able.iter().map(fill).collect(), 0)
}

fn place(fills: &Fills<'_>, node: NodeId) -> usize {
    fills.place(node).expect("whoever is planned for is among them")
}

fn next(fills: &Fills<'_>, led: &BTreeMap<NodeId, Vec<&Descriptor>>, busy: &BTreeSet<NodeId>) -> Option<LeadMove> {
    let goal = Goal::Replicas;
    let threshold = fills.threshold(goal);
    let is_free = |place: &usize| !busy.contains(&fills.nodes[*place].node);
    let order: Vec<usize> = fills.ascending(goal).filter(is_free).collect();
    for &source in order.iter().rev() {
        let from = &fills.nodes[source];
        for &target in &order {
            let to = &fills.nodes[target];
            if from.level(goal).saturating_sub(to.level(goal)) <= threshold {
                break;
            }
            if !fills.brings_nearer(goal, source, target, 1) {
                continue;
            }
            let votes = |group: &&&Descriptor| group.voters.iter().any(|voter| voter.node == to.node);
            if let Some(group) = led.get(&from.node).and_then(|groups| groups.iter().find(votes)) {
                let why = format!("{} leads {} shards, {} {}", from.name, from.replicas, to.name, to.replicas);
                return Some(LeadMove { shard: group.shard, from: from.node, to: to.node, why });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;

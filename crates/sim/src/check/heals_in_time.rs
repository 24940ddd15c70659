//! Promise: when all faults are gone, every group has a leader that serves, all replicas catch up, and everything that was
//! begun comes to its end, within a bounded time (reliability I12, I53).

use shardine_host::GroupReplica;

use crate::check::{Violation, log_stays_bounded};
use crate::tenant::Tenant;
use crate::world::World;

/// What is still missing, if anything.
#[must_use]
pub fn missing<T: Tenant>(world: &World<T>) -> Option<String> {
    for group in world.living() {
        let Some(leader) = world.leader_of(group) else { return Some(format!("group {group} has no leader")) };
        let replica = &world.nodes[leader].replicas[group];
        if !replica.is_serving() {
            return Some(format!("node {} leads group {group} and does not serve", leader + 1));
        }
        let committed = replica.committed();
        for (number, node) in world.nodes.iter().enumerate() {
            let Some(applied) = node.replicas.get(group).map(GroupReplica::applied) else { continue };
            if applied != committed {
                return Some(format!("node {} has applied {applied} of {committed} of group {group}", number + 1));
            }
        }
    }
    T::missing(world).or_else(|| world.council_misses()).or_else(|| log_stays_bounded::excess(world))
}

#[must_use]
pub fn violation(missing: &str) -> Violation {
    Violation::new("heals_in_time", missing)
}

//! Promise: when all faults are gone, every shard has a leader that serves, all replicas catch up, and everything dirty
//! reaches SQL, within a bounded time (I12, I53).

use crate::check::Violation;
use crate::world::World;

/// What is still missing, if anything.
#[must_use]
pub fn missing(world: &World) -> Option<String> {
    for shard in 0..world.plan.shards as usize {
        let Some(leader) = world.leader_of(shard) else { return Some(format!("shard {shard} has no leader")) };
        let status = world.nodes[leader].replicas[shard].status();
        if !status.is_serving {
            return Some(format!("node {} leads shard {shard} and does not serve", leader + 1));
        }
        if status.is_suspended {
            return Some(format!("shard {shard} is still suspended"));
        }
        if status.dirty > 0 {
            return Some(format!("shard {shard} has {} rows that SQL does not hold", status.dirty));
        }
        for (number, node) in world.nodes.iter().enumerate() {
            let applied = node.replicas[shard].applied();
            if applied != status.committed {
                let committed = status.committed;
                return Some(format!("node {} has applied {applied} of {committed} of shard {shard}", number + 1));
            }
        }
    }
    let busy = world.clients.iter().position(|client| !client.is_idle());
    busy.map(|client| format!("client {client} still waits"))
}

#[must_use]
pub fn violation(missing: &str) -> Violation {
    Violation::new("heals_in_time", missing)
}

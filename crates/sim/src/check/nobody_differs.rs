//! Promise: replicas that are copies are not taken for others (reliability I33). The comparison that runs in production finds nothing
//! where the view from above finds nothing: whoever it set aside would be rebuilt for no reason, a leader among them.

use shardine_shard::Checks;

use crate::check::Violation;

/// Gives how often the replica was found to agree.
pub fn check(node: usize, group: usize, checks: Checks) -> Result<u64, Violation> {
    let Checks { agreed, unsettled, differed, differed_at, .. } = checks;
    if differed == 0 && unsettled == 0 {
        return Ok(agreed);
    }
    let detail = match differed {
        0 => format!("no majority of group {group} agrees, says node {}", node + 1),
        _ => format!("node {} is said to differ in group {group} at entry {differed_at}", node + 1),
    };
    Err(Violation::new("nobody_differs", detail))
}

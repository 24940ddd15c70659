//! Promise: the log of a node does not grow for ever. Whoever keeps its oldest part is asked for a snapshot, whichever lane that
//! is on and however little it has to say itself; so, once everything is at rest, no more is left than was asked for.

use crate::disk::SEGMENT_BYTES;
use crate::tenant::Tenant;
use crate::world::World;

/// What may stand above the limit at which a snapshot is asked for: the segment that is written, the one before it, and a spare.
const EXCESS_BYTES_MAX: u64 = 3 * SEGMENT_BYTES as u64;

/// What is still too much, if anything.
#[must_use]
pub fn excess<T: Tenant>(world: &World<T>) -> Option<String> {
    let bytes_max = world.ground.log_bytes_soft.saturating_add(EXCESS_BYTES_MAX);
    let mut nodes = world.nodes.iter().enumerate().filter(|(_, node)| node.is_up());
    let (number, node) = nodes.find(|(_, node)| node.disk.log_bytes() > bytes_max)?;
    Some(format!("node {} keeps {} bytes of log", number + 1, node.disk.log_bytes()))
}

//! Promise: while one node trusts that it may write a shard's rows to SQL, no other one begins to (write-back 77-80). What it has begun
//! before may come as late as it likes: that is what the fence is for.

use crate::check::Violation;

/// `node` begins a statement, and `trusting` says of the others who trusts its lease at this moment, by its own clock.
pub fn check(node: usize, shard: usize, mut trusting: impl Iterator<Item = usize>) -> Result<(), Violation> {
    let Some(other) = trusting.next() else { return Ok(()) };
    let detail =
        format!("node {} writes rows of shard {shard} to SQL, and node {} trusts its lease", node + 1, other + 1);
    Err(Violation::new("one_writer_at_a_time", detail))
}

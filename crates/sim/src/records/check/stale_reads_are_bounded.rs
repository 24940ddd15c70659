//! Promise: a read that may be old comes from a replica that heard from the others within the age that was accepted, and
//! whoever reads one replica again finds it no earlier in the log than before (records 36). That its version was once
//! current is seen by `versions_only_grow`, which keeps the one content of every version.

use std::collections::BTreeMap;

use crate::check::Violation;

pub const NAME: &str = "stale_reads_are_bounded";

/// Clocks drift, and a node counts whole milliseconds.
const SLACK_US: u64 = 20_000;

/// A stale read that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub client: usize,
    pub node: usize,
    /// A restarted node begins again from what its disk held.
    pub life: u64,
    pub shard: usize,
    pub applied: u64,
    pub max_age_us: u64,
}

/// Who was heard when, in true time, and what was told to whom.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// By node, shard and sender.
    heard: BTreeMap<(usize, usize, usize), u64>,
    applied: BTreeMap<(usize, usize, u64, usize), u64>,
}

impl Seen {
    pub fn hear(&mut self, node: usize, shard: usize, from: usize, now: u64) {
        self.heard.insert((node, shard, from), now);
    }

    pub fn check(&mut self, read: Answered, needed: usize, now: u64) -> Result<(), Violation> {
        let bound = read.max_age_us + read.max_age_us / 10 + SLACK_US;
        let senders = self.heard.range((read.node, read.shard, 0)..=(read.node, read.shard, usize::MAX));
        let fresh = senders.filter(|(_, heard)| now - **heard <= bound).count();
        if fresh < needed {
            let detail = format!("node {} had heard from {fresh} others in time, not from {needed}", read.node + 1);
            return Err(Violation::new(NAME, detail));
        }
        let place = self.applied.entry((read.client, read.node, read.life, read.shard)).or_default();
        let before = std::mem::replace(place, read.applied);
        if read.applied < before {
            let detail =
                format!("client {} saw entry {} of node {} after {before}", read.client, read.applied, read.node);
            return Err(Violation::new(NAME, detail));
        }
        Ok(())
    }
}

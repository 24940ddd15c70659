//! What the other nodes' wall clocks say, so that one that jumps alone is noticed and not believed.
//!
//! A pulse carries what its sender takes for the time, and echoes the newest time of the receiver's that the sender has heard. From that the
//! receiver knows how long the way there and back took; that time was right somewhere within it.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::NodeId;

use crate::item::Pulse;
use crate::limits::{CLOCK_KEPT_MS, CLOCKS_APART_MS_MAX};

/// Comparisons of a clock that are kept. The one with the shortest way is believed.
const SAMPLES_MAX: usize = 8;

/// What took longer there and back says too little: the time was right somewhere within it.
const WAY_MS_MAX: u64 = 1_000;

/// The wall clocks of the other nodes. Times named `now` are this node's monotonic milliseconds.
#[derive(Debug, Default)]
pub struct Clocks {
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Debug, Default)]
struct Peer {
    /// The newest time of the peer's, and when it was heard.
    heard: Option<(u64, u64)>,
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    now_ms: u64,
    /// There and back.
    way_ms: u64,
    /// The peer's wall time at `now_ms`.
    wall_ms: u64,
}

impl Peer {
    /// Keeps a comparison. A clock that was set since the earlier ones makes them void: they would tell, by a shorter way, what it
    /// no longer shows.
    fn take(&mut self, sample: Sample) {
        let was_set = |earlier: &Sample| {
            let expected_ms = earlier.wall_ms.saturating_add(sample.now_ms.saturating_sub(earlier.now_ms));
            sample.wall_ms.abs_diff(expected_ms) > CLOCKS_APART_MS_MAX + sample.way_ms + earlier.way_ms
        };
        if self.samples.iter().any(was_set) {
            self.samples.clear();
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }
}

impl Clocks {
    /// Takes up a pulse.
    pub fn hear(&mut self, node: NodeId, pulse: &Pulse<'_>, now_ms: u64) {
        let peer = self.peers.entry(node).or_default();
        peer.heard = Some((pulse.sent_ms, now_ms));
        let way_ms = now_ms.checked_sub(pulse.echo_ms).and_then(|ms| ms.checked_sub(pulse.held_ms));
        // One from an earlier life of this node looks as if it had taken long, too.
        if let Some(way_ms) = way_ms.filter(|way_ms| pulse.echo_ms != 0 && *way_ms <= WAY_MS_MAX) {
            let wall_ms = pulse.wall_ms.saturating_add(way_ms / 2);
            peer.take(Sample { now_ms, way_ms, wall_ms });
        }
    }

    /// What a pulse to the node echoes: its newest time, and how long ago it came.
    #[must_use]
    pub fn echo(&self, node: NodeId, now_ms: u64) -> (u64, u64) {
        let heard = self.peers.get(&node).and_then(|peer| peer.heard);
        heard.map_or((0, 0), |(sent_ms, at_ms)| (sent_ms, now_ms.saturating_sub(at_ms)))
    }

    /// A new process of the node is there, or none at all: its times mean nothing any more.
    pub fn forget(&mut self, node: NodeId) {
        self.peers.remove(&node);
    }

    /// What the node's wall clock shows now, if that has been heard lately.
    #[must_use]
    pub fn wall_ms(&self, node: NodeId, now_ms: u64) -> Option<u64> {
        let samples = &self.peers.get(&node)?.samples;
        let recent = samples.iter().filter(|sample| now_ms.saturating_sub(sample.now_ms) <= CLOCK_KEPT_MS);
        let best = recent.min_by_key(|sample| sample.way_ms)?;
        Some(best.wall_ms.saturating_add(now_ms.saturating_sub(best.now_ms)))
    }

    /// How far ahead of this node's wall clock another one is.
    #[must_use]
    pub fn offset_ms(&self, node: NodeId, now_ms: u64, own_wall_ms: u64) -> Option<i64> {
        let ahead_ms = i128::from(self.wall_ms(node, now_ms)?) - i128::from(own_wall_ms);
        Some(ahead_ms.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    /// Whether somebody who was heard lately takes another time for true.
    #[must_use]
    pub fn is_contradicted(&self, now_ms: u64, own_wall_ms: u64) -> bool {
        self.others_ms(now_ms).any(|wall_ms| wall_ms.abs_diff(own_wall_ms) > CLOCKS_APART_MS_MAX)
    }

    /// What the clocks of those show that were heard lately.
    pub fn others_ms(&self, now_ms: u64) -> impl Iterator<Item = u64> {
        self.peers.keys().filter_map(move |node| self.wall_ms(*node, now_ms))
    }

    /// The time that the clocks of a majority of the cluster's nodes agree on: their median, with this node's own among them.
    /// Nothing where so many do not agree, and for a node that has nobody to ask.
    #[must_use]
    pub fn agreed_ms(&self, now_ms: u64, own_wall_ms: u64, nodes: usize) -> Option<u64> {
        let mut walls: Vec<u64> = self.others_ms(now_ms).chain([own_wall_ms]).collect();
        walls.sort_unstable();
        let median = walls[(walls.len() - 1) / 2];
        let agreeing = walls.iter().filter(|wall_ms| wall_ms.abs_diff(median) <= CLOCKS_APART_MS_MAX).count();
        (agreeing > 1 && agreeing > nodes / 2).then_some(median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(echo_ms: u64, held_ms: u64, wall_ms: u64) -> Pulse<'static> {
        Pulse { sent_ms: 500, echo_ms, held_ms, wall_ms, ..Pulse::default() }
    }

    /// Nodes from 2 on have been heard at 100 with these clocks.
    fn clocks(walls_ms: &[u64]) -> Clocks {
        let mut clocks = Clocks::default();
        for (node, wall_ms) in (2..).zip(walls_ms) {
            clocks.hear(NodeId(node), &pulse(90, 10, *wall_ms), 100);
        }
        clocks
    }

    #[test]
    fn half_of_the_way_is_added() {
        let mut clocks = Clocks::default();

        clocks.hear(NodeId(2), &pulse(100, 30, 9_000), 150);

        assert_eq!(clocks.wall_ms(NodeId(2), 150), Some(9_010));
        assert_eq!(clocks.wall_ms(NodeId(2), 160), Some(9_020), "it goes on");
        assert_eq!(clocks.offset_ms(NodeId(2), 150, 9_110), Some(-100));
        assert_eq!(clocks.wall_ms(NodeId(2), 150 + CLOCK_KEPT_MS + 1), None, "but not for ever");
    }

    /// Simulated: seed 26111901676 of records, where one node's clock was wrong until the next one's was, and both were counted.
    #[test]
    fn records_137_a_clock_that_was_set_is_believed_by_what_it_shows_now() {
        let mut clocks = Clocks::default();

        clocks.hear(NodeId(2), &pulse(100, 30, 90_000_000), 140);
        clocks.hear(NodeId(2), &pulse(150, 30, 9_000), 240);

        assert_eq!(clocks.wall_ms(NodeId(2), 240), Some(9_030));
    }

    #[test]
    fn the_shortest_way_is_believed() {
        let mut clocks = Clocks::default();

        clocks.hear(NodeId(2), &pulse(100, 0, 9_000), 102);
        clocks.hear(NodeId(2), &pulse(110, 0, 9_500), 1_110);

        assert_eq!(clocks.wall_ms(NodeId(2), 1_110), Some(9_001 + 1_008));
    }

    #[test]
    fn a_way_that_took_too_long_says_nothing() {
        let mut clocks = Clocks::default();

        clocks.hear(NodeId(2), &pulse(100, 0, 9_000), 100 + WAY_MS_MAX + 1);

        assert_eq!(clocks.wall_ms(NodeId(2), 1_200), None);
    }

    #[test]
    fn an_echo_of_another_life_says_nothing() {
        let mut clocks = Clocks::default();

        clocks.hear(NodeId(2), &pulse(70_000, 0, 9_000), 100);
        clocks.hear(NodeId(2), &pulse(0, 0, 9_000), 100);

        assert_eq!(clocks.wall_ms(NodeId(2), 100), None);
        assert_eq!(clocks.echo(NodeId(2), 130), (500, 30), "but it was heard");
    }

    #[test]
    fn a_clock_that_is_off_alone_does_not_decide() {
        let day_ms = 86_400_000;

        assert_eq!(clocks(&[day_ms, day_ms + 100]).agreed_ms(100, 5, 3), Some(day_ms));
        assert_eq!(clocks(&[day_ms, 5]).agreed_ms(100, day_ms + 9, 3), Some(day_ms));
    }

    #[test]
    fn a_clock_that_shows_another_day_contradicts() {
        assert!(clocks(&[86_400_000, 5]).is_contradicted(100, 5));
        assert!(!clocks(&[7, 5]).is_contradicted(100, 5));
    }

    #[test]
    fn two_clocks_that_differ_agree_on_nothing() {
        assert_eq!(clocks(&[9_000_000]).agreed_ms(100, 5, 3), None);
        assert_eq!(clocks(&[9_000_000]).agreed_ms(100, 9_000_007, 3), Some(9_000_000));
        assert_eq!(clocks(&[9_000_000]).agreed_ms(100, 9_000_007, 5), None, "too few of five");
        assert_eq!(clocks(&[]).agreed_ms(100, 5, 1), None, "nobody to ask");
    }
}

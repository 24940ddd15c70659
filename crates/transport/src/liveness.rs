//! Which nodes live, as far as this one can tell by their control links. A wrong suspicion costs an election, never a wrong
//! answer; so it may come early, but must not come for what this node has itself slept through.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::NodeId;

use crate::limits::{FIRST_WORD_MS, GAPS_KEPT_MS, OWN_PAUSE_MS, SILENCE_GAPS, SILENCE_MS_MAX, SILENCE_MS_MIN};

/// Gaps are kept by stretches of time, the largest of each.
const STRETCH_MS: u64 = 5_000;

/// What is believed of a node now, and was not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Suspected(NodeId),
    Cleared(NodeId),
}

/// The nodes that this one listens to. Times are this node's monotonic milliseconds. Whoever uses it has to ask
/// [`Liveness::look`] every 50 ms: what it finds when it has been away for long is not held against anybody.
#[derive(Debug, Default)]
pub struct Liveness {
    peers: BTreeMap<NodeId, Peer>,
    /// When anything was last told or asked here.
    awake_ms: Option<u64>,
}

#[derive(Debug)]
struct Peer {
    heard_ms: u64,
    has_spoken: bool,
    is_linked: bool,
    is_suspected: bool,
    gaps: Gaps,
}

impl Liveness {
    /// Begins to listen to a node. Nothing new if it does already.
    pub fn watch(&mut self, node: NodeId, now_ms: u64) {
        self.wake(now_ms);
        let new = || Peer {
            heard_ms: now_ms,
            has_spoken: false,
            is_linked: false,
            is_suspected: false,
            gaps: Gaps::default(),
        };
        self.peers.entry(node).or_insert_with(new);
    }

    /// The node is none of the cluster's any more.
    pub fn forget(&mut self, node: NodeId) {
        self.peers.remove(&node);
    }

    #[must_use]
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.is_suspected)
    }

    /// Whether the node has said something lately; not so of one that has never been heard.
    #[must_use]
    pub fn is_heard(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.has_spoken && !peer.is_suspected)
    }

    /// For how long a node has been silent.
    #[must_use]
    pub fn silence_ms(&self, node: NodeId, now_ms: u64) -> Option<u64> {
        self.peers.get(&node).map(|peer| now_ms.saturating_sub(peer.heard_ms))
    }

    /// A control link to the node stands, both sides having greeted.
    pub fn opened(&mut self, node: NodeId, now_ms: u64) -> Option<Change> {
        self.watch(node, now_ms);
        let peer = self.peers.get_mut(&node)?;
        peer.is_linked = true;
        // What was between two links is no gap of either.
        peer.hear(node, now_ms)
    }

    /// Something came on a control link of the node.
    pub fn heard(&mut self, node: NodeId, now_ms: u64) -> Option<Change> {
        self.wake(now_ms);
        let peer = self.peers.get_mut(&node)?;
        if peer.has_spoken {
            peer.gaps.note(now_ms.saturating_sub(peer.heard_ms), now_ms);
        }
        peer.hear(node, now_ms)
    }

    /// The last control link to the node is closed. That alone is no reason: it is dialled again.
    pub fn closed(&mut self, node: NodeId, now_ms: u64) {
        self.wake(now_ms);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.is_linked = false;
        }
    }

    /// A dial was refused: on that machine nobody listens.
    pub fn refused(&mut self, node: NodeId, now_ms: u64) -> Option<Change> {
        self.wake(now_ms);
        let peer = self.peers.get_mut(&node)?;
        (!peer.is_linked).then(|| peer.suspect(node)).flatten()
    }

    /// The node has said that it stops.
    pub fn left(&mut self, node: NodeId, now_ms: u64) -> Option<Change> {
        self.wake(now_ms);
        let peer = self.peers.get_mut(&node)?;
        peer.is_linked = false;
        peer.suspect(node)
    }

    /// Looks for nodes that have been silent for too long.
    pub fn look(&mut self, now_ms: u64) -> Vec<Change> {
        self.wake(now_ms);
        let silent = |(node, peer): (&NodeId, &mut Peer)| {
            let is_silent = now_ms.saturating_sub(peer.heard_ms) >= peer.patience_ms(now_ms);
            is_silent.then(|| peer.suspect(*node)).flatten()
        };
        self.peers.iter_mut().filter_map(silent).collect()
    }

    /// A pause of this node's own thread, or of its machine, makes everybody else silent. What they said meanwhile lies in the
    /// sockets and is read only now.
    fn wake(&mut self, now_ms: u64) {
        let paused_ms = now_ms.saturating_sub(self.awake_ms.unwrap_or(now_ms));
        self.awake_ms = Some(now_ms.max(self.awake_ms.unwrap_or(0)));
        if paused_ms > OWN_PAUSE_MS {
            self.peers.values_mut().for_each(|peer| peer.heard_ms += paused_ms);
        }
    }
}

impl Peer {
    fn patience_ms(&self, now_ms: u64) -> u64 {
        if !self.has_spoken {
            return FIRST_WORD_MS;
        }
        (SILENCE_GAPS * self.gaps.largest(now_ms)).clamp(SILENCE_MS_MIN, SILENCE_MS_MAX)
    }

    fn hear(&mut self, node: NodeId, now_ms: u64) -> Option<Change> {
        self.heard_ms = self.heard_ms.max(now_ms);
        self.has_spoken = true;
        std::mem::take(&mut self.is_suspected).then_some(Change::Cleared(node))
    }

    fn suspect(&mut self, node: NodeId) -> Option<Change> {
        let is_new = !std::mem::replace(&mut self.is_suspected, true);
        is_new.then_some(Change::Suspected(node))
    }
}

/// The largest gaps of late, by stretches, oldest first.
#[derive(Debug, Default)]
struct Gaps(VecDeque<(u64, u64)>);

impl Gaps {
    fn note(&mut self, gap_ms: u64, now_ms: u64) {
        let stretch = now_ms / STRETCH_MS;
        while self.0.front().is_some_and(|(oldest, _)| oldest + GAPS_KEPT_MS / STRETCH_MS < stretch) {
            self.0.pop_front();
        }
        match self.0.back_mut() {
            Some((last, largest)) if *last == stretch => *largest = gap_ms.max(*largest),
            _ => self.0.push_back((stretch, gap_ms)),
        }
    }

    fn largest(&self, now_ms: u64) -> u64 {
        let since = (now_ms / STRETCH_MS).saturating_sub(GAPS_KEPT_MS / STRETCH_MS);
        self.0.iter().filter(|(stretch, _)| *stretch >= since).map(|(_, gap_ms)| *gap_ms).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

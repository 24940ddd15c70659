//! Which version of the map each node has, as far as whoever leads meta has heard, and what each is to be sent next. Only a leader
//! has one; a new leader begins with nothing, and hears from every node with its next pulse.

use std::collections::BTreeMap;

use shardine_model::NodeId;

use crate::feed::Feed;
use crate::state::Meta;

/// How long a delta is given before it is taken for lost.
const DELTA_RESEND_MS: u64 = 500;

/// The same of a whole map, which waits behind snapshots.
const WHOLE_RESEND_MS: u64 = 5_000;

/// Times are this node's monotonic milliseconds.
#[derive(Debug, Default)]
pub struct Followers {
    nodes: BTreeMap<NodeId, Follower>,
}

#[derive(Debug, Default)]
struct Follower {
    /// What it has said that it has.
    confirmed: u64,
    /// What it has if nothing was lost.
    sent: u64,
    /// When that is doubted.
    resend_ms: u64,
}

impl Followers {
    /// A node has said which version it has. That may be less than before: its disk may be another one.
    pub fn heard(&mut self, node: NodeId, version: u64) {
        let follower = self.nodes.entry(node).or_default();
        if version < follower.confirmed {
            follower.sent = version;
        }
        follower.confirmed = version;
        follower.sent = follower.sent.max(version);
    }

    /// The link to a node is gone, and what was on its way with it.
    pub fn lost(&mut self, node: NodeId) {
        if let Some(follower) = self.nodes.get_mut(&node) {
            follower.sent = follower.confirmed;
        }
    }

    /// What to send to a node now. Nobody who has not been heard is sent anything: most have what there is.
    pub fn due(&mut self, meta: &Meta, node: NodeId, now_ms: u64) -> Feed {
        let Some(follower) = self.nodes.get_mut(&node) else { return Feed::Nothing };
        if follower.sent != follower.confirmed && now_ms >= follower.resend_ms {
            follower.sent = follower.confirmed;
        }
        let feed = meta.feed(follower.sent);
        match &feed {
            Feed::Nothing => {}
            Feed::Delta { to, .. } => {
                (follower.sent, follower.resend_ms) = (*to, now_ms.saturating_add(DELTA_RESEND_MS));
            }
            Feed::Whole { version, .. } => {
                (follower.sent, follower.resend_ms) = (*version, now_ms.saturating_add(WHOLE_RESEND_MS));
            }
        }
        feed
    }

    /// Whether all of these nodes have a version: whoever made a table is answered then. Whom to ask for is the caller's choice:
    /// one that is out of touch holds requests by itself that it may misread.
    #[must_use]
    pub fn have(&self, version: u64, nodes: impl IntoIterator<Item = NodeId>) -> bool {
        nodes.into_iter().all(|node| self.nodes.get(&node).is_some_and(|follower| follower.confirmed >= version))
    }

    /// What a node was last heard to have.
    #[must_use]
    pub fn version_of(&self, node: NodeId) -> Option<u64> {
        self.nodes.get(&node).map(|follower| follower.confirmed)
    }

    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }
}

//! What everybody who owns groups (lanes, coordination, the keeper of the map) does about who leads them: hears which nodes live
//! and who follows whom, says who may follow the leaders here, and hands over what is led here when the node stops or its disk
//! stalls.

use std::sync::Arc;

use shardine_host::{GroupReplica, Host};
use shardine_model::ClusterMap;
use shardine_transport::{Change, Heirs, Lead};

use crate::exchange::Exchange;

/// How long the others may take to take over.
pub(crate) const HAND_OVER_MS: u64 = 3_000;

/// Ticks between two looks at who may follow the leaders here.
const RANK_TICKS: u64 = 10;

/// Whose groups they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Meta,
    Coordination,
    Lane(usize),
}

/// What the control links have to say to all of them.
#[derive(Clone, Debug)]
pub(crate) enum PeerNews {
    /// A node is silent, or there again.
    Life(Change),
    /// Who may follow leaders on another node.
    Heirs(Arc<[Lead]>),
}

pub(crate) fn hear<R: GroupReplica>(host: &mut Host<R>, news: &PeerNews, cluster: &ClusterMap) {
    match news {
        PeerNews::Life(Change::Suspected(node)) => {
            host.suspect(*node, |shard, replica| cluster.node_of(shard, replica) == Some(*node));
        }
        PeerNews::Life(Change::Cleared(node)) => host.trust(*node),
        PeerNews::Heirs(leads) => {
            leads.iter().for_each(|lead| host.hear_heirs(lead.shard, lead.term, lead.heirs.iter().collect()));
        }
    }
}

/// Hands over everything that is led here.
pub(crate) fn hand_over<R: GroupReplica>(host: &mut Host<R>) {
    host.hand_over(host.time().monotonic_ms + HAND_OVER_MS);
}

/// At every tick.
pub(crate) fn watch<R: GroupReplica>(host: &mut Host<R>, exchange: &Exchange, owner: Owner, ticks: u64) {
    let Some(cluster) = &exchange.cluster else { return };
    if host.watch_lead() {
        tracing::warn!("the disk has not come back from a write for a second: this node hands over what it leads");
        exchange.hand_over();
    }
    if ticks.is_multiple_of(RANK_TICKS) {
        cluster.board.rank(owner, leads(host));
    }
}

/// What is led here, as the others should know it.
fn leads<R: GroupReplica>(host: &Host<R>) -> Vec<Lead> {
    let lead = |replica: &R| Lead {
        shard: replica.shard(),
        term: replica.term(),
        leader: replica.id(),
        // Raft's own messages say these.
        committed: 0,
        age_ms: None,
        is_asleep: false,
        heirs: Heirs::of(&replica.heirs()),
    };
    host.leaders().map(lead).collect()
}

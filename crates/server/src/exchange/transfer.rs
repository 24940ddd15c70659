//! One lead for another node, as an operator wants it: the words that lanes, coordination and the map's thread have in common.

use shardine_model::{ClusterMap, ErrorCode, NodeId, Refusal, ReplicaId, ShardId};
use shardine_router::Response;
use shardine_shard::TransferRefused;

/// The replica that is meant, if a node is named.
pub(crate) fn heir(map: &ClusterMap, shard: ShardId, to: Option<NodeId>) -> Result<Option<ReplicaId>, Refusal> {
    let Some(node) = to else { return Ok(None) };
    let votes = map.group(shard).is_some_and(|group| group.voters.iter().any(|voter| voter.node == node));
    match map.replica_on(shard, node).filter(|_| votes) {
        Some(replica) => Ok(Some(replica)),
        None => {
            let name = map.node(node).map_or_else(|| node.to_string(), |entry| entry.name.clone());
            let message = format!("node {name} has no vote in {}: `shardine shards` says who has", shard.label());
            Err(Refusal::new(ErrorCode::BadRequest, message))
        }
    }
}

/// What came of it: the number of the node that was asked to lead.
pub(crate) fn told(map: &ClusterMap, shard: ShardId, begun: Option<Result<ReplicaId, TransferRefused>>) -> Response {
    let refusal = match begun {
        Some(Ok(heir)) => match map.node_of(shard, heir) {
            Some(node) => return Response::Count(node.0),
            None => Refusal::new(ErrorCode::Busy, "the members of the shard are being changed; try again"),
        },
        Some(Err(TransferRefused::NotLeader)) => Refusal::new(ErrorCode::NotLeader, "another node leads by now"),
        Some(Err(TransferRefused::NoHeir(_))) => {
            Refusal::new(ErrorCode::Busy, format!("nobody else can lead {} at the moment", shard.label()))
        }
        None => {
            Refusal::new(ErrorCode::NoLeader, format!("the replica of {} has stopped on its leader", shard.label()))
        }
    };
    Response::Refused(refusal)
}

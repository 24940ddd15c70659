//! Nodes that have lost sight of each other. What a node knows of the others leads nowhere if all have changed their addresses while
//! they were down, or if a name stands for another machine by now: then those that its line names (`--join`) are told where it is,
//! and tell where they are, and whom else they have met. It asks for nobody's vote: meta needs a quorum, which is what is looked for.

use std::sync::Arc;
use std::time::Duration;

use shardine_model::{DoorAddresses, NodeId};
use shardine_proto::v1;
use shardine_router::Whereabouts;

use crate::exchange::Exchange;
use crate::formation::{addresses_out, reach, with_token};
use crate::peers::Book;

/// How often somebody who is missed is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks for whoever is silent, for as long as the node runs.
pub(crate) async fn run(book: Arc<Book>, exchange: Arc<Exchange>, join: Vec<String>, token: Option<String>) {
    let Some(cluster) = &exchange.cluster else { return };
    let id = cluster.atlas.sheet().full.cluster;
    let mut told = String::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let is_lost = |node: &NodeId| cluster.board.silent_for(*node).is_some() || book.address(*node).is_none();
        let lost: Vec<NodeId> = book.peers().into_iter().filter(is_lost).collect();
        if lost.is_empty() {
            continue;
        }
        let mut met = Vec::new();
        for address in &join {
            match meet(address, id, &book, token.as_deref()).await {
                Ok(known) => met.extend(known),
                Err(status) if status.code() == tonic::Code::PermissionDenied && told != *address => {
                    tracing::error!("{address}, which --join names: {}", status.message());
                    told.clone_from(address);
                }
                // Whoever is not there yet is asked again.
                Err(_) => {}
            }
        }
        let book = Arc::clone(&book);
        // A name server may take its time.
        let take = move || {
            met.into_iter().for_each(|one| book.meet(one));
            for node in lost {
                book.resolve(node);
            }
        };
        let _ = tokio::task::spawn_blocking(take).await;
    }
}

async fn meet(
    address: &str,
    cluster: u128,
    book: &Book,
    token: Option<&str>,
) -> Result<Vec<Whereabouts>, tonic::Status> {
    let own = book.met().into_iter().find(|one| one.node == book.own()).map(|own| v1::Whereabouts {
        node: own.node.0,
        incarnation: own.incarnation,
        addresses: Some(addresses_out(&own.addresses)),
    });
    let request = v1::MeetRequest { cluster: cluster.to_be_bytes().to_vec(), own };
    let reply = reach(address).await?.meet(with_token(request, token)).await?.into_inner();
    let known = reply.known.into_iter().filter_map(|one| {
        let v1::NodeAddresses { peer, grpc, redis, http } = one.addresses?;
        let addresses = DoorAddresses { peer, grpc, redis, http };
        Some(Whereabouts { node: NodeId(one.node), incarnation: one.incarnation, addresses })
    });
    Ok(known.collect())
}

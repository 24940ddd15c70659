//! The service `Formation`: how nodes become a cluster. Served by a node that waits for one, and by one that has it.

use std::sync::Arc;

use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_proto::v1;
use shardine_router::{Applicant, DoorAddresses, Formation as Engine, Joined, Made, Plan, Whereabouts};
use shardine_service::Failure;
use tonic::{Request, Response, Status};

use crate::status::status_of;

/// Shards and coordination groups of a cluster whose maker did not say.
const SHARDS_DEFAULT: u32 = 4;
const COORD_GROUPS_DEFAULT: u32 = 1;

pub(crate) struct Formation {
    engine: Arc<dyn Engine>,
}

impl Formation {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl v1::formation_server::Formation for Formation {
    async fn join(&self, request: Request<v1::JoinRequest>) -> Answer<v1::JoinReply> {
        let applicant = applicant(request.into_inner()).map_err(refused)?;
        // It may dial the one that asks, and ask whoever gives numbers.
        let engine = Arc::clone(&self.engine);
        let joined = blocking(move || engine.join(applicant)).await?;
        Ok(Response::new(match joined {
            Joined::Waiting(waiting) => v1::JoinReply { formed: None, waiting },
            Joined::Formed { cluster, node, map } => {
                let formed = v1::Formed { cluster: cluster.to_be_bytes().to_vec(), node: node.0, map };
                v1::JoinReply { formed: Some(formed), waiting: Vec::new() }
            }
        }))
    }

    async fn meet(&self, request: Request<v1::MeetRequest>) -> Answer<v1::MeetReply> {
        let v1::MeetRequest { cluster, own } = request.into_inner();
        let cluster = cluster.try_into().map(u128::from_be_bytes).map_err(|_| refused(missing("its cluster")))?;
        let own = own.ok_or_else(|| missing("its whereabouts")).and_then(whereabouts).map_err(refused)?;
        let known = self.engine.meet(cluster, own).map_err(refused)?;
        Ok(Response::new(v1::MeetReply { known: known.into_iter().map(whereabouts_out).collect() }))
    }

    async fn init(&self, request: Request<v1::InitRequest>) -> Answer<v1::InitReply> {
        let v1::InitRequest { sql, shards, coord_groups, nodes } = request.into_inner();
        let or = |asked: u32, default| if asked == 0 { default } else { asked };
        let plan = Plan {
            sql: if sql.is_empty() { "none".to_owned() } else { sql },
            shards: or(shards, SHARDS_DEFAULT),
            coord_groups: or(coord_groups, COORD_GROUPS_DEFAULT),
            nodes: nodes as usize,
        };
        // It dials the others, and writes to disk.
        let engine = Arc::clone(&self.engine);
        let Made { cluster, nodes } = blocking(move || engine.init(plan)).await?;
        Ok(Response::new(v1::InitReply { cluster: cluster.to_be_bytes().to_vec(), nodes }))
    }
}

/// Does what may take a while.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(act).await;
    let done = done.map_err(|_| refused(Refusal::new(ErrorCode::Internal, "the node failed over it")))?;
    done.map_err(refused)
}

fn refused(refusal: Refusal) -> Status {
    status_of(Failure::from(refusal))
}

fn applicant(request: v1::JoinRequest) -> Result<Applicant, Refusal> {
    let v1::JoinRequest { name, addresses, zone, start, gateway } = request;
    if name.is_empty() {
        return Err(missing("its name"));
    }
    let addresses = addresses_in(addresses)?;
    Ok(Applicant { name, zone, addresses, is_gateway: gateway, start })
}

fn missing(what: &str) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, format!("a node has to say {what}"))
}

fn addresses_in(addresses: Option<v1::NodeAddresses>) -> Result<DoorAddresses, Refusal> {
    let v1::NodeAddresses { peer, grpc, redis, http } = addresses.ok_or_else(|| missing("its addresses"))?;
    Ok(DoorAddresses { peer, grpc, redis, http })
}

fn whereabouts(given: v1::Whereabouts) -> Result<Whereabouts, Refusal> {
    let v1::Whereabouts { node, incarnation, addresses } = given;
    Ok(Whereabouts { node: NodeId(node), incarnation, addresses: addresses_in(addresses)? })
}

fn whereabouts_out(known: Whereabouts) -> v1::Whereabouts {
    let DoorAddresses { peer, grpc, redis, http } = known.addresses;
    let addresses = Some(v1::NodeAddresses { peer, grpc, redis, http });
    v1::Whereabouts { node: known.node.0, incarnation: known.incarnation, addresses }
}

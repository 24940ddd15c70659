//! The service `Formation`: how nodes become a cluster. Served by a node that waits for one, and by one that has it.

use std::sync::Arc;

use shardine_model::{ErrorCode, Refusal};
use shardine_proto::v1;
use shardine_router::{Applicant, DoorAddresses, Formation as Engine, Joined, Made, Plan};
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
    let v1::JoinRequest { name, addresses, zone, start } = request;
    let missing = |what: &str| Refusal::new(ErrorCode::BadRequest, format!("a node that joins needs {what}"));
    if name.is_empty() {
        return Err(missing("a name"));
    }
    let v1::NodeAddresses { peer, grpc, redis, http } = addresses.ok_or_else(|| missing("addresses"))?;
    Ok(Applicant { name, zone, addresses: DoorAddresses { peer, grpc, redis, http }, start })
}

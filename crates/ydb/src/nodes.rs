//! The coordination service: calls about nodes here, streams in `session.rs`.

use std::pin::Pin;
use std::sync::Arc;

use shardine_coord::{Config, NodeCall, NodeReply, Path, Refusal, Status as Code};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::convert::{config_of, message_of};
use crate::engine::Engine;
use crate::envelope::{bad_request, done, packed};
use crate::session;
use shardine_proto::ydb::coordination::v1::coordination_service_server::CoordinationService;
use shardine_proto::ydb::coordination::{
    AlterNodeRequest, AlterNodeResponse, CreateNodeRequest, CreateNodeResponse, DescribeNodeRequest,
    DescribeNodeResponse, DescribeNodeResult, DropNodeRequest, DropNodeResponse, SessionRequest, SessionResponse,
};
use shardine_proto::ydb::scheme::{Entry, entry::Type};

/// Names the database of a call; may be missing (coordination-semantics 212).
const DATABASE: &str = "x-ydb-database";

pub(crate) struct Coordination {
    engine: Arc<dyn Engine>,
}

impl Coordination {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    async fn call(&self, call: NodeCall) -> Result<NodeReply, Refusal> {
        let (give, take) = oneshot::channel();
        let done = Box::new(move |reply| {
            // A client that has left does not wait for it.
            let _ = give.send(reply);
        });
        self.engine.call(call, done);
        match take.await {
            Ok(NodeReply::Refused(refusal)) => Err(refusal),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Refusal::new(Code::Unavailable, "the node is stopping")),
        }
    }

    async fn change(&self, call: Result<NodeCall, Refusal>) -> Result<(), Refusal> {
        self.call(call?).await.map(|_| ())
    }

    async fn describe(&self, path: String) -> Result<DescribeNodeResult, Refusal> {
        match self.call(NodeCall::Describe { path }).await? {
            NodeReply::Described { name, config } => Ok(DescribeNodeResult {
                self_: Some(Entry { name, r#type: Type::CoordinationNode as i32, ..Entry::default() }),
                config: Some(message_of(&config)),
            }),
            _ => Err(Refusal::new(Code::Unavailable, "the node was not described")),
        }
    }
}

/// A new node lies inside of the database that the call names (coordination-semantics 12).
fn check_database(metadata: &MetadataMap, path: &str) -> Result<(), Refusal> {
    let database = metadata.get(DATABASE).and_then(|value| value.to_str().ok()).and_then(Path::parse);
    let (Some(database), Some(path)) = (database, Path::parse(path)) else { return Ok(()) };
    if path.is_inside(&database) { Ok(()) } else { Err(bad_request("the path is not inside of the database")) }
}

fn created(request: &Request<CreateNodeRequest>) -> Result<NodeCall, Refusal> {
    let CreateNodeRequest { path, config } = request.get_ref();
    check_database(request.metadata(), path)?;
    let config = config.as_ref().map(config_of).transpose()?.unwrap_or_else(Config::default);
    Ok(NodeCall::Create { path: path.clone(), config })
}

fn altered(request: AlterNodeRequest) -> Result<NodeCall, Refusal> {
    let config = request.config.as_ref().map(config_of).transpose()?.unwrap_or_else(Config::default);
    Ok(NodeCall::Alter { path: request.path, config })
}

#[tonic::async_trait]
impl CoordinationService for Coordination {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let answers = session::serve(Arc::clone(&self.engine), request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn create_node(&self, request: Request<CreateNodeRequest>) -> Result<Response<CreateNodeResponse>, Status> {
        let operation = done(self.change(created(&request)).await);
        Ok(Response::new(CreateNodeResponse { operation }))
    }

    async fn alter_node(&self, request: Request<AlterNodeRequest>) -> Result<Response<AlterNodeResponse>, Status> {
        let operation = done(self.change(altered(request.into_inner())).await);
        Ok(Response::new(AlterNodeResponse { operation }))
    }

    async fn drop_node(&self, request: Request<DropNodeRequest>) -> Result<Response<DropNodeResponse>, Status> {
        let operation = done(self.change(Ok(NodeCall::Drop { path: request.into_inner().path })).await);
        Ok(Response::new(DropNodeResponse { operation }))
    }

    async fn describe_node(
        &self,
        request: Request<DescribeNodeRequest>,
    ) -> Result<Response<DescribeNodeResponse>, Status> {
        let described = self.describe(request.into_inner().path).await;
        let operation = packed("Ydb.Coordination.DescribeNodeResult", described);
        Ok(Response::new(DescribeNodeResponse { operation }))
    }
}

//! The coordination service: calls about nodes here, streams in `session.rs`.

use std::pin::Pin;
use std::sync::Arc;

use http::Extensions;
use shardine_coord::{Config, NodeCall, NodeReply, Path, Refusal, Status as Code};
use tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::convert::{config_of, message_of};
use crate::engine::{CoordEngine, call};
use crate::envelope::{bad_request, done, packed};
use crate::rights::{Pass, Right};
use crate::session_stream;
use shardine_proto::ydb::coordination::v1::coordination_service_server::CoordinationService;
use shardine_proto::ydb::coordination::{
    AlterNodeRequest, AlterNodeResponse, CreateNodeRequest, CreateNodeResponse, DescribeNodeRequest,
    DescribeNodeResponse, DescribeNodeResult, DropNodeRequest, DropNodeResponse, SessionRequest, SessionResponse,
};
use shardine_proto::ydb::scheme::{Entry, entry::Type};

/// Names the database of a call; may be missing (coordination 212).
const DATABASE: &str = "x-ydb-database";

pub(crate) struct Coordination {
    engine: Arc<dyn CoordEngine>,
}

impl Coordination {
    pub(crate) fn new(engine: Arc<dyn CoordEngine>) -> Self {
        Self { engine }
    }

    async fn change(&self, call_of: Result<NodeCall, Refusal>) -> Result<(), Refusal> {
        call(&self.engine, call_of?).await.map(|_| ())
    }

    async fn describe(&self, request: Request<DescribeNodeRequest>) -> Result<DescribeNodeResult, Refusal> {
        let (_, extensions, DescribeNodeRequest { path }) = request.into_parts();
        pass_of(&extensions).check(&path, Right::Read)?;
        match call(&self.engine, NodeCall::Describe { path }).await? {
            NodeReply::Described { name, config } => Ok(DescribeNodeResult {
                self_: Some(Entry { name, r#type: Type::CoordinationNode as i32, ..Entry::default() }),
                config: Some(message_of(&config)),
            }),
            _ => Err(Refusal::new(Code::Unavailable, "the node was not described")),
        }
    }
}

/// What the gate has found out about the caller.
pub(crate) fn pass_of(extensions: &Extensions) -> &Pass {
    const NOTHING: &Pass = &Pass::Some(Vec::new());
    extensions.get::<Pass>().unwrap_or(NOTHING)
}

/// A new node lies inside of the database that the call names (coordination 12).
pub(crate) fn check_database(metadata: &MetadataMap, path: &str) -> Result<(), Refusal> {
    let database = metadata.get(DATABASE).and_then(|value| value.to_str().ok()).and_then(Path::parse);
    let (Some(database), Some(path)) = (database, Path::parse(path)) else { return Ok(()) };
    if path.is_inside(&database) { Ok(()) } else { Err(bad_request("the path is not inside of the database")) }
}

fn created(request: &Request<CreateNodeRequest>) -> Result<NodeCall, Refusal> {
    let CreateNodeRequest { path, config } = request.get_ref();
    check_database(request.metadata(), path)?;
    pass_of(request.extensions()).check(path, Right::Write)?;
    let config = config.as_ref().map(config_of).transpose()?.unwrap_or_else(Config::default);
    Ok(NodeCall::Create { path: path.clone(), config })
}

fn altered(request: Request<AlterNodeRequest>) -> Result<NodeCall, Refusal> {
    let (_, extensions, request) = request.into_parts();
    pass_of(&extensions).check(&request.path, Right::Write)?;
    let config = request.config.as_ref().map(config_of).transpose()?.unwrap_or_else(Config::default);
    Ok(NodeCall::Alter { path: request.path, config })
}

fn dropped(request: Request<DropNodeRequest>) -> Result<NodeCall, Refusal> {
    let (_, extensions, DropNodeRequest { path }) = request.into_parts();
    pass_of(&extensions).check(&path, Right::Erase)?;
    Ok(NodeCall::Drop { path })
}

#[tonic::async_trait]
impl CoordinationService for Coordination {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let pass = pass_of(request.extensions()).clone();
        let answers = session_stream::serve(Arc::clone(&self.engine), request.into_inner(), pass);
        Ok(Response::new(Box::pin(answers)))
    }

    async fn create_node(&self, request: Request<CreateNodeRequest>) -> Result<Response<CreateNodeResponse>, Status> {
        let operation = done(self.change(created(&request)).await);
        Ok(Response::new(CreateNodeResponse { operation }))
    }

    async fn alter_node(&self, request: Request<AlterNodeRequest>) -> Result<Response<AlterNodeResponse>, Status> {
        let operation = done(self.change(altered(request)).await);
        Ok(Response::new(AlterNodeResponse { operation }))
    }

    async fn drop_node(&self, request: Request<DropNodeRequest>) -> Result<Response<DropNodeResponse>, Status> {
        let operation = done(self.change(dropped(request)).await);
        Ok(Response::new(DropNodeResponse { operation }))
    }

    async fn describe_node(
        &self,
        request: Request<DescribeNodeRequest>,
    ) -> Result<Response<DescribeNodeResponse>, Status> {
        let described = self.describe(request).await;
        let operation = packed("Ydb.Coordination.DescribeNodeResult", described);
        Ok(Response::new(DescribeNodeResponse { operation }))
    }
}

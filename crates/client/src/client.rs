//! Where a cluster is, and what can be asked of it without a session.

use std::time::Duration;

use prost::Message;
use shardine_proto::ydb::coordination::v1::coordination_service_client::CoordinationServiceClient;
use shardine_proto::ydb::coordination::{
    AlterNodeRequest, CreateNodeRequest, DescribeNodeRequest, DescribeNodeResult, DropNodeRequest,
};
use shardine_proto::ydb::operations::Operation;
use tokio::time::{Instant, sleep};

use crate::connections::Connections;
use crate::dial::{Carrier, Dial, Ticket};
use crate::doors::Doors;
use crate::error::{Error, Status, check, unexpected};
use crate::node::NodeSettings;
use crate::records::Records;
use crate::session::{self, Session, SessionOptions};

/// How long a group may be without a leader before that is an answer, and how often it is asked meanwhile.
const LEADER_PATIENCE: Duration = Duration::from_secs(10);
const LEADER_PAUSE: Duration = Duration::from_millis(50);

/// A cluster's coordination, and the way to its records. Cheap to clone; connects when it is used.
#[derive(Clone, Debug)]
pub struct Client {
    addresses: String,
    connections: Connections,
}

impl Client {
    /// A client of the gRPC door at `host:port`, or of a cluster: several addresses with commas between them. Of nodes that are not
    /// named here the client hears from the others.
    ///
    /// # Errors
    ///
    /// [`Error::Misused`] if that is no address. Whether anybody is there shows when it is used.
    pub fn new(address: &str) -> Result<Self, Error> {
        let doors = Doors::new(address, &Ticket::default())?;
        Ok(Self { addresses: address.to_owned(), connections: Connections::new(doors) })
    }

    /// The token that the server was started with.
    ///
    /// # Errors
    ///
    /// [`Error::Misused`] if it cannot be sent.
    pub fn with_token(self, token: &str) -> Result<Self, Error> {
        let doors = Doors::new(&self.addresses, &Ticket::new(token)?)?;
        Ok(Self { connections: Connections::new(doors), ..self })
    }

    /// Makes a node; one that is there already stays as it is.
    pub async fn create_node(&self, path: &str, settings: NodeSettings) -> Result<(), Error> {
        let request = CreateNodeRequest { path: path.to_owned(), config: Some(settings.to_message()) };
        let answer = self.patiently(|| async {
            let (dial, mut service) = self.coordination();
            let answer = service.create_node(request.clone()).await;
            done(answer.map_err(|failure| dial.failure(&failure))?.into_inner().operation)
        });
        answer.await.map(drop)
    }

    /// Changes what the settings name, and leaves the rest.
    pub async fn alter_node(&self, path: &str, settings: NodeSettings) -> Result<(), Error> {
        let request = AlterNodeRequest { path: path.to_owned(), config: Some(settings.to_message()) };
        let answer = self.patiently(|| async {
            let (dial, mut service) = self.coordination();
            let answer = service.alter_node(request.clone()).await;
            done(answer.map_err(|failure| dial.failure(&failure))?.into_inner().operation)
        });
        answer.await.map(drop)
    }

    /// Removes a node with everything in it; its sessions end.
    pub async fn drop_node(&self, path: &str) -> Result<(), Error> {
        let request = DropNodeRequest { path: path.to_owned() };
        let answer = self.patiently(|| async {
            let (dial, mut service) = self.coordination();
            let answer = service.drop_node(request.clone()).await;
            done(answer.map_err(|failure| dial.failure(&failure))?.into_inner().operation)
        });
        answer.await.map(drop)
    }

    /// A node's settings as they were sent.
    pub async fn describe_node(&self, path: &str) -> Result<NodeSettings, Error> {
        let request = DescribeNodeRequest { path: path.to_owned() };
        let answer = self.patiently(|| async {
            let (dial, mut service) = self.coordination();
            let answer = service.describe_node(request.clone()).await;
            done(answer.map_err(|failure| dial.failure(&failure))?.into_inner().operation)
        });
        let packed = answer.await?.result.ok_or_else(|| unexpected("result"))?;
        let result = DescribeNodeResult::decode(&packed.value[..]).map_err(|_| unexpected("readable result"))?;
        Ok(NodeSettings::from_message(&result.config.unwrap_or_default()))
    }

    /// Starts a session on a node, or comes back to one ([`SessionOptions::resume`]). Sessions of a client and its clones
    /// share connections, a hundred to each.
    pub async fn start_session(&self, node: &str, options: SessionOptions) -> Result<Session, Error> {
        self.patiently(|| session::start(self.connections.clone(), node, options.clone())).await
    }

    /// Records of the same cluster.
    #[must_use]
    pub fn records(&self) -> Records {
        Records::new(self.connections.doors().clone())
    }

    /// Tries again while the group has no leader, as just after a start: UNAVAILABLE says that nothing was done. A node that does not
    /// answer is left for the next one; what is asked here may be asked twice.
    ///
    /// Not an async closure: what is made of one cannot be shown to be sendable, and services spawn what they await.
    async fn patiently<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + LEADER_PATIENCE;
        let mut others = self.connections.doors().count() - 1;
        loop {
            match attempt().await {
                Err(Error::Refused { status: Status::Unavailable, .. }) if Instant::now() < until => {
                    sleep(LEADER_PAUSE).await;
                }
                Err(Error::Unreachable { address, .. }) if others > 0 => {
                    self.connections.doors().turn_from(&address);
                    others -= 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn coordination(&self) -> (Dial, CoordinationServiceClient<Carrier>) {
        let dial = self.connections.doors().current();
        let service = CoordinationServiceClient::new(dial.lazily());
        (dial, service)
    }
}

fn done(operation: Option<Operation>) -> Result<Operation, Error> {
    let operation = operation.ok_or_else(|| unexpected("operation"))?;
    check(operation.status, &operation.issues)?;
    Ok(operation)
}

//! How a server is reached: its address, the token on every request, and connections.

use std::time::Duration;

use shardine_proto::YDB_TICKET_METADATA;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::error::{Error, Status};

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long a machine with requests under way may be silent before it is asked whether it is there, and then before it is given up.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

pub(crate) type Carrier = InterceptedService<Channel, Ticket>;

#[derive(Clone, Debug)]
pub(crate) struct Dial {
    address: String,
    endpoint: Endpoint,
    ticket: Ticket,
}

impl Dial {
    pub fn new(address: &str, ticket: &Ticket) -> Result<Self, Error> {
        let address = address.trim_start_matches("http://").trim_start_matches("grpc://").to_owned();
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| Error::Misused(format!("{address:?} is not an address: {error}")))?;
        let endpoint =
            endpoint.connect_timeout(CONNECT_TIME).http2_keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
        Ok(Self { address, endpoint, ticket: ticket.clone() })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection that is made when it is first used, and again whenever it was lost.
    pub fn lazily(&self) -> Carrier {
        InterceptedService::new(self.endpoint.connect_lazy(), self.ticket.clone())
    }

    pub async fn connect(&self) -> Result<Carrier, Error> {
        let channel = self.endpoint.connect().await;
        let channel = channel.map_err(|error| self.unreachable(deepest(&error)))?;
        Ok(InterceptedService::new(channel, self.ticket.clone()))
    }

    /// A failure of gRPC itself: refusals of requests travel inside of messages (coordination 4).
    pub fn failure(&self, failure: &tonic::Status) -> Error {
        let refused = |status| Error::Refused { status, message: failure.message().to_owned() };
        match failure.code() {
            Code::Unauthenticated | Code::PermissionDenied => refused(Status::Unauthorized),
            Code::InvalidArgument | Code::OutOfRange => refused(Status::BadRequest),
            Code::Unimplemented => refused(Status::Unsupported),
            Code::ResourceExhausted => refused(Status::Overloaded),
            _ => self.unreachable(deepest(failure)),
        }
    }

    pub fn unreachable(&self, cause: String) -> Error {
        Error::Unreachable { address: self.address.clone(), cause }
    }
}

/// Puts the token where both kinds of services look for it.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    ydb: Option<MetadataValue<Ascii>>,
    bearer: Option<MetadataValue<Ascii>>,
}

impl Ticket {
    pub fn new(token: &str) -> Result<Self, Error> {
        let unfit = |_| Error::Misused("the token holds characters that cannot be sent".to_owned());
        let ydb = MetadataValue::try_from(token).map_err(unfit)?;
        let bearer = MetadataValue::try_from(format!("Bearer {token}")).map_err(unfit)?;
        Ok(Self { ydb: Some(ydb), bearer: Some(bearer) })
    }
}

impl Interceptor for Ticket {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        let metadata = request.metadata_mut();
        if let Some(ticket) = &self.ydb {
            metadata.insert(YDB_TICKET_METADATA, ticket.clone());
        }
        if let Some(bearer) = &self.bearer {
            metadata.insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

/// The first cause: what wraps it says nothing more than that there is one.
pub(crate) fn deepest(error: &dyn std::error::Error) -> String {
    let mut found = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        found = error.to_string();
        source = error.source();
    }
    found
}

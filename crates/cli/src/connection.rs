//! A conversation with a cluster.

use std::collections::HashMap;
use std::time::Duration;

use shardine_model::ErrorCode;
use shardine_proto::v1::cluster_client::ClusterClient;
use shardine_proto::v1::formation_client::FormationClient;
use shardine_proto::v1::records_client::RecordsClient;
use shardine_proto::v1::tables_client::TablesClient;
use shardine_proto::{MESSAGE_BYTES_MAX, v1};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::args::ServerArgs;
use crate::complaint::Complaint;

type Carrier = InterceptedService<Channel, Envelope>;

pub struct Connection {
    pub records: RecordsClient<Carrier>,
    pub tables: TablesClient<Carrier>,
    pub cluster: ClusterClient<Carrier>,
    pub formation: FormationClient<Carrier>,
    known_tables: HashMap<String, v1::Table>,
}

/// Puts the token and the deadline on every request.
#[derive(Clone)]
pub struct Envelope {
    token: Option<MetadataValue<Ascii>>,
    timeout: Duration,
}

impl Interceptor for Envelope {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.set_timeout(self.timeout);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl Connection {
    pub async fn open(args: &ServerArgs) -> Result<Self, Complaint> {
        let address = args.server.trim_start_matches("http://");
        let token = args
            .token
            .as_ref()
            .filter(|token| !token.is_empty())
            .map(|token| MetadataValue::try_from(format!("Bearer {token}")))
            .transpose();
        let token = token.map_err(|_| {
            Complaint::misused("the token cannot be sent", "it holds characters that headers do not", "printable ASCII")
        })?;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
            Complaint::misused(format!("{address:?} is not an address"), error.to_string(), "--server 127.0.0.1:7400")
        })?;
        let endpoint = endpoint.connect_timeout(Duration::from_secs(5));
        let channel = endpoint.connect().await.map_err(|error| unreachable(address, &error))?;
        let envelope = Envelope { token, timeout: Duration::from_secs(args.timeout) };
        Ok(Self {
            records: RecordsClient::with_interceptor(channel.clone(), envelope.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            tables: TablesClient::with_interceptor(channel.clone(), envelope.clone()),
            cluster: ClusterClient::with_interceptor(channel.clone(), envelope.clone()),
            formation: FormationClient::with_interceptor(channel, envelope),
            known_tables: HashMap::new(),
        })
    }

    /// The definition of a table, asked for once.
    pub async fn table(&mut self, name: &str) -> Result<v1::Table, Complaint> {
        if let Some(table) = self.known_tables.get(name) {
            return Ok(table.clone());
        }
        let request = v1::ShowTableRequest { name: name.to_owned() };
        let table = self.tables.show(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
        self.known_tables.insert(name.to_owned(), table.clone());
        Ok(table)
    }
}

fn unreachable(address: &str, error: &tonic::transport::Error) -> Complaint {
    let mut cause = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    let what = format!("no server answers at {address}");
    Complaint::failed(what, cause, "shardine up, or --server ADDR").coded(ErrorCode::NoLeader)
}

//! Where to send the rest: SDKs ask this first, and believe the answer more than the address that they were given.

use tonic::{Request, Response, Status};

use crate::envelope::packed;
use crate::gate::Dialled;
use shardine_proto::ydb::discovery::v1::discovery_service_server::DiscoveryService;
use shardine_proto::ydb::discovery::{
    EndpointInfo, ListEndpointsRequest, ListEndpointsResponse, ListEndpointsResult, WhoAmIRequest, WhoAmIResponse,
    WhoAmIResult,
};

/// The number of the one endpoint. SDKs take 0 for "unknown".
const NODE_ID: u32 = 1;

pub(crate) struct Discovery {
    host: String,
    port: u16,
}

impl Discovery {
    pub(crate) fn new(host: String, port: u16) -> Self {
        Self { host, port }
    }
}

#[tonic::async_trait]
impl DiscoveryService for Discovery {
    /// Whoever asks is sent to where it has found this node (coordination 1). Any database is this one (7).
    async fn list_endpoints(
        &self,
        request: Request<ListEndpointsRequest>,
    ) -> Result<Response<ListEndpointsResponse>, Status> {
        let dialled = request.extensions().get::<Dialled>().map(|dialled| &dialled.0);
        let endpoint = EndpointInfo {
            address: dialled.map_or_else(|| self.host.clone(), |dialled| dialled.host().to_owned()),
            port: u32::from(dialled.and_then(|dialled| dialled.port_u16()).unwrap_or(self.port)),
            node_id: NODE_ID,
            ..EndpointInfo::default()
        };
        let result = ListEndpointsResult { endpoints: vec![endpoint], ..ListEndpointsResult::default() };
        let operation = packed("Ydb.Discovery.ListEndpointsResult", Ok(result));
        Ok(Response::new(ListEndpointsResponse { operation }))
    }

    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> Result<Response<WhoAmIResponse>, Status> {
        let result = WhoAmIResult { user: "anonymous".to_owned(), ..WhoAmIResult::default() };
        Ok(Response::new(WhoAmIResponse { operation: packed("Ydb.Discovery.WhoAmIResult", Ok(result)) }))
    }
}

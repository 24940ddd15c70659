//! The door for YDB's SDKs: `Ydb.Coordination.V1`, `Ydb.RateLimiter.V1` and `Ydb.Discovery.V1`, in YDB's own messages
//! (`docs/coordination.md`).
//!
//! It translates between protobuf and the coordination group behind an [`CoordEngine`], keeps streams alive with pings, and holds
//! no opinion of its own: what a request means is decided in `shardine-coord`. Errors of a request travel inside of
//! messages with gRPC status OK (coordination 4).

// In the order in which a request meets them.
mod discovery;
mod engine;
mod gate;
mod peek;
mod carry;
mod limiter;
mod nodes;
mod rights;
mod session_stream;
// What all of them use.
mod convert;
mod envelope;
mod pings;

use std::sync::Arc;

use axum::Router;

pub use engine::{CoordEngine, Hear, Purpose};
pub use rights::{Access, Right};
/// A path of nodes, for [`Access`].
pub use shardine_coord::Path;

use shardine_proto::ydb::coordination::v1::coordination_service_server::CoordinationServiceServer;
use shardine_proto::ydb::discovery::v1::discovery_service_server::DiscoveryServiceServer;
use shardine_proto::ydb::rate_limiter::v1::rate_limiter_service_server::RateLimiterServiceServer;

/// Bytes of one message. A name and two times 1 MiB of data fit well; a description with many owners may be larger.
const REQUEST_BYTES_MAX: usize = 4 << 20;
const RESPONSE_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    /// Asked for in `x-ydb-auth-ticket`, as SDKs send it; without one everybody may enter.
    pub token: Option<String>,
    /// Further tokens, which may do less. They mean something only beside `token`.
    pub access: Vec<Access>,
    /// Where clients are told to connect if they do not say whom they have dialled.
    pub host: String,
    pub port: u16,
}

/// Everything this door serves, to be merged into the gRPC door.
pub fn service(engine: Arc<dyn CoordEngine>, options: Options) -> Router {
    let coordination = CoordinationServiceServer::new(nodes::Coordination::new(Arc::clone(&engine)))
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(RESPONSE_BYTES_MAX);
    let limiter = RateLimiterServiceServer::new(limiter::RateLimiter::new(Arc::clone(&engine)));
    let discovery = DiscoveryServiceServer::new(discovery::Discovery::new(options.host, options.port));
    // Routes by hand: tonic's router would bring a fallback along, and a door has only one.
    let router = Router::new()
        .route_service("/Ydb.Coordination.V1.CoordinationService/{*method}", coordination)
        .route_service("/Ydb.RateLimiter.V1.RateLimiterService/{*method}", limiter);
    let router = carry::carry(router, engine).route_service("/Ydb.Discovery.V1.DiscoveryService/{*method}", discovery);
    gate::guard(router, gate::Keys::new(options.token, options.access))
}

//! The gRPC door: `shardine.v1` records, tables and cluster, health and reflection.
//!
//! It translates between protobuf and the service and holds no opinion of its own: what a request means is decided there.
//! Listening, timers and connection caps belong to the accept loop (`shardine-accept`).

// In the order in which a request meets them.
mod shelter;
mod gate;
mod records;
mod tables;
// The next two serve people and machines that look after the cluster.
mod cluster;
mod nodes;
mod formation;
mod health;
// What all of them use.
mod convert;
mod deadline;
mod status;

use std::sync::Arc;

use axum::Router;
use shardine_proto::v1::cluster_server::ClusterServer;
use shardine_proto::v1::formation_server::FormationServer;
use shardine_proto::v1::records_server::RecordsServer;
use shardine_proto::v1::tables_server::TablesServer;
use shardine_proto::{DESCRIPTORS, MESSAGE_BYTES_MAX, YDB_DESCRIPTORS};
use shardine_router::{Formation, RemoteEngine};
use shardine_service::{GateOptions, RecordService};
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

pub use shelter::shelter;
pub use status::code_of;

#[derive(Clone, Default)]
pub struct Options {
    /// The token, and how many requests may be inside.
    pub gate: GateOptions,
    /// Who answers nodes that look for their cluster; absent where there is one node for ever.
    pub formation: Option<Arc<dyn Formation>>,
}

/// What a node serves that has no cluster yet: how to get one, and nothing else.
pub fn waiting_service(formation: Arc<dyn Formation>, gate: GateOptions) -> Router {
    let routes = Routes::new(FormationServer::new(formation::Formation::new(formation)));
    gate::guard(routes.prepare().into_axum_router(), gate)
}

/// Everything this door serves, ready for the accept loop.
///
/// # Panics
///
/// If the descriptors that were compiled into this program do not describe it; a test sees to that.
pub fn service(engine: Arc<dyn RemoteEngine>, options: Options) -> Router {
    let record_service = RecordService::new(engine);
    let records = RecordsServer::new(records::Records::new(record_service.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let tables = TablesServer::new(tables::Tables::new(record_service.clone()));
    let cluster = ClusterServer::new(cluster::Cluster::new(record_service.clone()));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            // Served beside us on the same door, by `shardine-ydb`.
            .register_encoded_file_descriptor_set(YDB_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Older tools ask for the alpha form of reflection, and cost us one line.
    let reflection_alpha = reflection().build_v1alpha().expect("our descriptors are whole");
    let reflection = reflection().build_v1().expect("our descriptors are whole");
    let mut routes = Routes::new(records)
        .add_service(tables)
        .add_service(cluster)
        .add_service(HealthServer::new(health::Health::new(record_service)))
        .add_service(reflection)
        .add_service(reflection_alpha);
    if let Some(engine) = options.formation {
        routes = routes.add_service(FormationServer::new(formation::Formation::new(engine)));
    }
    gate::guard(routes.prepare().into_axum_router(), options.gate)
}

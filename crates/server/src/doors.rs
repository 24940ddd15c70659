//! The gRPC and HTTP doors: a small tokio runtime beside the lanes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use shardine_accept::Limits;
use shardine_router::{Formation, RemoteEngine};
use shardine_service::{DoorMeasures, GateOptions};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::options::UpOptions;
use crate::start_error::StartError;

/// Two threads are plenty: these doors translate, the work is done on lanes.
const THREADS: usize = 2;

/// How long the doors may take to let requests in flight end.
const CLOSE_TIME: Duration = Duration::from_secs(10);

pub(crate) struct Doors {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    runtime: Runtime,
    closing: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Doors {
    pub fn open(
        engine: &Arc<dyn RemoteEngine>,
        coord: Arc<dyn shardine_ydb::CoordEngine>,
        formation: Option<Arc<dyn Formation>>,
        options: &UpOptions,
    ) -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("door").enable_all().build()?;
        let bind = |address: SocketAddr| {
            runtime.block_on(TcpListener::bind(address)).map_err(|cause| StartError::Listen { address, cause })
        };
        let (grpc, http) = (bind(options.grpc)?, bind(options.http)?);
        let (grpc_address, http_address) = (grpc.local_addr()?, http.local_addr()?);
        let gate = GateOptions { token: options.token.clone(), ..GateOptions::default() };
        let (closing, closed) = watch::channel(false);
        let shutdown = || {
            let mut closed = closed.clone();
            async move {
                let _ = closed.wait_for(|closed| *closed).await;
            }
        };
        let measures = DoorMeasures::default();
        let records =
            shardine_grpc::service(Arc::clone(engine), shardine_grpc::Options { gate: gate.clone(), formation });
        let ydb_options = shardine_ydb::Options {
            token: options.token.clone(),
            access: options.access.clone(),
            host: grpc_address.ip().to_string(),
            port: grpc_address.port(),
        };
        let records =
            shardine_grpc::shelter(records.merge(shardine_ydb::service(coord, ydb_options)), measures.clone());
        let hosts = shardine_http::Hosts::new(http_address, &options.http_hosts);
        let rest_options = shardine_http::Options { gate, hosts, measures, ..shardine_http::Options::default() };
        let rest = shardine_http::router(Arc::clone(engine), rest_options);
        let tasks = vec![
            runtime.spawn(shardine_accept::serve(grpc, records, Limits::grpc(), shutdown())),
            runtime.spawn(shardine_accept::serve(http, rest, Limits::default(), shutdown())),
        ];
        Ok(Self { grpc: grpc_address, http: http_address, runtime, closing, tasks })
    }

    /// Has something done beside the doors until they are closed.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Lets nobody in from now on.
    pub fn begin_to_close(&self) {
        self.closing.send_replace(true);
    }

    pub fn close(self) {
        self.begin_to_close();
        self.runtime.block_on(async {
            for task in self.tasks {
                let _ = tokio::time::timeout(CLOSE_TIME, task).await;
            }
        });
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

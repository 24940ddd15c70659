//! The standard health service: serving means that every shard of this node has a leader and none has stopped.

use std::time::Duration;

use shardine_service::RecordService;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// How long a probe waits for the engine; longer means that it does not serve.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// How often a watcher's state is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

const SERVICES: [&str; 4] = ["", "shardine.v1.Records", "shardine.v1.Tables", "shardine.v1.Cluster"];

pub(crate) struct Health {
    record_service: RecordService,
}

impl Health {
    pub(crate) fn new(record_service: RecordService) -> Self {
        Self { record_service }
    }
}

async fn probe(record_service: &RecordService) -> ServingStatus {
    match record_service.status(Instant::now() + PROBE_TIME).await {
        Ok(status) if status.shards.iter().all(|shard| shard.leader.is_some() && shard.stopped.is_none()) => {
            ServingStatus::Serving
        }
        Ok(_) | Err(_) => ServingStatus::NotServing,
    }
}

#[tonic::async_trait]
impl tonic_health::pb::health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !SERVICES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("no such service"));
        }
        let status = probe(&self.record_service).await.into();
        Ok(Response::new(HealthCheckResponse { status }))
    }

    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let known = SERVICES.contains(&request.get_ref().service.as_str());
        let (sender, receiver) = mpsc::channel(1);
        let record_service = self.record_service.clone();
        tokio::spawn(async move {
            let mut told = None;
            // Ends when the watcher has left.
            while !sender.is_closed() {
                let status = if known { probe(&record_service).await } else { ServingStatus::ServiceUnknown };
                if told != Some(status) {
                    told = Some(status);
                    if sender.send(Ok(HealthCheckResponse { status: status.into() })).await.is_err() {
                        return;
                    }
                }
                sleep(WATCH_INTERVAL).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

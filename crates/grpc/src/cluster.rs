//! The service `Cluster`.

use shardine_desk::{Clerk, Failure};
use shardine_proto::v1;
use shardine_router::{EngineStatus, Explanation, Residence, ShardStatus, WritebackStatus};
use tonic::{Request, Response, Status};

use crate::convert;
use crate::deadline::deadline;
use crate::status::status_of;

pub(crate) struct Cluster {
    clerk: Clerk,
}

type Answer<T> = Result<Response<T>, Status>;

impl Cluster {
    pub(crate) fn new(clerk: Clerk) -> Self {
        Self { clerk }
    }
}

#[tonic::async_trait]
impl v1::cluster_server::Cluster for Cluster {
    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusReply> {
        let status = self.clerk.status(deadline(&request)).await.map_err(status_of)?;
        Ok(Response::new(status_out(status)))
    }

    async fn shards(&self, request: Request<v1::ShardsRequest>) -> Answer<v1::ShardsReply> {
        let status = self.clerk.status(deadline(&request)).await.map_err(status_of)?;
        Ok(Response::new(v1::ShardsReply { shards: status.shards.into_iter().map(shard_out).collect() }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainReply> {
        let until = deadline(&request);
        let reply = match request.into_inner().what {
            Some(v1::explain_request::What::Row(row)) => {
                let row = convert::row(Some(row)).map_err(|refusal| status_of(Failure::from(refusal)))?;
                explanation_out(self.clerk.explain(&row, until).await.map_err(status_of)?)
            }
            Some(v1::explain_request::What::Scan(scan)) => {
                let plan = self.clerk.explain_scan(&scan.table, scan.partition.as_deref(), until).await;
                let plan = plan.map_err(status_of)?;
                let access = if plan.single { v1::Access::SingleShard } else { v1::Access::ShardMerge };
                v1::ExplainReply {
                    access: access.into(),
                    shards: plan.shards.into_iter().map(shard_out).collect(),
                    table: plan.table,
                    ..v1::ExplainReply::default()
                }
            }
            None => return Err(status_of(Failure::from(convert::missing("what to explain")))),
        };
        Ok(Response::new(reply))
    }
}

fn status_out(status: EngineStatus) -> v1::StatusReply {
    v1::StatusReply {
        node: status.node.0,
        version: status.version,
        uptime_ms: status.uptime_ms,
        lanes: u32::try_from(status.lanes).unwrap_or(u32::MAX),
        connections: status.connections,
        log_bytes: status.log_bytes,
        shards: status.shards.into_iter().map(shard_out).collect(),
        writeback: status.writeback.map(writeback_out),
        counters: status.counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

fn writeback_out(writeback: WritebackStatus) -> v1::Writeback {
    v1::Writeback {
        url: writeback.url,
        connected: writeback.connected,
        dirty: writeback.dirty,
        last_error: writeback.last_error.unwrap_or_default(),
    }
}

fn shard_out(shard: ShardStatus) -> v1::Shard {
    v1::Shard {
        id: shard.shard.0,
        lo: shard.lo.0,
        hi: shard.hi.map(|hi| hi.0),
        lane: u32::try_from(shard.lane).unwrap_or(u32::MAX),
        leader: shard.leader.map(|leader| leader.0),
        term: shard.term,
        applied: shard.applied,
        committed: shard.committed,
        snapshot: shard.snapshot,
        records: shard.records,
        bytes: shard.bytes,
        dirty: shard.dirty,
        stopped: shard.stopped.unwrap_or_default(),
    }
}

fn explanation_out(explanation: Explanation) -> v1::ExplainReply {
    let residence = match explanation.residence {
        Residence::Live => v1::Residence::Live,
        Residence::Absent => v1::Residence::Absent,
        Residence::NotInMemory => v1::Residence::NotInMemory,
    };
    v1::ExplainReply {
        access: v1::Access::SingleShard.into(),
        shards: vec![shard_out(explanation.shard)],
        table: explanation.table,
        partition_key: explanation.partition_key,
        position: explanation.position.0,
        residence: residence.into(),
        version: explanation.version.0,
        sql_version: explanation.sql_version.0,
        expires_at_ms: explanation.expires_at.map(|at| at.0),
    }
}

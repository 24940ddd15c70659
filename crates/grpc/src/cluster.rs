//! The service `Cluster`.

use std::time::SystemTime;

use shardine_model::{Position, ShardId};
use shardine_proto::v1;
use shardine_router::{
    CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordStatus, CoordView, DifferenceKind, EngineStatus,
    Explanation, Operate, ReplicaStatus, Residence, SemaphoreRange, ShardStatus, Switch, TableWriteback,
    WritebackStatus,
};
use shardine_service::{DeadLetter, Failure, RecordService, RowDifference, Verified, Verify};
use tonic::{Request, Response, Status};

use crate::deadline::deadline;
use crate::status::status_of;
use crate::{convert, nodes};

/// Sessions or semaphores of one page: as many as the HTTP door gives.
const COORD_PAGE_DEFAULT: usize = 100;
const COORD_PAGE_MAX: usize = 1_000;

pub(crate) struct Cluster {
    record_service: RecordService,
}

type Answer<T> = Result<Response<T>, Status>;

impl Cluster {
    pub(crate) fn new(record_service: RecordService) -> Self {
        Self { record_service }
    }
}

#[tonic::async_trait]
impl v1::cluster_server::Cluster for Cluster {
    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusReply> {
        let until = deadline(&request);
        let status = self.record_service.cluster(until).await.map_err(status_of)?;
        let tables = self.record_service.writeback(until).await.map_err(status_of)?.tables;
        let trouble = shardine_service::trouble(&status, &tables);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let clock_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Ok(Response::new(v1::StatusReply { trouble, clock_ms, ..status_out(status) }))
    }

    async fn shards(&self, request: Request<v1::ShardsRequest>) -> Answer<v1::ShardsReply> {
        let status = self.record_service.cluster(deadline(&request)).await.map_err(status_of)?;
        Ok(Response::new(v1::ShardsReply { shards: status.shards.into_iter().map(shard_out).collect() }))
    }

    async fn routes(&self, request: Request<v1::RoutesRequest>) -> Answer<v1::RoutesReply> {
        let routes = self.record_service.routes(deadline(&request)).await.map_err(status_of)?;
        let shards = routes.shards.into_iter().map(convert::route).collect();
        Ok(Response::new(v1::RoutesReply { map_version: routes.version, shards, addresses: routes.addresses }))
    }

    async fn suspend_shards(&self, request: Request<v1::SuspendShardsRequest>) -> Answer<v1::SuspendShardsReply> {
        let (until, shard) = (deadline(&request), request.into_inner().shard.map(ShardId));
        self.record_service.suspend(shard, Switch::On, until).await.map_err(status_of)?;
        Ok(Response::new(v1::SuspendShardsReply {}))
    }

    async fn resume_shards(&self, request: Request<v1::ResumeShardsRequest>) -> Answer<v1::ResumeShardsReply> {
        let (until, shard) = (deadline(&request), request.into_inner().shard.map(ShardId));
        self.record_service.suspend(shard, Switch::Off, until).await.map_err(status_of)?;
        Ok(Response::new(v1::ResumeShardsReply {}))
    }

    async fn set_node_mode(&self, request: Request<v1::SetNodeModeRequest>) -> Answer<v1::SetNodeModeReply> {
        let (until, request) = (deadline(&request), request.into_inner());
        let mode = nodes::mode(request.mode()).map_err(|refusal| status_of(Failure::from(refusal)))?;
        self.record_service.set_node_mode(request.node, mode, until).await.map_err(status_of)?;
        Ok(Response::new(v1::SetNodeModeReply {}))
    }

    async fn set_node_weight(&self, request: Request<v1::SetNodeWeightRequest>) -> Answer<v1::SetNodeWeightReply> {
        let until = deadline(&request);
        let v1::SetNodeWeightRequest { node, weight } = request.into_inner();
        // One that does not fit is above the limit too.
        let weight = u16::try_from(weight).unwrap_or(u16::MAX);
        self.record_service.set_node_weight(node, weight, until).await.map_err(status_of)?;
        Ok(Response::new(v1::SetNodeWeightReply {}))
    }

    async fn remove_node(&self, request: Request<v1::RemoveNodeRequest>) -> Answer<v1::RemoveNodeReply> {
        let (until, node) = (deadline(&request), request.into_inner().node);
        self.record_service.remove_node(node, until).await.map_err(status_of)?;
        Ok(Response::new(v1::RemoveNodeReply {}))
    }

    async fn node_drain(&self, request: Request<v1::NodeDrainRequest>) -> Answer<v1::NodeDrainReply> {
        let (until, node) = (deadline(&request), request.into_inner().node);
        let report = self.record_service.drain_report(node, until).await.map_err(status_of)?;
        Ok(Response::new(nodes::drain_out(report)))
    }

    async fn transfer_leader(&self, request: Request<v1::TransferLeaderRequest>) -> Answer<v1::TransferLeaderReply> {
        let until = deadline(&request);
        let v1::TransferLeaderRequest { group, to } = request.into_inner();
        let to = Some(to).filter(|to| !to.is_empty());
        let node = self.record_service.transfer_leader(ShardId(group), to, until).await.map_err(status_of)?;
        Ok(Response::new(v1::TransferLeaderReply { node: node.0 }))
    }

    async fn split_shard(&self, request: Request<v1::SplitShardRequest>) -> Answer<v1::SplitShardReply> {
        let until = deadline(&request);
        let v1::SplitShardRequest { shard, at } = request.into_inner();
        let at = at.map(|row| convert::row(Some(row))).transpose();
        let at = at.map_err(|refusal| status_of(Failure::from(refusal)))?.map(|row| Position::of_key(&row.key));
        let child = self.record_service.split_shard(ShardId(shard), at, until).await.map_err(status_of)?;
        Ok(Response::new(v1::SplitShardReply { child: child.0 }))
    }

    async fn balancer(&self, request: Request<v1::BalancerRequest>) -> Answer<v1::BalancerReply> {
        let report = self.record_service.balancer(deadline(&request)).await.map_err(status_of)?;
        Ok(Response::new(nodes::balancer_out(report)))
    }

    async fn set_setting(&self, request: Request<v1::SetSettingRequest>) -> Answer<v1::SetSettingReply> {
        let until = deadline(&request);
        let v1::SetSettingRequest { name, value } = request.into_inner();
        self.record_service.set_setting(name, value, until).await.map_err(status_of)?;
        Ok(Response::new(v1::SetSettingReply {}))
    }

    async fn move_replica(&self, request: Request<v1::MoveReplicaRequest>) -> Answer<v1::MoveReplicaReply> {
        let until = deadline(&request);
        let v1::MoveReplicaRequest { group, from, to, dry_run } = request.into_inner();
        let order = Operate::Move { shard: ShardId(group), from, to, is_rehearsal: dry_run };
        let what = self.record_service.move_replica(order, until).await.map_err(status_of)?;
        Ok(Response::new(v1::MoveReplicaReply { what }))
    }

    async fn events(&self, request: Request<v1::EventsRequest>) -> Answer<v1::EventsReply> {
        let (until, after) = (deadline(&request), request.into_inner().after);
        let events = self.record_service.events(after, until).await.map_err(status_of)?;
        Ok(Response::new(v1::EventsReply { events: events.into_iter().map(nodes::event_out).collect() }))
    }

    async fn writeback_status(&self, request: Request<v1::WritebackStatusRequest>) -> Answer<v1::WritebackStatusReply> {
        let report = self.record_service.writeback(deadline(&request)).await.map_err(status_of)?;
        let tables = report.tables.into_iter().map(table_writeback_out).collect();
        let (database, unheard) = (report.database.map(writeback_out), report.unheard);
        Ok(Response::new(v1::WritebackStatusReply { database, tables, unheard }))
    }

    async fn dead_letters(&self, request: Request<v1::DeadLettersRequest>) -> Answer<v1::DeadLettersReply> {
        let until = deadline(&request);
        let table = request.into_inner().table;
        let table = Some(table.as_str()).filter(|table| !table.is_empty());
        let letters = self.record_service.dead_letters(table, until).await.map_err(status_of)?;
        Ok(Response::new(v1::DeadLettersReply { letters: letters.into_iter().map(letter_out).collect() }))
    }

    async fn retry_dead_letters(
        &self,
        request: Request<v1::RetryDeadLettersRequest>,
    ) -> Answer<v1::RetryDeadLettersReply> {
        use v1::retry_dead_letters_request::Scope;
        let until = deadline(&request);
        let retried = match request.into_inner().scope {
            Some(Scope::Row(row)) => {
                let row = convert::row(Some(row)).map_err(|refusal| status_of(Failure::from(refusal)))?;
                self.record_service.retry_dead_letter(&row, until).await
            }
            Some(Scope::Table(table)) => self.record_service.retry_dead_letters(Some(&table), until).await,
            Some(Scope::All(_)) => self.record_service.retry_dead_letters(None, until).await,
            None => Err(Failure::from(convert::missing("what to retry"))),
        };
        retried.map_err(status_of)?;
        Ok(Response::new(v1::RetryDeadLettersReply {}))
    }

    async fn discard_dead_letter(
        &self,
        request: Request<v1::DiscardDeadLetterRequest>,
    ) -> Answer<v1::DiscardDeadLetterReply> {
        let until = deadline(&request);
        let row = convert::row(request.into_inner().row).map_err(|refusal| status_of(Failure::from(refusal)))?;
        self.record_service.discard_dead_letter(&row, until).await.map_err(status_of)?;
        Ok(Response::new(v1::DiscardDeadLetterReply {}))
    }

    async fn verify(&self, request: Request<v1::VerifyRequest>) -> Answer<v1::VerifyReply> {
        let until = deadline(&request);
        let v1::VerifyRequest { table, limit, cursor } = request.into_inner();
        let cursor = (!cursor.is_empty()).then_some(cursor);
        let verified = self.record_service.verify(Verify { table, limit: limit as usize, cursor }, until).await;
        Ok(Response::new(verified_out(verified.map_err(status_of)?)))
    }

    async fn coord_nodes(&self, request: Request<v1::CoordNodesRequest>) -> Answer<v1::CoordNodesReply> {
        let view = self.record_service.coord(CoordLook::Nodes, deadline(&request)).await.map_err(status_of)?;
        let CoordView::Nodes(nodes) = view else { return Err(Status::internal("another view was given")) };
        Ok(Response::new(v1::CoordNodesReply { nodes: nodes.into_iter().map(coord_node_out).collect() }))
    }

    async fn coord_sessions(&self, request: Request<v1::CoordSessionsRequest>) -> Answer<v1::CoordSessionsReply> {
        let until = deadline(&request);
        let v1::CoordSessionsRequest { node, after, limit } = request.into_inner();
        let look = CoordLook::Sessions { node, after, limit: coord_page(limit) };
        let view = self.record_service.coord(look, until).await.map_err(status_of)?;
        let CoordView::Sessions(sessions) = view else { return Err(Status::internal("another view was given")) };
        Ok(Response::new(v1::CoordSessionsReply { sessions: sessions.into_iter().map(coord_session_out).collect() }))
    }

    async fn coord_semaphores(&self, request: Request<v1::CoordSemaphoresRequest>) -> Answer<v1::CoordSemaphoresReply> {
        let until = deadline(&request);
        let v1::CoordSemaphoresRequest { node, after, limit } = request.into_inner();
        let which = after.map_or(SemaphoreRange::All, SemaphoreRange::After);
        let look = CoordLook::Semaphores { node, which, limit: coord_page(limit) };
        let view = self.record_service.coord(look, until).await.map_err(status_of)?;
        let CoordView::Semaphores(found) = view else { return Err(Status::internal("another view was given")) };
        Ok(Response::new(v1::CoordSemaphoresReply { semaphores: found.into_iter().map(coord_semaphore_out).collect() }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainReply> {
        let until = deadline(&request);
        let reply = match request.into_inner().what {
            Some(v1::explain_request::What::Row(row)) => {
                let row = convert::row(Some(row)).map_err(|refusal| status_of(Failure::from(refusal)))?;
                explanation_out(self.record_service.explain(&row, until).await.map_err(status_of)?)
            }
            Some(v1::explain_request::What::Scan(scan)) => {
                let plan = self.record_service.explain_scan(&scan.table, scan.partition.as_deref(), until).await;
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
        trouble: Vec::new(),
        nodes: status.nodes.into_iter().map(nodes::node_out).collect(),
        node: status.node.0,
        version: status.version,
        uptime_ms: status.uptime_ms,
        lanes: u32::try_from(status.lanes).unwrap_or(u32::MAX),
        connections: status.connections,
        log_bytes: status.log_bytes,
        shards: status.shards.into_iter().map(shard_out).collect(),
        writeback: status.writeback.map(writeback_out),
        coordination: status.coordination.into_iter().map(group_out).collect(),
        counters: status.counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        wall_ahead_ms: status.wall_ahead_ms,
        clock_ms: 0,
    }
}

fn group_out(group: CoordStatus) -> v1::CoordGroup {
    v1::CoordGroup {
        group: group.group,
        leader: group.leader.map(|leader| leader.0),
        term: group.term,
        applied: group.applied,
        snapshot: group.snapshot,
        nodes: group.nodes,
        sessions: group.sessions,
        semaphores: group.semaphores,
        bytes: group.bytes,
        streams: group.streams,
        watches: group.watches,
        waiters: group.waiters,
        stopped: group.stopped.unwrap_or_default(),
    }
}

fn coord_node_out(node: CoordNode) -> v1::CoordNode {
    v1::CoordNode {
        path: node.path,
        self_check_ms: node.self_check_ms,
        grace_ms: node.grace_ms,
        strict_reads: node.strict_reads,
        strict_attaches: node.strict_attaches,
        sessions: node.sessions,
        semaphores: node.semaphores,
    }
}

fn coord_page(limit: u32) -> usize {
    if limit == 0 { COORD_PAGE_DEFAULT } else { (limit as usize).min(COORD_PAGE_MAX) }
}

fn coord_session_out(session: CoordSession) -> v1::CoordSession {
    v1::CoordSession {
        id: session.id,
        timeout_ms: session.timeout_ms,
        description: session.description,
        attached: session.attached,
        claims: session.claims,
    }
}

fn coord_semaphore_out(semaphore: CoordSemaphore) -> v1::CoordSemaphore {
    v1::CoordSemaphore {
        name: semaphore.name,
        data: semaphore.data,
        limit: semaphore.limit,
        count: semaphore.count,
        ephemeral: semaphore.ephemeral,
        owners: semaphore.owners_total,
        waiters: semaphore.waiters_total,
    }
}

fn writeback_out(writeback: WritebackStatus) -> v1::Writeback {
    v1::Writeback {
        url: writeback.url,
        connected: writeback.connected,
        dirty: writeback.dirty,
        last_error_ago_ms: writeback.last_error.as_ref().map_or(0, |error| error.ago_ms),
        last_error: writeback.last_error.map(|error| error.message).unwrap_or_default(),
        tables_ahead: writeback.tables_ahead,
    }
}

fn table_writeback_out(table: TableWriteback) -> v1::TableWriteback {
    v1::TableWriteback {
        table: table.table,
        dirty_rows: table.dirty_rows,
        dirty_bytes: table.dirty_bytes,
        oldest_dirty_ms: table.oldest_dirty_ms,
        written_rows: table.written_rows,
        written_per_second: table.written_per_second,
        last_error_ago_ms: table.last_error.as_ref().map_or(0, |error| error.ago_ms),
        last_error: table.last_error.map(|error| error.message).unwrap_or_default(),
        ahead: table.ahead.unwrap_or_default(),
        paused_ms: table.paused_ms,
        conflicts: table.conflicts,
        dead_letters: table.dead_letters,
    }
}

fn letter_out(letter: DeadLetter) -> v1::DeadLetter {
    v1::DeadLetter {
        row: Some(convert::row_out(letter.row)),
        version: letter.version.0,
        error: letter.error,
        tries: letter.tries,
        first_at_ms: letter.first_at.0,
        last_at_ms: letter.last_at.0,
    }
}

fn verified_out(verified: Verified) -> v1::VerifyReply {
    v1::VerifyReply {
        equal: verified.equal,
        dirty: verified.dirty,
        not_in_memory: verified.not_in_memory,
        changing: verified.changing,
        progress: verified.progress(),
        differences: verified.differences.into_iter().map(difference_out).collect(),
        next: verified.next.unwrap_or_default(),
    }
}

fn difference_out(found: RowDifference) -> v1::Difference {
    let (kind, message) = match found.kind {
        DifferenceKind::Missing => (v1::DifferenceKind::Missing, String::new()),
        DifferenceKind::Content => (v1::DifferenceKind::Content, String::new()),
        DifferenceKind::Older => (v1::DifferenceKind::Older, String::new()),
        DifferenceKind::Newer => (v1::DifferenceKind::Newer, String::new()),
        DifferenceKind::Unfit(message) => (v1::DifferenceKind::Unfit, message),
    };
    v1::Difference {
        row: Some(convert::row_out(found.row)),
        kind: kind.into(),
        memory_version: found.memory.0,
        sql_version: found.sql.0,
        message,
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
        suspended: shard.suspended,
        bytes_max: shard.bytes_max,
        leader_name: shard.leader_name,
        replicas: shard.replicas.into_iter().map(replica_out).collect(),
        generation: shard.epoch.generation.0,
        range_version: shard.epoch.range.0,
        conf_version: shard.epoch.conf.0,
        unsplit: shard.unsplit.unwrap_or_default(),
    }
}

fn replica_out(replica: ReplicaStatus) -> v1::Replica {
    v1::Replica { node: replica.node.0, name: replica.name, lives: replica.lives }
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
        retries: explanation.retries,
    }
}

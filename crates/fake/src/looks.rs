//! What is told of nodes, shards, SQL and coordination: made up, as there are none.

use shardine_model::key::partition_key;
use shardine_model::{ErrorCode, NodeId, NodeMode, Refusal, RowKeyBuf, ShardId, TableId, Timestamp, Version};
use shardine_router::{
    BalanceLook, BalanceView, BalancerReport, CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession,
    CoordStatus, CoordView, DeadLetterLine, Difference, DifferenceKind, DrainLeft, DrainReport, EngineStatus,
    EventLine, Explanation, MoveLine, NodeFill, Operate, Residence, Response, ShardStatus, SqlError, TableWriteback,
    VerifiedPage, WritebackReport, WritebackStatus,
};

use crate::shard::FakeShard;

/// The only one.
pub(crate) const SHARD: ShardId = ShardId(1);

impl FakeShard {
    pub(crate) fn status(&self) -> EngineStatus {
        EngineStatus {
            histograms: Vec::new(),
            errors: Vec::new(),
            node: NodeId(1),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_ahead_ms: None,
            protocol: 1,
            nodes: Vec::new(),
            uptime_ms: 61_000,
            lanes: 1,
            connections: 2,
            log_bytes: 4_096,
            shards: vec![self.shard()],
            writeback: Some(WritebackStatus {
                url: "sqlite:data.db".into(),
                connected: true,
                dirty: 0,
                last_error: None,
                tables_ahead: Vec::new(),
            }),
            coordination: vec![CoordStatus {
                group: 1 << 30,
                leader: Some(NodeId(1)),
                sessions: 4,
                ..CoordStatus::default()
            }],
            differences: Vec::new(),
            counters: vec![("commands", self.executed)],
        }
    }

    /// A row that nobody else knows is missing in SQL; the others are there.
    pub(crate) fn verify(&self) -> VerifiedPage {
        let dirty = self.dirty_rows().len() as u64;
        let table = self.catalogue().named("users").map_or(TableId(2), |table| table.id);
        let row = RowKeyBuf { table, key: (*b"lost").into(), sort: Box::default() };
        let (memory, sql) = (Version(3), Version(0));
        let differences = vec![Difference { row, kind: DifferenceKind::Missing, memory, sql }];
        VerifiedPage { equal: 5, dirty, differences, ..VerifiedPage::default() }
    }

    pub(crate) fn dead_letters(&self) -> Vec<DeadLetterLine> {
        let Some(table) = self.catalogue().named("users").map(|table| table.id) else { return Vec::new() };
        let row = RowKeyBuf { table, key: (*b"long").into(), sort: Box::default() };
        let (first_at, last_at) = (Timestamp(1_000), Timestamp(2_000));
        vec![DeadLetterLine { row, version: Version(4), error: "too long".into(), tries: 2, first_at, last_at }]
    }

    pub(crate) fn writeback(&self) -> WritebackReport {
        let users = TableWriteback {
            table: "users".into(),
            dirty_rows: self.dirty_rows().len() as u64,
            written_rows: 3,
            written_per_second: 0.5,
            last_error: Some(SqlError { message: "SQL refused lili: too long".into(), ago_ms: 12_000, is_past: true }),
            ..TableWriteback::default()
        };
        WritebackReport { database: self.status().writeback, tables: vec![users], unheard: Vec::new() }
    }

    fn shard(&self) -> ShardStatus {
        let leader = Some(NodeId(1));
        let (records, suspended) = (self.records.live_count(None), self.suspended);
        ShardStatus { shard: SHARD, leader, term: 1, records, suspended, ..ShardStatus::default() }
    }

    pub(crate) fn explain(&self, key: &RowKeyBuf) -> Explanation {
        let reply = self.read(key.as_ref());
        Explanation {
            table: self.catalogue().get(key.table).map(|table| table.name.clone()).unwrap_or_default(),
            partition_key: partition_key(&key.key).to_vec(),
            position: key.as_ref().position(),
            shard: self.shard(),
            residence: if reply.version.is_live() { Residence::Live } else { Residence::Absent },
            version: reply.version,
            sql_version: reply.sql_version,
            expires_at: reply.expires_at,
            retries: 0,
        }
    }
}

/// An operator may have anything of node `n2`, which takes every lead; there is no other.
pub(crate) fn operate(order: &Operate) -> Response {
    match order {
        Operate::Split { .. } | Operate::Transfer { to: None, .. } => Response::Count(2),
        Operate::Transfer { to: Some(node), .. } if node == "n2" => Response::Count(2),
        Operate::Mode { node, .. } | Operate::Weight { node, .. } | Operate::Remove { node } if node == "n2" => {
            Response::Done
        }
        Operate::Set { name, .. } if name == "balancer" => Response::Done,
        Operate::Move { shard, from, to, .. } if to == "n2" => {
            Response::Balance(Box::new(BalanceView::Told(format!("{}: {to} in place of {from}", shard.label()))))
        }
        _ => Response::Refused(Refusal::new(ErrorCode::NotFound, "there is no such node")),
    }
}

/// One move from `n1` to `n2` is planned, and one was made.
pub(crate) fn balance(look: &BalanceLook) -> Response {
    let (what, why) = ("n2 in place of n1".to_owned(), "n1 holds 2 replicas, n2 0".to_owned());
    Response::Balance(Box::new(match look {
        BalanceLook::Report => BalanceView::Report(BalancerReport {
            is_on: true,
            is_time: true,
            settings: vec![("balancer".to_owned(), "on".to_owned())],
            speed_bytes: 64 << 20,
            gone_after_ms: 300_000,
            nodes: vec![NodeFill { node: NodeId(2), name: "n2".into(), weight: 100, ..NodeFill::default() }],
            running: Vec::new(),
            planned: vec![MoveLine { shard: SHARD, what, why, is_for_balance: true }],
        }),
        BalanceLook::Events { after } => {
            let event = EventLine { number: 7, at: Timestamp(1_000), text: "shard 1 has moved".to_owned() };
            BalanceView::Events(Some(event).filter(|event| event.number > *after).into_iter().collect())
        }
    }))
}

/// Node `n2` waits for one shard.
pub(crate) fn drain(node: &str) -> Response {
    if node != "n2" {
        return Response::Refused(Refusal::new(ErrorCode::NotFound, "there is no such node"));
    }
    let left = DrainLeft { shard: SHARD, leads: true, stuck: true, waits_for: "n3 is silent".into() };
    let (node, name) = (NodeId(2), node.to_owned());
    Response::Drain(Box::new(DrainReport { node, name, mode: NodeMode::Draining, weight: 100, left: vec![left] }))
}

/// One node with one session that holds the one semaphore; any other node is missing.
pub(crate) fn coord(look: &CoordLook) -> Response {
    let (CoordLook::Sessions { node, .. } | CoordLook::Semaphores { node, .. }) = look else {
        let node = CoordNode { path: "/local/locks".into(), sessions: 1, semaphores: 1, ..CoordNode::default() };
        return Response::Coord(CoordView::Nodes(vec![node]));
    };
    if node != "/local/locks" {
        return Response::Refused(Refusal::new(ErrorCode::NotFound, format!("there is no coordination node {node}")));
    }
    Response::Coord(match look {
        CoordLook::Sessions { after, limit, .. } => {
            let session = CoordSession { id: after + 1, claims: *limit as u64, attached: true, ..Default::default() };
            CoordView::Sessions(vec![session])
        }
        CoordLook::Nodes | CoordLook::Semaphores { .. } => {
            let owner = CoordClaim { order_id: u64::MAX, session_id: 1, count: 1, data: b"here".to_vec() };
            let semaphore = CoordSemaphore { name: format!("{look:?}"), owners: vec![owner], ..Default::default() };
            CoordView::Semaphores(vec![semaphore])
        }
    })
}

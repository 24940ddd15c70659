//! Where calls from other threads find their lane, and calls that concern several shards are gathered.

pub(crate) mod balance;
mod cluster;
mod operate;
pub(crate) mod transfer;

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shardine_model::{
    Catalogue, ClusterMap, ErrorCode, GroupKind, NodeId, Position, Refusal, ReplicaId, ShardId, TableId,
};
use shardine_router::{
    Call, EngineStatus, HistogramStatus, NodeCall, RemoteEngine, Response, RowCall, ShardAsk, ShardsCall, SqlError,
    Switch, TableCall, TableWriteback, WritebackReport, WritebackStatus, newest,
};
use shardine_shard::Message;
use shardine_shard::meta::{Command, Reply};
use shardine_store::Storage;
use shardine_transport::{LeaderNews, PROTOCOL_VERSION};

use crate::atlas::{Atlas, Sheet};
use crate::audit::Audit;
use crate::baseline::Baseline;
use crate::catalogue::SharedCatalogue;
use crate::clock::Clock;
use crate::coord::Window;
use crate::differences::Differences;
use crate::lane::PASSED_KEEP_MS;
use crate::lane_message::{Inbox, LaneMessage, LaneStatus, Respond, ShardDone};
use crate::meta::{MetaHandle, OnReply};
use crate::peers::{Board, ControlHandle, ControlMessage, Prepared};
use crate::places::Places;
use crate::schema_manager::{SchemaCall, SchemaRequest};

/// For how long all shards are asked again because one of them was parted meanwhile, and how often.
const PARTED_TIME: Duration = Duration::from_secs(3);
const PARTED_PAUSE: Duration = Duration::from_millis(10);

/// Shared by lanes and doors.
pub(crate) struct Exchange {
    pub places: Places,
    pub inboxes: Vec<Inbox>,
    pub catalogue: SharedCatalogue,
    pub schema_manager: Mutex<Sender<SchemaRequest>>,
    pub sql: Option<shardine_writeback::Handle>,
    pub sql_url: String,
    pub baseline: Arc<Baseline>,
    pub node: u64,
    pub started: std::time::Instant,
    pub clock: Clock,
    pub storage: Arc<Storage>,
    /// The size at which this node splits what it leads.
    pub split_bytes: u64,
    pub differences: Differences,
    pub audit: Audit,
    /// The scripts that its Redis clients have told.
    pub scripts: Arc<shardine_resp::Book>,
    /// The functions that its Redis clients may call.
    pub shelf: Arc<shardine_resp::Shelf>,
    /// Set once coordination runs, which it does before any door opens.
    pub coord: OnceLock<Window>,
    /// Absent for a node that is alone.
    pub cluster: Option<Neighbourhood>,
}

/// The rest of the cluster, as this node knows it.
pub(crate) struct Neighbourhood {
    pub atlas: Atlas,
    pub board: Arc<Board>,
    /// Set before any lane runs.
    pub control: OnceLock<ControlHandle>,
    /// Whoever keeps the map. Set before any lane hears of another node.
    pub meta: OnceLock<MetaHandle>,
}

impl Neighbourhood {
    /// The map as it is now.
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.atlas.sheet().cluster)
    }

    /// A group of this node has a leader: everybody here knows it, and, if it is this node, everybody else is told.
    pub fn lead(&self, own: NodeId, news: LeaderNews) {
        if self.board.post(news)
            && news.node == own
            && let Some(control) = self.control.get()
        {
            control.send(ControlMessage::Leader(news));
        }
    }
}

impl Exchange {
    pub fn dispatch(self: &Arc<Self>, call: Call, done: Respond) {
        match call {
            Call::Row(call) => match call.position() {
                Ok(position) => self.send_to_lane(None, call, position, done),
                Err(refusal) => done(Response::Refused(refusal)),
            },
            Call::Direct(call) => match call.position() {
                Ok(position) => {
                    self.inboxes[self.places.lane_of(position)].send(LaneMessage::Direct { call, position, done });
                }
                Err(refusal) => done(Response::Refused(refusal)),
            },
            Call::Shards(call) => self.ask_shards(call, done),
            Call::Table(call) if self.cluster.is_some() => {
                self.inboxes[self.places.lane_of(Position(0))].send(LaneMessage::Table { call, done });
            }
            Call::Table(call) => self.change_table(call, done),
            Call::Libraries(call) => self.ask_schema_manager(SchemaCall::Libraries(call), done),
            Call::Node(NodeCall::Status) => self.status(done),
            Call::Node(NodeCall::Cluster) => self.cluster_status(done),
            Call::Node(NodeCall::Routes) => done(Response::Routes(Box::new(self.routes()))),
            Call::Node(NodeCall::Operate(order)) => self.operate(order, done),
            Call::Node(NodeCall::Drain { node }) => done(self.drain_report(&node)),
            Call::Node(NodeCall::Balance(look)) => self.look_at_balance(look, done),
            Call::Node(NodeCall::Coord(look)) => self.cluster_coord(look, done),
        }
    }

    /// Has the schema manager of this node change a table.
    pub fn change_table(&self, call: TableCall, done: Respond) {
        self.ask_schema_manager(SchemaCall::Table(Box::new(call)), done);
    }

    fn ask_schema_manager(&self, call: SchemaCall, done: Respond) {
        let schema_manager = self.schema_manager.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = schema_manager.send(SchemaRequest { call, done });
    }

    /// Hands a call to the lane that holds its position.
    pub fn send_to_lane(&self, source: Option<u64>, call: RowCall, position: Position, done: Respond) {
        self.inboxes[self.places.lane_of(position)].send(LaneMessage::Call { source, call, position, done });
    }

    fn ask_shards(self: &Arc<Self>, call: ShardsCall, done: Respond) {
        match call {
            ShardsCall::Count { table } => self.ask_all(
                move || ShardAsk::Count { table },
                Box::new(|sum| done(sum.map_or_else(refused, Response::Count))),
            ),
            ShardsCall::Flush { table } => self.ask_all(move || ShardAsk::Flush { table }, done_only(done)),
            ShardsCall::Clear { table } => {
                let entry = shardine_model::Entry::Clear { table }.to_bytes();
                self.ask_all(move || ShardAsk::Propose { entry: entry.clone() }, done_only(done));
            }
            ShardsCall::Suspend { shard, switch } => self.suspend(shard, switch, done),
            ShardsCall::Writeback => self.cluster_writeback(done),
            ShardsCall::DeadLetters { table } => self.cluster_dead_letters(table, done),
            ShardsCall::RetryDeadLetters { table } => {
                self.ask_all(move || ShardAsk::RetryDeadLetters { table }, done_only(done));
            }
        }
    }

    fn suspend(self: &Arc<Self>, shard: Option<ShardId>, switch: Switch, done: Respond) {
        let entry = match switch {
            Switch::On => shardine_model::Entry::Suspend.to_bytes(),
            Switch::Off => shardine_model::Entry::Resume.to_bytes(),
        };
        let Some(shard) = shard else {
            return self.ask_all(move || ShardAsk::Propose { entry: entry.clone() }, done_only(done));
        };
        match self.places.of_shard(shard) {
            Some(place) => self.ask(shard, place.lane, ShardAsk::Propose { entry }, done_only(done)),
            None => {
                let message = format!("there is no shard {shard}; `shardine shards` lists them");
                done(Response::Refused(Refusal::new(ErrorCode::NotFound, message)));
            }
        }
    }

    /// Asks every shard and sums what they say; the first error stands for all. If one has other bounds than this node knew, all are
    /// asked again: then every row was asked for once.
    fn ask_all(self: &Arc<Self>, what: impl Fn() -> ShardAsk + Send + 'static, done: ShardDone) {
        self.ask_until(Instant::now() + PARTED_TIME, Box::new(what), done);
    }

    fn ask_until(self: &Arc<Self>, until: Instant, what: Box<dyn Fn() -> ShardAsk + Send>, done: ShardDone) {
        let map = self.places.now();
        let asks: Vec<ShardAsk> =
            map.places().iter().map(|place| ShardAsk::AsOf { range: place.range.0, ask: Box::new(what()) }).collect();
        let exchange = Arc::clone(self);
        let done: ShardDone = Box::new(move |sum| match sum {
            Err(ErrorCode::VersionMismatch) if Instant::now() < until => exchange.ask_later(until, what, done),
            Err(ErrorCode::VersionMismatch) => done(Err(ErrorCode::Busy)),
            sum => done(sum),
        });
        let gather = Arc::new(Mutex::new(Gather { left: asks.len(), sum: Ok(0), done: Some(done) }));
        for (place, ask) in map.places().iter().zip(asks) {
            let gather = Arc::clone(&gather);
            self.ask(place.shard, place.lane, ask, Box::new(move |result| Gather::add(&gather, result)));
        }
    }

    /// A split that was met halfway is known a moment later. Seldom, and nothing waits on the thread for anything else.
    fn ask_later(self: Arc<Self>, until: Instant, what: Box<dyn Fn() -> ShardAsk + Send>, done: ShardDone) {
        let again = move || {
            std::thread::sleep(PARTED_PAUSE);
            self.ask_until(until, what, done);
        };
        if let Err(error) = std::thread::Builder::new().name("ask-again".to_owned()).spawn(again) {
            tracing::error!(%error, "no thread to ask shards again");
        }
    }

    pub fn ask(&self, shard: ShardId, lane: usize, what: ShardAsk, done: ShardDone) {
        self.inboxes[lane].send(LaneMessage::ToShard { shard, what, done });
    }

    /// Asks whoever has the shard to cut a snapshot of it.
    pub fn snapshot_now(&self, shard: ShardId) {
        match shard.kind() {
            GroupKind::Records => {
                if let Some(place) = self.places.of_shard(shard) {
                    self.inboxes[place.lane].send(LaneMessage::SnapshotNow(shard));
                }
            }
            GroupKind::Coordination => {
                if let Some(window) = self.coord.get() {
                    window.snapshot_now(shard);
                }
            }
            GroupKind::Meta => {
                if let Some(meta) = self.meta() {
                    meta.snapshot_now();
                }
            }
        }
    }

    fn meta(&self) -> Option<&MetaHandle> {
        self.cluster.as_ref()?.meta.get()
    }

    /// Tells whoever leads the map's group what a group's leader has done.
    pub fn report(&self, command: Command) {
        if let Some(meta) = self.meta() {
            meta.report(command);
        }
    }

    /// Executes a command that another node has for the leader of the map's group.
    pub fn submit_meta(&self, command: &[u8], done: Respond) {
        match (Command::from_bytes(command), self.meta()) {
            (Ok(command), Some(meta)) => meta.submit(command, done),
            (Err(error), _) => done(Response::Refused(Refusal::new(ErrorCode::BadRequest, error.to_string()))),
            (Ok(_), None) => done(refused(ErrorCode::NotLeader)),
        }
    }

    /// Has a command executed by whoever leads the map's group, and waits for it.
    pub fn ask_meta(&self, command: Command) -> Result<Reply, Refusal> {
        let alone = || Refusal::new(ErrorCode::Unsupported, "this node is alone and has no map");
        self.meta().ok_or_else(alone)?.ask_and_wait(command)
    }

    /// The same for whoever hears of it later.
    pub fn ask_meta_then(&self, command: Command, done: OnReply) {
        match self.meta() {
            Some(meta) => meta.ask(command, done),
            None => done(Err(Refusal::new(ErrorCode::NoLeader, "the map is not served yet; try again"))),
        }
    }

    /// The gRPC door of the node that leads a group, if that is known and another one than this.
    pub fn door_of_leader(&self, group: ShardId) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        let node = cluster.board.leader(group).filter(|node| node.0 != self.node)?;
        Some(cluster.map().node(node)?.addresses.grpc.clone())
    }

    /// There is a new map, and it is on disk: everybody here hears of it.
    pub fn turn_to(&self, sheet: &Arc<Sheet>) {
        let Some(cluster) = &self.cluster else { return };
        cluster.atlas.put(Arc::clone(sheet));
        self.places.adopt(&sheet.cluster);
        self.shelf.turn_to(&sheet.full.libraries);
        let told = &sheet.full.catalogue;
        self.catalogue.replace(
            |held| (held.version() != told.version()).then(|| told.clone()),
            || self.tell_lanes(|| LaneMessage::Catalogue),
        );
        self.tell_lanes(|| LaneMessage::Map(Arc::clone(sheet)));
        if let Some(window) = self.coord.get() {
            window.turn_to(Arc::clone(sheet));
        }
        cluster.board.note_version(NodeId(self.node), sheet.version());
        if let Some(control) = cluster.control.get() {
            control.send(ControlMessage::Map);
        }
    }

    /// A message for a group of this node that came on the link of a lane which has no seat for it.
    pub fn step_elsewhere(&self, shard: ShardId, message: Message, lane: usize) {
        match shard.kind() {
            GroupKind::Records => {
                let place = self.places.of_shard(shard);
                if let Some(place) = place.filter(|place| place.lane != lane) {
                    self.inboxes[place.lane].send(LaneMessage::Raft { shard, message });
                }
            }
            GroupKind::Coordination => {
                if let Some(window) = self.coord.get() {
                    window.step(shard, message);
                }
            }
            GroupKind::Meta => {
                if let Some(meta) = self.meta() {
                    meta.step(message);
                }
            }
        }
    }

    /// Gives a leader's snapshot to the group that it is for, with what its content was made into.
    pub fn step_snapshot(&self, shard: ShardId, message: Message, prepared: Prepared) {
        match prepared {
            Prepared::Records(records) => {
                if let Some(place) = self.places.of_shard(shard) {
                    self.inboxes[place.lane].send(LaneMessage::Install { shard, message, records });
                }
            }
            Prepared::Coord(coord) => {
                if let Some(window) = self.coord.get() {
                    window.step_snapshot(shard, message, coord);
                }
            }
            Prepared::Meta(meta) => {
                if let Some(keeper) = self.meta() {
                    keeper.step_snapshot(message, meta);
                }
            }
        }
    }

    pub fn tell_lanes(&self, message: impl Fn() -> LaneMessage) {
        self.inboxes.iter().for_each(|inbox| inbox.send(message()));
    }

    /// Takes definitions, the newest of each table, and tells everybody what is new. On a node that is alone: in a cluster they come
    /// with the map.
    pub fn learn(&self, held: &Catalogue) {
        let with_news = |known: &Catalogue| {
            let (mut next, mut has_news) = (known.clone(), false);
            for table in held.definitions() {
                has_news |= next.put(shardine_model::Table::clone(table));
            }
            has_news.then_some(next)
        };
        self.catalogue.replace(with_news, || self.tell_lanes(|| LaneMessage::Catalogue));
    }

    /// Waits until every node that lives has the map that this one has.
    pub fn await_others(&self, within: std::time::Duration) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        let sheet = cluster.atlas.sheet();
        let nodes = sheet.full.members().map(|entry| entry.node).filter(|node| node.0 != self.node);
        cluster.board.await_version(&nodes.collect::<Vec<_>>(), sheet.version(), within)
    }

    /// Gathers what every lane tells; the last one to tell answers.
    fn ask_lanes<T: Send + 'static>(
        &self,
        message: impl Fn(Box<dyn FnOnce(T) + Send>) -> LaneMessage,
        finish: impl FnOnce(Vec<T>) + Send + 'static,
    ) {
        let lanes = self.inboxes.len();
        let gather = Arc::new(Mutex::new((Vec::new(), Some(finish))));
        for inbox in &self.inboxes {
            let gather = Arc::clone(&gather);
            let tell = move |told: T| {
                let mut gathered = gather.lock().unwrap_or_else(PoisonError::into_inner);
                gathered.0.push(told);
                if gathered.0.len() < lanes {
                    return;
                }
                let told = std::mem::take(&mut gathered.0);
                let finish = gathered.1.take();
                drop(gathered);
                if let Some(finish) = finish {
                    finish(told);
                }
            };
            inbox.send(message(Box::new(tell)));
        }
    }

    pub fn status(self: &Arc<Self>, done: Respond) {
        let exchange = Arc::clone(self);
        let finish = move |lanes| {
            let mut status = exchange.join_status(lanes);
            let Some(window) = exchange.coord.get() else { return done(Response::Status(Box::new(status))) };
            let exchange = Arc::clone(&exchange);
            window.status(Box::new(move |coordination| {
                status.coordination = coordination;
                if let Some(map) = exchange.cluster.as_ref().map(Neighbourhood::map) {
                    // Groups know replicas, people nodes.
                    for group in &mut status.coordination {
                        let node_of = |leader: NodeId| map.node_of(ShardId(group.group), ReplicaId(leader.0));
                        group.leader = group.leader.and_then(node_of);
                    }
                }
                done(Response::Status(Box::new(status)));
            }));
        };
        self.ask_lanes(|done| LaneMessage::Status { done }, finish);
    }

    /// Gives every lead of this node to somebody else, or goes on doing so.
    pub fn hand_over(&self) {
        self.tell_lanes(|| LaneMessage::HandOver);
        if let Some(window) = self.coord.get() {
            window.hand_over();
        }
        if let Some(meta) = self.meta() {
            meta.hand_over();
        }
    }

    /// Groups of this node's lanes that it leads and others could.
    pub fn leads(&self, patience: std::time::Duration) -> usize {
        let (give, take) = std::sync::mpsc::channel();
        let finish = move |lanes: Vec<LaneStatus>| {
            let _ = give.send(lanes.iter().map(|lane| lane.leads).sum());
        };
        self.ask_lanes(|done| LaneMessage::Status { done }, finish);
        take.recv_timeout(patience).unwrap_or(0)
    }

    pub fn writeback(self: &Arc<Self>, done: Respond) {
        let exchange = Arc::clone(self);
        let finish = move |lanes| done(Response::Writeback(Box::new(exchange.join_writeback(lanes))));
        self.ask_lanes(|done| LaneMessage::Writeback { done }, finish);
    }

    pub fn dead_letters(&self, table: Option<TableId>, done: Respond) {
        let finish = move |lanes: Vec<Vec<_>>| done(Response::DeadLetters(lanes.into_iter().flatten().collect()));
        self.ask_lanes(|done| LaneMessage::DeadLetters { table, done }, finish);
    }

    fn join_writeback(&self, lanes: Vec<Vec<TableWriteback>>) -> WritebackReport {
        let tables = join_tables(lanes.into_iter().flatten());
        let dirty = tables.iter().map(|table| table.dirty_rows).sum();
        WritebackReport { database: self.database(dirty), tables, unheard: Vec::new() }
    }

    fn database(&self, dirty: u64) -> Option<WritebackStatus> {
        let look = self.sql.as_ref()?.status();
        let last_error = look.last_error.map(|(error, ago)| SqlError {
            message: error.to_string(),
            ago_ms: u64::try_from(ago.as_millis()).unwrap_or(u64::MAX),
            is_past: look.connected,
        });
        let is_told = |error: &SqlError| !look.connected || error.ago_ms < PASSED_KEEP_MS;
        let tables = self.catalogue.get();
        let tables_ahead = tables.tables().filter(|table| self.baseline.ahead(table.id).is_some());
        Some(WritebackStatus {
            url: self.sql_url.clone(),
            connected: look.connected,
            dirty,
            last_error: last_error.filter(is_told),
            tables_ahead: tables_ahead.map(|table| table.name.clone()).collect(),
        })
    }

    /// Why nothing of a table is written, if SQL is ahead of this node in it.
    pub fn ahead(&self, table: TableId) -> Option<String> {
        let (shards, why) = self.baseline.ahead(table)?;
        Some(if shards > 1 { format!("{why} (and so for {} more shards)", shards - 1) } else { why })
    }

    fn join_status(&self, lanes: Vec<LaneStatus>) -> EngineStatus {
        let mut status = EngineStatus {
            node: shardine_model::NodeId(self.node),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: u64::from(PROTOCOL_VERSION),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall_ahead_ms: self.clock.doubt().map(|doubt| doubt.wall_ahead_ms),
            lanes: self.inboxes.len(),
            log_bytes: self.storage.log_bytes(),
            ..EngineStatus::default()
        };
        for lane in lanes {
            status.connections += lane.connections;
            status.shards.extend(lane.shards);
            HistogramStatus::join(&mut status.histograms, lane.histograms);
            for (code, count) in lane.errors {
                match status.errors.iter_mut().find(|(_, known, _)| *known == code) {
                    Some((_, _, sum)) => *sum += count,
                    None => status.errors.push(("redis", code, count)),
                }
            }
            for (name, value) in lane.counters {
                match status.counters.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += value,
                    None => status.counters.push((name, value)),
                }
            }
        }
        status.shards.sort_by_key(|shard| shard.lo);
        if let Some(sql) = &self.sql {
            let look = sql.status();
            status.counters.extend([
                ("sql_rows_written", look.rows_written),
                ("sql_rows_read", look.rows_read),
                ("sql_rows_refused", look.rows_refused),
                ("sql_rows_orphaned", look.rows_orphaned),
                ("sql_jobs_failed", look.jobs_failed),
            ]);
        }
        status.counters.extend(self.differences.counters());
        status.counters.extend(self.audit.counters());
        status.differences = self.differences.trouble();
        status.differences.extend(self.audit.trouble());
        status.writeback = self.database(status.shards.iter().map(|shard| shard.dirty).sum());
        status
    }
}

struct Gather {
    left: usize,
    sum: Result<u64, ErrorCode>,
    done: Option<ShardDone>,
}

impl Gather {
    fn add(gather: &Mutex<Self>, result: Result<u64, ErrorCode>) {
        let mut this = gather.lock().unwrap_or_else(PoisonError::into_inner);
        this.sum = match (this.sum, result) {
            (Ok(sum), Ok(more)) => Ok(sum + more),
            (Err(code), _) | (Ok(_), Err(code)) => Err(code),
        };
        this.left -= 1;
        if this.left == 0 {
            let (sum, done) = (this.sum, this.done.take());
            drop(this);
            if let Some(done) = done {
                done(sum);
            }
        }
    }
}

fn done_only(done: Respond) -> ShardDone {
    Box::new(|sum| done(sum.map_or_else(refused, |_| Response::Done)))
}

pub(crate) fn refused(code: ErrorCode) -> Response {
    Response::Refused(Refusal::new(code, sentence(code)))
}

/// What is known about a refusal that carries only its code.
fn sentence(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotLeader | ErrorCode::NoLeader => "this shard has no leader here at the moment; try again",
        ErrorCode::Busy => "too much is waiting; try again shortly",
        ErrorCode::BackendUnavailable => {
            "the record is not in memory, and SQL does not give it: `shardine writeback status` says why"
        }
        ErrorCode::UnknownTable => "there is no such table",
        ErrorCode::Unsupported => "the table is only read from SQL, or has no SQL behind it",
        ErrorCode::BadRequest => "the request is malformed",
        ErrorCode::Suspended => "an operator has suspended this shard; nothing was done, try again after a resume",
        ErrorCode::SqlRefused => "SQL does not take a row as it is; `shardine writeback dead-letters` says why",
        ErrorCode::InDoubt => "the change may or may not have been made",
        _ => "refused",
    }
}

/// The exchange as doors on other threads hold it.
pub(crate) struct ExchangeHandle(pub Arc<Exchange>);

impl RemoteEngine for ExchangeHandle {
    fn catalogue(&self) -> Arc<Catalogue> {
        self.0.catalogue.get()
    }

    fn call(&self, call: Call, done: Box<dyn FnOnce(Response) + Send>) {
        self.0.dispatch(call, done);
    }
}

/// What lanes or nodes say of each table, put together by name.
fn join_tables(lines: impl Iterator<Item = TableWriteback>) -> Vec<TableWriteback> {
    let mut tables: BTreeMap<String, TableWriteback> = BTreeMap::new();
    for line in lines {
        let sum = tables
            .entry(line.table.clone())
            .or_insert_with(|| TableWriteback { table: line.table.clone(), ..TableWriteback::default() });
        sum.dirty_rows += line.dirty_rows;
        sum.dirty_bytes += line.dirty_bytes;
        sum.oldest_dirty_ms = sum.oldest_dirty_ms.max(line.oldest_dirty_ms);
        sum.paused_ms = sum.paused_ms.max(line.paused_ms);
        sum.conflicts += line.conflicts;
        sum.dead_letters += line.dead_letters;
        sum.written_rows += line.written_rows;
        sum.written_per_second += line.written_per_second;
        sum.last_error = newest(sum.last_error.take(), line.last_error);
        sum.ahead = line.ahead.or(sum.ahead.take());
    }
    tables.into_values().collect()
}

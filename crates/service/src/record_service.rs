//! The record service: carries a checked request into the engine, waits for the response until the deadline, and says what it means.

use std::sync::Arc;

use shardine_model::command::{Body, Origin, Request};
use shardine_model::{
    Ack, AckAfter, Answer, Backing, Catalogue, ErrorCode, Refusal, RowKeyBuf, ShardId, Table, Version, limits,
};
use shardine_router::{
    Call, CoordLook, CoordView, EngineStatus, Explanation, FieldSpec, NodeCall, RemoteEngine, Response, RouteList,
    RowCall, ShardStatus, ShardsCall, Switch, TableCall, TableSpec, VerifyCall, WritebackReport,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::meaning::{Changed, answer, changed, got, item_result, scanned_record, settled, show, table_of, unexpected};
use crate::order::{Checked, Delivery, Order, RowAddress, find_table};
use crate::query::{BatchOrder, Get, Got, Page, Scan};
use crate::record::Show;
use crate::room::{Arrival, Room};
use crate::verify::{DeadLetter, Verified, Verify};

/// Which shards a scan visits.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    pub table: String,
    /// One partition lives in one shard; a table is merged from all of them.
    pub single: bool,
    pub shards: Vec<ShardStatus>,
}

/// Whether a call that nobody answers in time may have had an effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
}

/// Where a response will come.
pub(crate) type Receiver = oneshot::Receiver<Arrival>;

/// Serves one door. Cheap to clone.
#[derive(Clone)]
pub struct RecordService {
    engine: Arc<dyn RemoteEngine>,
    forwarding: Forwarding,
    room: Arc<Room>,
}

/// What becomes of a request for a row that another node leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// It is passed on.
    #[default]
    On,
    /// Whoever asks goes there itself: the failure says where.
    Off,
}

impl RecordService {
    #[must_use]
    pub fn new(engine: Arc<dyn RemoteEngine>) -> Self {
        Self { engine, forwarding: Forwarding::On, room: Arc::default() }
    }

    /// The same with another way of dealing with rows that other nodes lead.
    #[must_use]
    pub fn forwarding(&self, forwarding: Forwarding) -> Self {
        Self { engine: Arc::clone(&self.engine), forwarding, room: Arc::clone(&self.room) }
    }

    #[must_use]
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.engine.catalogue()
    }

    pub async fn get(&self, get: Get, deadline: Instant) -> Result<Got, Failure> {
        let (table, row) = get.check(&self.engine.catalogue())?;
        let response = self.ask(get.call(row.clone()), Effect::Reads, deadline, &show(&table, &row)).await?;
        got(&get, &table, &row, response)
    }

    pub async fn change(&self, order: Order, delivery: Delivery, deadline: Instant) -> Result<Changed, Failure> {
        let catalogue = self.engine.catalogue();
        let checked = order.check(&catalogue)?;
        check_ack(delivery.ack, &checked.table)?;
        let (request, ack) = (self.encode(&checked, delivery.origin), ack(delivery.ack, deadline));
        let what = show(&checked.table, &checked.row);
        let call = RowCall::Submit { request, catalogue: catalogue.version(), ack };
        let response = self.ask(call, Effect::Changes, deadline, &what).await?;
        let reply = match answer(response, &what)? {
            Answer::One(reply) => reply,
            other => return Err(unexpected(&other)),
        };
        changed(&checked, reply)
    }

    pub async fn batch(&self, order: BatchOrder, deadline: Instant) -> Result<Vec<Changed>, Failure> {
        let delivery = order.delivery;
        let catalogue = self.engine.catalogue();
        let batch = order.check(&catalogue)?;
        for item in &batch.items {
            check_ack(delivery.ack, item.table())?;
        }
        let (request, ack) = (batch.encode(delivery.origin), ack(delivery.ack, deadline));
        let call = RowCall::Submit { request, catalogue: catalogue.version(), ack };
        let response = self.ask(call, Effect::Changes, deadline, "the batch").await?;
        let replies = match answer(response, "the batch")? {
            Answer::Many(replies) => replies,
            Answer::ConditionFailed => {
                let message = "a condition no longer holds; nothing was done";
                return Err(Failure::new(ErrorCode::VersionMismatch, message));
            }
            other => return Err(unexpected(&other)),
        };
        // One refusal undid everything and ended the replies: it is the answer, wherever it stands.
        let mut results = Vec::with_capacity(replies.len());
        for (number, (item, reply)) in batch.items.iter().zip(replies).enumerate() {
            results.push(item_result(item, reply).map_err(|failure| Failure { item: Some(number), ..failure })?);
        }
        if results.len() < batch.items.len() {
            return Err(Failure::new(ErrorCode::Internal, "the engine left commands of the batch unanswered"));
        }
        Ok(results)
    }

    /// The engine ends a page where a shard ends; here pages are filled up, so that an empty one means the end.
    pub async fn scan(&self, scan: Scan, deadline: Instant) -> Result<Page, Failure> {
        let (table, mut call) = scan.check(&self.engine.catalogue())?;
        let what = if scan.fields.is_empty() { Show::Whole } else { Show::Named(&scan.fields) };
        let mut page = Page::default();
        let mut bytes = 0;
        loop {
            let found = match self.ask(RowCall::Scan(call.clone()), Effect::Reads, deadline, &scan.table).await? {
                Response::Page(found) => found,
                other => return Err(unexpected(&other)),
            };
            call.limit = call.limit.saturating_sub(found.rows.len());
            bytes += found.rows.iter().map(|scanned| scanned.fields.packed.len()).sum::<usize>();
            page.records.extend(found.rows.iter().map(|scanned| scanned_record(&table, scanned, what)));
            if found.next.is_none() || call.limit == 0 || bytes >= limits::SCAN_BYTES_MAX {
                page.next = found.next;
                return Ok(page);
            }
            call.cursor = found.next;
        }
    }

    pub async fn kick(&self, row: &RowAddress, nowait: bool, deadline: Instant) -> Result<(), Failure> {
        let (table, row) = row.check(&self.engine.catalogue())?;
        let what = show(&table, &row);
        // A kick changes no record, so a late one leaves nothing in doubt.
        settled(self.ask(RowCall::Kick { row, nowait }, Effect::Reads, deadline, &what).await?, &what)
    }

    /// Waits until SQL has the record as it is now, or, with a version, that one or a newer one.
    pub async fn flush_row(
        &self,
        row: &RowAddress,
        version: Option<Version>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let (table, row) = row.check(&self.engine.catalogue())?;
        check_sql(&table)?;
        let what = show(&table, &row);
        let call = match version {
            Some(version) => RowCall::AwaitSql { row, version, within_ms: Some(patience_ms(deadline)) },
            None => RowCall::Flush { row },
        };
        settled(self.ask(call, Effect::Reads, deadline, &what).await?, &what)
    }

    /// Flushes one table, or all.
    pub async fn flush(&self, table: Option<&str>, deadline: Instant) -> Result<(), Failure> {
        let what = table.unwrap_or("all tables");
        let table = match table {
            None => None,
            Some(name) => {
                let table = find_table(&self.engine.catalogue(), name)?;
                check_sql(&table)?;
                Some(table.id)
            }
        };
        settled(self.ask(ShardsCall::Flush { table }, Effect::Reads, deadline, what).await?, what)
    }

    #[must_use]
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.engine.catalogue().tables().cloned().collect()
    }

    pub fn table(&self, name: &str) -> Result<Arc<Table>, Failure> {
        Ok(find_table(&self.engine.catalogue(), name)?)
    }

    pub async fn create_table(&self, spec: TableSpec, deadline: Instant) -> Result<Arc<Table>, Failure> {
        let what = format!("table {}", spec.name);
        table_of(self.ask(TableCall::Create(spec), Effect::Changes, deadline, &what).await?)
    }

    pub async fn add_field(&self, table: String, field: FieldSpec, deadline: Instant) -> Result<Arc<Table>, Failure> {
        find_table(&self.engine.catalogue(), &table)?;
        let what = format!("table {table}");
        table_of(self.ask(TableCall::AddField { table, field }, Effect::Changes, deadline, &what).await?)
    }

    pub async fn drop_table(&self, table: String, deadline: Instant) -> Result<(), Failure> {
        find_table(&self.engine.catalogue(), &table)?;
        let what = format!("table {table}");
        settled(self.ask(TableCall::Drop { table }, Effect::Changes, deadline, &what).await?, &what)
    }

    /// This node.
    pub async fn status(&self, deadline: Instant) -> Result<EngineStatus, Failure> {
        self.status_of(NodeCall::Status, deadline).await
    }

    /// The cluster, with what every node of it says.
    pub async fn cluster(&self, deadline: Instant) -> Result<EngineStatus, Failure> {
        self.status_of(NodeCall::Cluster, deadline).await
    }

    async fn status_of(&self, call: NodeCall, deadline: Instant) -> Result<EngineStatus, Failure> {
        match self.ask(call, Effect::Reads, deadline, "the status").await? {
            Response::Status(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    /// Where requests go, as this node knows it.
    pub async fn routes(&self, deadline: Instant) -> Result<RouteList, Failure> {
        match self.ask(NodeCall::Routes, Effect::Reads, deadline, "the routes").await? {
            Response::Routes(routes) => Ok(*routes),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn writeback(&self, deadline: Instant) -> Result<WritebackReport, Failure> {
        match self.ask(ShardsCall::Writeback, Effect::Reads, deadline, "the write-back").await? {
            Response::Writeback(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// Looks at coordination, as this node has it.
    pub async fn coord(&self, look: CoordLook, deadline: Instant) -> Result<CoordView, Failure> {
        match self.ask(NodeCall::Coord(look), Effect::Reads, deadline, "coordination").await? {
            Response::Coord(view) => Ok(view),
            other => Err(unexpected(&other)),
        }
    }

    /// Rows that SQL does not take, of one table or all, by their names.
    pub async fn dead_letters(&self, table: Option<&str>, deadline: Instant) -> Result<Vec<DeadLetter>, Failure> {
        let catalogue = self.engine.catalogue();
        let table = table.map(|name| find_table(&catalogue, name)).transpose()?.map(|table| table.id);
        match self.ask(ShardsCall::DeadLetters { table }, Effect::Reads, deadline, "the dead letters").await? {
            Response::DeadLetters(lines) => {
                Ok(lines.into_iter().filter_map(|line| DeadLetter::of(&catalogue, line)).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Writes dead letters again, of one table or all.
    pub async fn retry_dead_letters(&self, table: Option<&str>, deadline: Instant) -> Result<(), Failure> {
        let what = table.unwrap_or("all tables");
        let table = table.map(|name| find_table(&self.engine.catalogue(), name)).transpose()?.map(|table| table.id);
        settled(self.ask(ShardsCall::RetryDeadLetters { table }, Effect::Reads, deadline, what).await?, what)
    }

    pub async fn retry_dead_letter(&self, row: &RowAddress, deadline: Instant) -> Result<(), Failure> {
        let (table, row) = row.check(&self.engine.catalogue())?;
        let what = show(&table, &row);
        settled(self.ask(RowCall::RetryDeadLetter { row }, Effect::Reads, deadline, &what).await?, &what)
    }

    /// Gives a dead letter up: what SQL holds takes the row's place.
    pub async fn discard_dead_letter(&self, row: &RowAddress, deadline: Instant) -> Result<(), Failure> {
        let (table, row) = row.check(&self.engine.catalogue())?;
        let what = show(&table, &row);
        settled(self.ask(RowCall::DiscardDeadLetter { row }, Effect::Changes, deadline, &what).await?, &what)
    }

    /// A page of a comparison of memory with SQL.
    pub async fn verify(&self, verify: Verify, deadline: Instant) -> Result<Verified, Failure> {
        let table = find_table(&self.engine.catalogue(), &verify.table)?;
        check_sql(&table)?;
        let limit = if verify.limit == 0 { crate::VERIFY_ROWS_DEFAULT } else { verify.limit };
        let limit = limit.min(limits::SCAN_ROWS_MAX);
        let call = RowCall::Verify(VerifyCall { table: table.id, limit, cursor: verify.cursor });
        match self.ask(call, Effect::Reads, deadline, &verify.table).await? {
            Response::Verified(page) => Ok(Verified::of(&table, *page)),
            other => Err(unexpected(&other)),
        }
    }

    /// Suspends or resumes one shard, or all (records 67).
    pub async fn suspend(&self, shard: Option<ShardId>, switch: Switch, deadline: Instant) -> Result<(), Failure> {
        match self.ask(ShardsCall::Suspend { shard, switch }, Effect::Changes, deadline, "the shards").await? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub async fn explain(&self, row: &RowAddress, deadline: Instant) -> Result<Explanation, Failure> {
        let (table, row) = row.check(&self.engine.catalogue())?;
        self.explain_row(row, &table.name, deadline).await
    }

    pub async fn explain_scan(
        &self,
        table: &str,
        partition: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<ScanPlan, Failure> {
        let table = find_table(&self.engine.catalogue(), table)?;
        let shards = match partition {
            Some(key) => {
                let row = RowKeyBuf { table: table.id, key: key.into(), sort: Box::default() };
                vec![self.explain_row(row, &table.name, deadline).await?.shard]
            }
            None => self.cluster(deadline).await?.shards,
        };
        Ok(ScanPlan { table: table.name.clone(), single: partition.is_some(), shards })
    }

    async fn explain_row(&self, row: RowKeyBuf, what: &str, deadline: Instant) -> Result<Explanation, Failure> {
        match self.ask(RowCall::Explain { row }, Effect::Reads, deadline, what).await? {
            Response::Explanation(explanation) => Ok(*explanation),
            other => Err(unexpected(&other)),
        }
    }

    fn encode(&self, checked: &Checked, origin: Option<Origin>) -> Box<[u8]> {
        let mut request = Vec::new();
        Request { origin, body: Body::One(checked.command()) }.encode(&mut request);
        request.into_boxed_slice()
    }

    pub(crate) async fn ask(
        &self,
        call: impl Into<Call>,
        effect: Effect,
        deadline: Instant,
        what: &str,
    ) -> Result<Response, Failure> {
        if deadline <= Instant::now() {
            return Err(Failure::coded(ErrorCode::Expired, what));
        }
        let call = call.into();
        let is_read = matches!(call, Call::Row(RowCall::Read { .. } | RowCall::ReadStale { .. } | RowCall::Scan(_)));
        let receiver = if is_read { self.send_read(call) } else { self.send(call) };
        receive(receiver, effect, deadline, what).await
    }

    pub(crate) async fn ask_reading(&self, call: RowCall, deadline: Instant, what: &str) -> Result<Response, Failure> {
        self.ask(call, Effect::Reads, deadline, what).await
    }

    pub(crate) fn send(&self, call: impl Into<Call>) -> Receiver {
        self.send_with(call, Room::pass)
    }

    /// The same for a read: what it brings may be refused for want of room.
    pub(crate) fn send_read(&self, call: impl Into<Call>) -> Receiver {
        self.send_with(call, Room::admit)
    }

    fn send_with(&self, call: impl Into<Call>, take_in: fn(&Arc<Room>, Response) -> Arrival) -> Receiver {
        let (sender, receiver) = oneshot::channel();
        let room = Arc::clone(&self.room);
        let call = match (call.into(), self.forwarding) {
            (Call::Row(call), Forwarding::Off) => Call::Direct(call),
            (call, _) => call,
        };
        // Nobody may be waiting any more; the answer is dropped then.
        self.engine.call(call, Box::new(move |response| drop(sender.send(take_in(&room, response)))));
        receiver
    }
}

pub(crate) async fn receive_reading(receiver: Receiver, deadline: Instant, what: &str) -> Result<Response, Failure> {
    receive(receiver, Effect::Reads, deadline, what).await
}

/// Waits for a response. What was handed on and not answered is in doubt if it could change something (records 34).
pub(crate) async fn receive(
    receiver: Receiver,
    effect: Effect,
    deadline: Instant,
    what: &str,
) -> Result<Response, Failure> {
    let silence = |code: ErrorCode| match effect {
        Effect::Reads => Failure::coded(code, what),
        Effect::Changes => Failure::coded(ErrorCode::InDoubt, what),
    };
    match timeout_at(deadline, receiver).await.map(|waiting| waiting.map(Arrival::take)) {
        Ok(Ok(Response::Refused(refusal))) => Err(Failure::from(refusal)),
        Ok(Ok(Response::Moved(route))) => {
            Err(Failure { moved: Some(route), ..Failure::coded(ErrorCode::NotLeader, what) })
        }
        Ok(Ok(response)) => Ok(response),
        // The lane went away with the call: the node is stopping.
        Ok(Err(_)) => Err(silence(ErrorCode::NoLeader)),
        Err(_) => Err(silence(ErrorCode::Expired)),
    }
}

/// How much sooner than the caller's deadline SQL is given up on: a change that is made must still be told in time.
const ANSWER_MARGIN_MS: u64 = 300;

fn patience_ms(deadline: Instant) -> u64 {
    let left = u64::try_from(deadline.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX);
    left - ANSWER_MARGIN_MS.min(left / 4)
}

/// The change is made either way: at the deadline the answer comes without SQL (records 32).
fn ack(after: AckAfter, deadline: Instant) -> Ack {
    Ack { after, within_ms: patience_ms(deadline) }
}

fn check_ack(after: AckAfter, table: &Table) -> Result<(), Refusal> {
    match after {
        AckAfter::Sql => check_sql(table),
        AckAfter::Table | AckAfter::Raft => Ok(()),
    }
}

pub(crate) fn check_sql(table: &Table) -> Result<(), Refusal> {
    if table.backing == Backing::Sql {
        return Ok(());
    }
    let message = format!("table {} has no SQL behind it to wait for", table.name);
    Err(Refusal::new(ErrorCode::BadRequest, message))
}

//! Where calls from other threads find their lane, and calls that concern several shards are gathered.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use shardine_model::codec::Reader;
use shardine_model::{Catalogue, ErrorCode, Position, Refusal, Request, ShardId, Timestamp};
use shardine_router::{Call, Engine, EngineStatus, FlushScope, Response, ScanCall, ShardMap, WritebackStatus};
use shardine_store::LogStore;

use crate::clock;
use crate::letter::{Done, Inbox, LaneStatus, Letter, ShardCall, ShardDone};
use crate::steward::Errand;

/// Shared by lanes and doors.
pub(crate) struct Exchange {
    pub map: ShardMap,
    pub inboxes: Vec<Inbox>,
    pub catalogue: RwLock<Arc<Catalogue>>,
    pub steward: Mutex<Sender<Errand>>,
    pub sql: Option<shardine_writeback::Handle>,
    pub sql_url: String,
    pub node: u64,
    pub started: std::time::Instant,
    pub log: Arc<dyn LogStore>,
}

impl Exchange {
    /// The lane that a call with a single place belongs to; `None` for one that concerns several shards.
    pub fn lane_of(&self, call: &Call) -> Option<usize> {
        let position = match call {
            Call::Read { row } | Call::Kick { row, .. } | Call::Explain { row } => row.as_ref().position(),
            Call::Flush(FlushScope::Row(row)) => row.as_ref().position(),
            Call::Submit { request } => request_position(request)?,
            Call::Scan(scan) => scan_position(scan),
            Call::Flush(FlushScope::Table(_) | FlushScope::All)
            | Call::Clear { .. }
            | Call::Count { .. }
            | Call::CreateTable(_)
            | Call::AddField { .. }
            | Call::DropTable { .. }
            | Call::Status => return None,
        };
        Some(self.map.find(position).lane)
    }

    pub fn dispatch(self: &Arc<Self>, call: Call, done: Done) {
        if let Some(lane) = self.lane_of(&call) {
            return self.inboxes[lane].send(Letter::Call { call, done });
        }
        match call {
            Call::Count { table } => self
                .ask_all(|| ShardCall::Count(table), Box::new(|sum| done(sum.map_or_else(refused, Response::Count)))),
            Call::Flush(FlushScope::Table(table)) => self.ask_all(|| ShardCall::Flush(Some(table)), done_only(done)),
            Call::Flush(FlushScope::All) => self.ask_all(|| ShardCall::Flush(None), done_only(done)),
            Call::Clear { table } => {
                let entry = shardine_model::Entry::Clear { table }.to_bytes();
                self.ask_all(|| ShardCall::Propose(entry.clone()), done_only(done));
            }
            Call::Status => self.status(done),
            Call::CreateTable(_) | Call::AddField { .. } | Call::DropTable { .. } => {
                let steward = self.steward.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = steward.send(Errand { call, done });
            }
            Call::Submit { .. } => done(refused(ErrorCode::BadRequest)),
            Call::Read { .. }
            | Call::Kick { .. }
            | Call::Explain { .. }
            | Call::Flush(FlushScope::Row(_))
            | Call::Scan(_) => {
                unreachable!("a call with a place has a lane")
            }
        }
    }

    /// Asks every shard and sums what they say; the first error stands for all.
    fn ask_all(&self, what: impl Fn() -> ShardCall, done: ShardDone) {
        let places = self.map.places();
        let gather = Arc::new(Mutex::new(Gather { left: places.len(), sum: Ok(0), done: Some(done) }));
        for place in places {
            let gather = Arc::clone(&gather);
            self.ask(place.shard, place.lane, what(), Box::new(move |result| Gather::add(&gather, result)));
        }
    }

    pub fn ask(&self, shard: ShardId, lane: usize, what: ShardCall, done: ShardDone) {
        self.inboxes[lane].send(Letter::ToShard { shard, what, done });
    }

    pub fn publish(&self, catalogue: Arc<Catalogue>) {
        *self.catalogue.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&catalogue);
        for inbox in &self.inboxes {
            inbox.send(Letter::Catalogue(Arc::clone(&catalogue)));
        }
    }

    /// Gathers what every lane tells; the last one to tell answers.
    fn status(self: &Arc<Self>, done: Done) {
        let gather = Arc::new(Mutex::new((Vec::new(), Some(done))));
        for inbox in &self.inboxes {
            let (gather, exchange) = (Arc::clone(&gather), Arc::clone(self));
            let tell = move |lane: LaneStatus| {
                let mut gathered = gather.lock().unwrap_or_else(PoisonError::into_inner);
                gathered.0.push(lane);
                if gathered.0.len() < exchange.inboxes.len() {
                    return;
                }
                let lanes = std::mem::take(&mut gathered.0);
                if let Some(done) = gathered.1.take() {
                    done(Response::Status(Box::new(exchange.join_status(lanes))));
                }
            };
            inbox.send(Letter::Status { done: Box::new(tell) });
        }
    }

    fn join_status(&self, lanes: Vec<LaneStatus>) -> EngineStatus {
        let mut status = EngineStatus {
            node: shardine_model::NodeId(self.node),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            lanes: self.inboxes.len(),
            log_bytes: self.log.bytes_on_disk(),
            ..EngineStatus::default()
        };
        for lane in lanes {
            status.connections += lane.connections;
            status.shards.extend(lane.shards);
            for (name, value) in lane.counters {
                match status.counters.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += value,
                    None => status.counters.push((name, value)),
                }
            }
        }
        status.shards.sort_by_key(|shard| shard.lo);
        status.writeback = self.sql.as_ref().map(|sql| {
            let look = sql.status();
            status.counters.extend([
                ("sql_rows_written", look.rows_written),
                ("sql_rows_read", look.rows_read),
                ("sql_rows_refused", look.rows_refused),
                ("sql_jobs_failed", look.jobs_failed),
            ]);
            WritebackStatus {
                url: self.sql_url.clone(),
                connected: look.connected,
                dirty: status.shards.iter().map(|shard| shard.dirty).sum(),
                last_error: look.last_error.map(|error| error.to_string()),
            }
        });
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

fn done_only(done: Done) -> ShardDone {
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
        ErrorCode::BackendUnavailable => "the SQL database cannot be reached and the record is not in memory",
        ErrorCode::UnknownTable => "there is no such table",
        ErrorCode::Unsupported => "the table has no SQL behind it",
        ErrorCode::BadRequest => "all rows of one request must share a partition",
        ErrorCode::InDoubt => "the change may or may not have been made",
        _ => "refused",
    }
}

fn request_position(request: &[u8]) -> Option<Position> {
    let request = Request::decode(&mut Reader::new(request)).ok()?;
    let first = request.first_row()?.position();
    request.rows().all(|row| row.position() == first).then_some(first)
}

/// A page begins at its partition, or behind its cursor, or at the beginning.
pub(crate) fn scan_position(scan: &ScanCall) -> Position {
    if let Some(key) = &scan.partition {
        return Position::of_key(key);
    }
    let cursor = scan.cursor.as_deref().and_then(|cursor| cursor.first_chunk::<8>());
    cursor.map_or(Position(0), |bytes| Position(u64::from_be_bytes(*bytes)))
}

/// The exchange as doors on other threads hold it.
pub(crate) struct Desk(pub Arc<Exchange>);

impl Engine for Desk {
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.0.catalogue.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> Timestamp {
        clock::wall()
    }

    fn call(&self, call: Call, done: Box<dyn FnOnce(Response) + Send>) {
        self.0.dispatch(call, done);
    }
}

//! What a lane owns besides its connections: its shards, the way to the log, and who waits for what.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_host::{Host, SeatId, Splitting};
use shardine_model::key::Interval;
use shardine_model::{
    Ack, Answer, Backing, Catalogue, ErrorCode, NodeId, Position, Refusal, ReplicaId, Request, RequestEpoch, RowKey,
    ShardId, TableId, Timestamp,
};
use shardine_router::forward::Attempt;
use shardine_router::{
    Call, DeadLetterLine, Draws, LocalEngine, Names, Read, RemoteCall, Response, Route, Routes, RowCall, ShardMap,
    ShardPlace, ShardStatus, TableWriteback, Ticket, scattered,
};
use shardine_shard::{Actions, Caller, Left, Message, ReadNow, Replica, Time};

use super::definitions::Definitions;
use super::forward::{Departure, Way};
use super::looks::Look;
use super::members::Nursery;
use super::numbered::Numbered;
use super::parted::{Kin, Layout};
use super::programs::Programs;
use super::questions::Questions;
use super::sql::SqlJobs;
use super::stale;
use super::stopwatch::{Kind, Stopwatch};
use super::visits::Foreign;
use crate::atlas::Sheet;
use crate::clock::Clock;
use crate::exchange::Exchange;
use crate::failover::{self, Owner};
use crate::journal::{Journal, Written};
use crate::lane_message::{LaneMessage, LaneStatus, Respond, ShardDone};
use crate::log_thread::{LogThread, Synced};
use crate::snapshot_thread::{SnapshotNews, SnapshotThread};

/// This bit in its source tells a caller from outside the lane from a connection. The others are its place among those that
/// wait, and its sequence is its number.
const OUTSIDE: u64 = 1 << 63;

/// Who gets an answer that leaves the lane.
pub(crate) enum Outside {
    Call(Respond),
    Shard(ShardDone),
    /// Another node.
    Foreign(Foreign),
    /// A request of this node's own that was held.
    Attempt(Attempt),
    /// A program of this lane.
    Program(u64),
}

/// Those outside who wait. An answer that comes twice, or after its caller was answered, finds nobody.
#[derive(Default)]
pub(super) struct Waiting {
    callers: Numbered<Outside>,
    numbers: u64,
}

impl Waiting {
    pub fn enter(&mut self, outside: Outside) -> Caller {
        self.numbers += 1;
        let place = self.callers.insert(self.numbers, outside);
        Caller { source: OUTSIDE | place as u64, sequence: self.numbers }
    }

    pub fn leave(&mut self, caller: Caller) -> Option<Outside> {
        self.callers.remove((caller.source & !OUTSIDE) as usize, caller.sequence)
    }
}

/// The connection that a caller is, unless it is outside.
#[inline]
pub(super) fn ticket_of(caller: Caller) -> Option<Ticket> {
    (caller.source & OUTSIDE == 0).then_some(Ticket { connection: caller.source, sequence: caller.sequence })
}

#[inline]
fn caller_of(ticket: Ticket) -> Caller {
    Caller { source: ticket.connection, sequence: ticket.sequence }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub calls: u64,
    pub entries: u64,
    pub log_writes: u64,
    pub loads: u64,
    pub flushes: u64,
    pub snapshots: u64,
    pub snapshots_failed: u64,
    /// Reads that found a live record in memory.
    pub hits: u64,
    /// Reads that memory knows to have no record.
    pub absents: u64,
    /// Reads that memory could not answer at once.
    pub misses: u64,
    /// Reads that might be old, answered by a replica of this lane.
    pub stale_reads: u64,
}

pub(crate) struct Core {
    pub(super) number: usize,
    pub(super) host: Host<Replica>,
    /// The shards of the node.
    pub(super) places: Arc<ShardMap>,
    /// The seat of each position that is this lane's.
    pub(super) layout: Layout,
    pub(super) kin: Vec<Kin>,
    pub(super) splitting: Splitting,
    pub(super) nursery: Nursery,
    /// Absent on a node that is alone.
    pub(super) sheet: Option<Arc<Sheet>>,
    pub(super) ticks: u64,
    pub(super) exchange: Arc<Exchange>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) outside: Waiting,
    /// Who waits for a shard to be known to lead, and for what.
    pub(super) looks: BTreeMap<Caller, (SeatId, Look)>,
    pub(super) sql: SqlJobs,
    pub(super) counters: Counters,
    pub(super) stopwatch: Stopwatch,
    journal: Journal,
    snapshots: Option<SnapshotThread>,
    answers: Vec<(Ticket, Response)>,
    /// Room for the next answers.
    spare_answers: Vec<(Caller, Answer)>,
    /// Bytes of records that were copied in this turn for callers of other threads.
    pub copied_bytes: usize,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// What was last told of each seat: term and leader.
    pub(super) told: BTreeMap<SeatId, (u64, ReplicaId)>,
    /// Absent on a node that is alone.
    pub(super) way: Option<Way>,
    pub(super) departures: Vec<Departure>,
    pub(super) questions: Questions,
    pub(super) draws: Draws,
    pub(super) definitions: Definitions,
    pub names: Names,
    pub(super) programs: Programs,
}

/// What a lane is made from.
pub(crate) struct CoreParts {
    pub number: usize,
    pub host: Host<Replica>,
    pub nursery: Nursery,
    pub exchange: Arc<Exchange>,
    pub log: LogThread,
    pub snapshots: SnapshotThread,
    pub clock: Clock,
}

impl Core {
    pub fn new(parts: CoreParts) -> Self {
        let CoreParts { number, host, nursery, exchange, log, snapshots, clock } = parts;
        let places = exchange.places.now();
        let sheet = exchange.cluster.as_ref().map(|cluster| cluster.atlas.sheet());
        let way = sheet.as_ref().map(|sheet| {
            let mut routes = Routes::new(NodeId(exchange.node), Arc::clone(&sheet.cluster));
            host.seats().for_each(|seat| routes.seat(seat.shard, Some(number)));
            Way::new(routes)
        });
        let draws = stale::draws(exchange.node, number);
        let mut core = Self {
            number,
            host,
            places,
            layout: Layout::default(),
            kin: Vec::new(),
            splitting: Splitting::default(),
            nursery,
            sheet,
            ticks: 0,
            exchange,
            catalogue: Arc::default(),
            outside: Waiting::default(),
            looks: BTreeMap::new(),
            sql: SqlJobs::new(number, clock),
            counters: Counters::default(),
            stopwatch: Stopwatch::default(),
            journal: Journal::new(&log),
            snapshots: Some(snapshots),
            answers: Vec::new(),
            spare_answers: Vec::new(),
            copied_bytes: 0,
            threads: vec![log.thread],
            told: BTreeMap::new(),
            way,
            departures: Vec::new(),
            questions: Questions::default(),
            draws,
            definitions: Definitions::default(),
            names: Names::NotYet,
            programs: Programs::default(),
        };
        core.lay_out();
        core
    }

    pub fn number(&self) -> usize {
        self.number
    }

    pub fn time(&self) -> Time {
        self.host.time()
    }

    pub fn look_at(&mut self, clock: &Clock) {
        self.host.set_time(clock.now());
        self.host.set_blind(clock.is_blind());
    }

    /// Stands for election in every group of one, and in those that this node should lead if nobody does.
    pub fn campaign(&mut self) {
        match &self.exchange.cluster {
            None => self.host.campaign(),
            Some(_) => self.campaign_where_preferred(),
        }
    }

    /// What the groups have to tell their peers. A group of one has nobody to write to.
    pub fn take_messages(&mut self) -> Vec<(ShardId, Message)> {
        std::mem::take(&mut self.host.messages)
    }

    pub fn tick(&mut self) {
        self.host.tick();
        self.ticks += 1;
        failover::watch(&mut self.host, &self.exchange, Owner::Lane(self.number), self.ticks);
        self.exchange.differences.look(&self.host, self.ticks);
    }

    /// Requests that were asked of this lane so far.
    pub fn requests(&self) -> u64 {
        let Counters { reads, writes, calls, .. } = self.counters;
        reads + writes + calls
    }

    /// The lane has little time to spare: SQL may wait.
    pub fn note_busy(&self) {
        if let Some(sql) = &self.exchange.sql {
            sql.note_busy();
        }
    }

    /// Cuts a snapshot of a shard out of turn, wherever it lives: the log is shared, and the shard that holds it back may be
    /// another lane's.
    pub fn snapshot_now(&mut self, shard: ShardId) {
        if !self.host.snapshot_now(shard) {
            self.exchange.snapshot_now(shard);
        }
    }

    /// The seat of a position on this lane.
    #[inline]
    pub(super) fn seat_of(&self, position: Position) -> Option<SeatId> {
        self.layout.seat_of(position)
    }

    /// The log thread is done with a batch.
    pub fn persisted(&mut self, synced: Synced) {
        self.journal.synced(synced.took);
        self.stopwatch.end_batch(synced.took);
        self.host.finish_batch(synced.receipt);
    }

    pub fn snapshot_news(&mut self, news: SnapshotNews) {
        match news {
            SnapshotNews::Saved(seat, index) => {
                self.counters.snapshots += 1;
                self.host.snapshot_saved(seat, index);
            }
            SnapshotNews::Failed(seat) => {
                self.counters.snapshots_failed += 1;
                self.host.snapshot_failed(seat);
            }
        }
    }

    pub fn is_cutting(&self) -> bool {
        self.host.is_cutting() && self.snapshots.as_ref().is_some_and(SnapshotThread::has_room)
    }

    /// One trip to the disk for all shards of the lane, if the last one is over. Says whether one was begun.
    pub fn write_if_free(&mut self) -> bool {
        let Some(batch) = self.host.begin_batch() else { return false };
        self.counters.log_writes += 1;
        self.stopwatch.begin_batch();
        self.counters.entries += batch.entries();
        if let Written::Synced { receipt, took, too_large } =
            self.journal.write(batch, self.counters.reads, self.way.is_some())
        {
            self.stopwatch.end_batch(took);
            self.host.finish_batch(receipt);
            if let Some(shard) = too_large {
                self.snapshot_now(shard);
            }
        }
        true
    }

    /// Does what the replicas asked for, and a little of a running cut.
    pub fn perform(&mut self) {
        self.copied_bytes = 0;
        if self.is_cutting() {
            self.host.cut_some();
        }
        self.host.end_turn();
        // Whoever is sent away because of it has to find the way.
        self.note_parted();
        while let Some((seat, actions)) = self.host.next_acted() {
            let Actions { answers, returned, passed, loads, writes, purges, .. } = actions;
            let (passed, returned) = (std::mem::take(passed), std::mem::take(returned));
            let (loads, writes, purges) = (std::mem::take(loads), std::mem::take(writes), std::mem::take(purges));
            let mut answers = std::mem::replace(answers, std::mem::take(&mut self.spare_answers));
            // First, because those who are refused in the same turn have come after them.
            if !returned.is_empty() {
                self.give_back(returned);
            }
            for (caller, answer) in answers.drain(..) {
                self.answer(caller, answer);
            }
            self.spare_answers = answers;
            self.note_leader(seat);
            self.passed(passed);
            self.start_sql(seat, loads, writes);
            self.start_purges(seat, purges);
        }
        self.store_parts();
        for seat in std::mem::take(&mut self.host.stopped) {
            let Some(seat) = self.host.seat(seat) else { continue };
            let reason = seat.replica.as_ref().err();
            tracing::error!(shard = %seat.shard, reason, "a shard has stopped; the others go on");
        }
    }

    fn store_parts(&mut self) {
        let Some(snapshots) = &self.snapshots else { return };
        for part in self.host.parts.drain(..) {
            snapshots.send(part);
        }
    }

    /// Gives a caller a response that is no answer of a replica.
    pub(super) fn respond_to(&mut self, caller: Caller, response: Response) {
        if let Some(ticket) = ticket_of(caller) {
            return self.answers.push((ticket, response));
        }
        match self.outside.leave(caller) {
            Some(Outside::Call(done)) => done(response),
            Some(Outside::Shard(done)) => done(match response {
                Response::Count(count) => Ok(count),
                Response::Refused(refusal) => Err(refusal.code),
                Response::Answer(Answer::Failed(code)) => Err(code),
                _ => Ok(0),
            }),
            Some(Outside::Foreign(foreign)) => self.answer_foreign(foreign, response),
            Some(Outside::Attempt(attempt)) => self.attempted(attempt, response),
            Some(Outside::Program(number)) => self.answer_program(number, answer_of(&response)),
            None => {}
        }
    }

    #[inline]
    pub(super) fn answer(&mut self, caller: Caller, answer: Answer) {
        if !self.looks.is_empty() {
            self.looks.remove(&caller);
        }
        if let Some(ticket) = ticket_of(caller) {
            return self.answers.push((ticket, response(answer)));
        }
        match self.outside.leave(caller) {
            Some(Outside::Call(done)) => done(response(answer)),
            Some(Outside::Shard(done)) => done(match answer {
                Answer::Failed(code) => Err(code),
                Answer::One(_) | Answer::Many(_) | Answer::ConditionFailed => Ok(0),
            }),
            Some(Outside::Foreign(foreign)) => self.answer_foreign(foreign, response(answer)),
            Some(Outside::Attempt(attempt)) => self.attempted(attempt, response(answer)),
            Some(Outside::Program(number)) => self.answer_program(number, answer),
            None => {}
        }
    }

    /// Whether something has happened since [`Core::perform`] that it must look at, or answers wait to be delivered.
    pub fn has_work(&self) -> bool {
        !self.answers.is_empty() || self.host.is_touched() || !self.departures.is_empty()
    }

    pub fn take_answers(&mut self) -> Vec<(Ticket, Response)> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn respond(&mut self, ticket: Ticket, response: Response) {
        self.answers.push((ticket, response));
    }

    pub fn status(&self, connections: u64) -> LaneStatus {
        let counters = &self.counters;
        let left = |read: fn(&Left) -> u64| self.host.replicas().map(|replica| read(&replica.left())).sum::<u64>();
        LaneStatus {
            leads: self.leads(),
            shards: self.own_places().map(|place| self.shard_status(place)).collect(),
            connections,
            counters: vec![
                ("reads", counters.reads),
                ("read_hits", counters.hits),
                ("read_misses", counters.misses),
                ("stale_reads", counters.stale_reads),
                ("writes", counters.writes),
                ("calls", counters.calls),
                ("log_entries", counters.entries),
                ("log_writes", counters.log_writes),
                ("sql_loads", counters.loads),
                ("sql_flushes", counters.flushes),
                ("snapshots", counters.snapshots),
                ("snapshots_failed", counters.snapshots_failed),
                ("evictions_memory", left(|left| left.memory)),
                ("evictions_kick", left(|left| left.kicked)),
                ("expirations", left(|left| left.expired)),
            ],
            histograms: self.stopwatch.histograms(),
            errors: self.stopwatch.errors(),
        }
    }

    /// Replicas that speak for their shards: in a cluster those that lead, and on a node that is alone all.
    fn leading(&self) -> impl Iterator<Item = &Replica> {
        let is_alone = self.way.is_none();
        self.host.replicas().filter(move |replica| is_alone || replica.is_serving())
    }

    /// How far SQL is behind with this lane's rows.
    pub fn writeback(&self) -> Vec<TableWriteback> {
        let lines = self.leading().flat_map(Replica::writeback_status).filter_map(|status| {
            Some(TableWriteback {
                table: self.catalogue.get(status.table)?.name.clone(),
                dirty_rows: status.dirty_rows,
                dirty_bytes: status.dirty_bytes,
                oldest_dirty_ms: status.oldest_dirty_ms,
                paused_ms: status.paused_ms,
                conflicts: status.conflicts,
                dead_letters: status.dead_letters,
                ..TableWriteback::default()
            })
        });
        // What SQL took, and what it said last, is known to the lane for all its shards together.
        let tallies = self.catalogue.tables().filter(|table| table.backing == Backing::Sql).map(|table| {
            let tally = self.sql.tallies.of(table.id);
            TableWriteback {
                table: table.name.clone(),
                written_per_second: tally.per_second(self.time().monotonic_ms),
                written_rows: tally.written,
                last_error: tally.last_error(self.time().monotonic_ms),
                ahead: self.exchange.ahead(table.id),
                ..TableWriteback::default()
            }
        });
        lines.chain(tallies).collect()
    }

    /// Rows that SQL does not take.
    pub fn dead_letters(&self, table: Option<TableId>) -> Vec<DeadLetterLine> {
        let letters = self.leading().flat_map(|replica| replica.records().dead_letters());
        let meant = letters.filter(|(row, _)| table.is_none_or(|table| row.table == table));
        let line = |(row, letter): (RowKey<'_>, &shardine_records::DeadLetter)| DeadLetterLine {
            row: row.to_owned(),
            version: letter.version,
            error: letter.error.clone(),
            tries: letter.tries,
            first_at: letter.first_at,
            last_at: letter.last_at,
        };
        meant.map(line).collect()
    }

    /// What the shard of a seat owns. One that has stopped is asked for nothing.
    pub(super) fn interval(&self, seat: SeatId) -> Interval {
        self.host.replica(seat).map_or(Interval::ALL, Replica::interval)
    }

    /// The places of the map that are on this lane.
    pub(super) fn own_places(&self) -> impl Iterator<Item = &ShardPlace> {
        self.places.places().iter().filter(|place| place.lane == self.number)
    }

    pub(super) fn shard_status(&self, place: &ShardPlace) -> ShardStatus {
        let ShardPlace { shard, interval, lane, .. } = *place;
        let mut status = ShardStatus { shard, lo: interval.lo, hi: interval.hi, lane, ..Default::default() };
        match self.host.seat_of(shard).and_then(|seat| self.host.seat(seat)).map(|seat| &seat.replica) {
            // Of one that lives elsewhere it is known who leads it.
            None => status.leader = self.leader_elsewhere(shard),
            Some(Err(reason)) => status.stopped = Some(reason.clone()),
            Some(Ok(replica)) => {
                let look = replica.status();
                status.leader = look.leader.and_then(|leader| self.node_of(shard, leader));
                status.term = look.term;
                status.applied = look.applied;
                status.committed = look.committed;
                status.snapshot = look.snapshot;
                status.records = look.records;
                status.bytes = look.bytes;
                status.dirty = look.dirty;
                status.bytes_max = self.nursery.memory_max;
                status.suspended = look.is_suspended;
                status.unsplit = self.splitting.why_not(shard).map(str::to_owned);
            }
        }
        status
    }

    fn leader_elsewhere(&self, shard: ShardId) -> Option<NodeId> {
        match self.way.as_ref()?.routes.route_of(shard) {
            Route::There(node) => Some(node),
            Route::Here { .. } | Route::Unknown => None,
        }
    }

    /// Lets the lane's threads end and waits for them: the last log write is on disk afterwards.
    pub fn close(&mut self) {
        if let Some(snapshots) = self.snapshots.take() {
            self.threads.push(snapshots.close());
        }
        self.journal.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    pub fn catalogues(&self) -> Vec<(ShardId, usize, Catalogue)> {
        self.host
            .replicas()
            .map(|replica| (replica.shard(), self.number, replica.records().catalogue().clone()))
            .collect()
    }

    pub fn is_serving(&self) -> bool {
        self.host.replicas().all(Replica::is_serving)
    }
}

/// A kick or a flush has no reply of its own: it is done.
fn response(answer: Answer) -> Response {
    match answer {
        Answer::Many(replies) if replies.is_empty() => Response::Done,
        answer => Response::Answer(answer),
    }
}

/// What a program is told that is answered by nobody of the shard.
fn answer_of(response: &Response) -> Answer {
    Answer::Failed(response.code().unwrap_or(ErrorCode::Internal))
}

impl LocalEngine for Core {
    fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    #[inline]
    fn names(&self) -> Names {
        self.names
    }

    fn now(&self) -> Timestamp {
        self.time().wall
    }

    fn micros(&self) -> u64 {
        self.stopwatch.turn_us()
    }

    fn now_at(&mut self, position: Position) -> Timestamp {
        let (own, seat) = (self.time().wall, self.seat_of(position));
        seat.and_then(|seat| self.host.look(seat)).map_or(own, Replica::stamp)
    }

    #[inline]
    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        self.counters.reads += 1;
        let position = row.position();
        if self.programs.hold_at(position) {
            return Read::Later;
        }
        let Some(seat) = self.seat_of(position) else { return Read::Later };
        // What is not answered here and now comes again, and is counted then.
        if self.way.is_some() && self.host.replica(seat).is_some_and(Replica::may_answer_at_once) {
            self.host.count(seat, position);
        }
        let Some(replica) = self.host.look(seat) else { return Read::Later };
        match replica.read_now(position, row) {
            ReadNow::Live(view) => {
                self.counters.hits += 1;
                Read::Live(view)
            }
            ReadNow::Absent { version, sql_version } => {
                self.counters.absents += 1;
                Read::Absent { version, sql_version }
            }
            ReadNow::Later => {
                self.counters.misses += 1;
                Read::Later
            }
        }
    }

    #[inline]
    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        self.counters.writes += 1;
        self.stopwatch.begin(ticket, Kind::Write);
        let mut rows = request.rows();
        let Some(first) = rows.next() else { return self.respond(ticket, Response::Answer(Answer::Many(Vec::new()))) };
        let position = first.position();
        if rows.any(|row| row.position() != position) {
            return self.respond(ticket, Response::Refused(scattered()));
        }
        let caller = caller_of(ticket);
        let catalogue = self.catalogue.version();
        if let Some(seat) = self.seat_of(position)
            && !self.programs.hold_at(position)
            && self.is_for_here(caller.source, position)
        {
            self.programs.note_change_at(position);
            let act = |replica: &mut Replica, actions: &mut Actions| {
                let epoch = RequestEpoch { catalogue, ..replica.records().epoch() };
                replica.submit_at(position, caller, request, epoch, actions);
            };
            self.host.count(seat, position);
            if self.host.act(seat, act).is_none() {
                self.respond(ticket, self.stopped(position));
            }
            return;
        }
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let (request, ack) = (bytes.into(), Ack::default());
        self.call_row(RowCall::Submit { request, catalogue, ack }, position, ticket);
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        self.counters.calls += 1;
        self.stopwatch.begin(ticket, Kind::Other);
        let call = match call {
            Call::Row(call) => call,
            Call::Direct(_) | Call::Shards(_) | Call::Table(_) | Call::Libraries(_) | Call::Node(_) => {
                return self.exchange.dispatch(call, self.respond_later(ticket));
            }
        };
        match call.position() {
            Err(refusal) => self.respond(ticket, Response::Refused(refusal)),
            Ok(position) => self.call_row(call, position, ticket),
        }
    }
}

impl Core {
    /// What requests to a shard that does not run are answered. Asking again does not help, so it does not say so; the reason
    /// has paths of this machine in it, which are for those who run it.
    pub(super) fn stopped(&self, position: Position) -> Response {
        let shard = self.places.find(position).shard;
        let message = format!("shard {shard} has stopped, the others serve; `shardine shards` says why and what to do");
        Response::Refused(Refusal::new(ErrorCode::NoLeader, message))
    }

    /// A call of a connection: here, on another lane, or on another node.
    fn call_row(&mut self, call: RowCall, position: Position, ticket: Ticket) {
        let caller = caller_of(ticket);
        if self.exchange.places.lane_of(position) != self.number {
            return self.exchange.send_to_lane(Some(caller.source), call, position, self.respond_later(ticket));
        }
        let Some(call) = self.read_anywhere(caller, caller.source, position, call) else { return };
        if !self.may_run_here(&call, position) {
            return self.forward(caller, caller.source, position, &RemoteCall::Row(call));
        }
        if let Some(response) = self.call_here(call, position, caller) {
            self.respond(ticket, response);
        }
    }

    fn respond_later(&self, ticket: Ticket) -> Respond {
        let inbox = self.exchange.inboxes[self.number].clone();
        Box::new(move |response| inbox.send(LaneMessage::Response { ticket, response }))
    }
}

//! What a lane owns besides its connections: its shards, the way to the log, and who waits for what.

use std::sync::Arc;

use shardine_model::{
    Ack, Answer, Backing, Catalogue, ErrorCode, Position, Refusal, Request, RowKey, ShardId, TableId, Timestamp,
};
use shardine_router::{Call, DeadLetterLine, LocalEngine, Read, Response, ShardStatus, TableWriteback, Ticket};
use shardine_shard::{Actions, Caller, Persist, ReadNow, Replica, Time};
use slab::Slab;

use super::sql::SqlJobs;
use crate::clock::Clock;
use crate::exchange::{Exchange, refused};
use crate::journal::{Journal, Written};
use crate::lane_message::{LaneMessage, LaneStatus, Respond, ShardDone};
use crate::log_thread::{LogThread, Synced};
use crate::snapshot_thread::{Part, SnapshotThread};

/// Callers from outside the lane have this source; their sequence is a place in `Core::outside`.
pub(crate) const OUTSIDE: u64 = u64::MAX;

/// Snapshot bytes cut in one turn: about a millisecond's work.
const CUT_BYTES: usize = 256 << 10;

/// A shard's place on the lane. One that could not be read or has stopped says why.
pub(crate) struct Seat {
    pub shard: ShardId,
    pub lo: Position,
    pub hi: Option<Position>,
    /// Bytes of records above which it evicts; 0 means no limit.
    pub memory_max: u64,
    pub replica: Result<Replica, String>,
}

/// Who gets an answer that leaves the lane.
pub(crate) enum Outside {
    Call(Respond),
    Shard(ShardDone),
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
}

pub(crate) struct Core {
    pub(super) number: usize,
    pub(super) seats: Vec<Seat>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) actions: Actions,
    pub(super) outside: Slab<Outside>,
    pub(super) sql: SqlJobs,
    pub(super) counters: Counters,
    time: Time,
    journal: Journal,
    /// Log writes that wait for the one on its way.
    queued: Vec<(usize, Persist)>,
    snapshots: Option<SnapshotThread>,
    answers: Vec<(Ticket, Response)>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Core {
    pub fn new(
        number: usize,
        seats: Vec<Seat>,
        exchange: Arc<Exchange>,
        log: LogThread,
        snapshots: SnapshotThread,
        clock: Clock,
    ) -> Self {
        let catalogue = Arc::default();
        Self {
            number,
            seats,
            exchange,
            catalogue,
            actions: Actions::default(),
            outside: Slab::new(),
            sql: SqlJobs::new(number, clock),
            counters: Counters::default(),
            time: Time::default(),
            journal: Journal::new(&log),
            queued: Vec::new(),
            snapshots: Some(snapshots),
            answers: Vec::new(),
            threads: vec![log.thread],
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    pub fn time(&self) -> Time {
        self.time
    }

    pub fn set_time(&mut self, time: Time) {
        self.time = time;
        for seat in &mut self.seats {
            if let Ok(replica) = &mut seat.replica {
                replica.set_time(time);
            }
        }
    }

    pub fn set_catalogue(&mut self, catalogue: Arc<Catalogue>) {
        self.catalogue = catalogue;
    }

    /// Stands for election in every group of one.
    pub fn campaign(&mut self) {
        self.each_replica(|replica, actions| replica.campaign(actions));
    }

    pub fn tick(&mut self) {
        let time = self.time;
        self.each_replica(|replica, actions| replica.tick(time, actions));
    }

    /// Cuts a snapshot of a shard out of turn.
    pub fn snapshot_now(&mut self, shard: ShardId) {
        if let Some(seat) = self.seats.iter().position(|seat| seat.shard == shard) {
            self.with_replica(seat, |replica, _| replica.snapshot_now());
        }
    }

    fn each_replica(&mut self, mut act: impl FnMut(&mut Replica, &mut Actions)) {
        for number in 0..self.seats.len() {
            self.with_replica(number, &mut act);
        }
    }

    /// Lets a replica act and takes what it asks for. `None` if the shard has stopped.
    pub(super) fn with_replica<T>(
        &mut self,
        seat: usize,
        act: impl FnOnce(&mut Replica, &mut Actions) -> T,
    ) -> Option<T> {
        let Ok(replica) = &mut self.seats[seat].replica else { return None };
        let given = act(replica, &mut self.actions);
        self.collect(seat);
        Some(given)
    }

    /// Takes the actions that belong to a seat; answers stay where they are, they know their callers.
    fn collect(&mut self, seat: usize) {
        let actions = &mut self.actions;
        if !actions.persists.is_empty() {
            self.queued.extend(actions.persists.drain(..).map(|persist| (seat, persist)));
        }
        if !actions.snapshot.is_empty() {
            let shard = self.seats[seat].shard;
            if let Some(snapshots) = &self.snapshots {
                actions.snapshot.drain(..).for_each(|part| snapshots.send(Part { seat, shard, part }));
            }
        }
        // A group of one has nobody to write to.
        actions.messages.clear();
        if !actions.loads.is_empty() || !actions.writes.is_empty() {
            let (loads, writes) = (std::mem::take(&mut actions.loads), std::mem::take(&mut actions.writes));
            self.start_sql(seat, loads, writes);
        }
        if !self.actions.purges.is_empty() {
            let purges = std::mem::take(&mut self.actions.purges);
            self.start_purges(seat, purges);
        }
        if let Some(reason) = self.actions.stop.take() {
            tracing::error!(%reason, "a shard has stopped; the others go on");
            self.seats[seat].replica = Err(reason);
        }
    }

    /// The seat of a position on this lane.
    #[inline]
    pub(super) fn seat_of(&self, position: Position) -> Option<usize> {
        let place = self.exchange.map.find(position);
        if place.lane != self.number {
            return None;
        }
        self.seats.binary_search_by_key(&place.shard, |seat| seat.shard).ok()
    }

    /// The log thread is done with a write.
    pub fn persisted(&mut self, synced: &Synced) {
        self.journal.synced(synced.took);
        self.confirm(&synced.confirmed);
    }

    fn confirm(&mut self, confirmed: &[(usize, u64)]) {
        for &(seat, number) in confirmed {
            self.with_replica(seat, |replica, actions| replica.persisted(number, actions));
        }
    }

    pub fn snapshot_saved(&mut self, seat: usize, index: u64) {
        self.counters.snapshots += 1;
        self.with_replica(seat, |replica, _| replica.snapshot_saved(index));
    }

    pub fn is_cutting(&self) -> bool {
        let room = self.snapshots.as_ref().is_some_and(SnapshotThread::has_room);
        room && self.seats.iter().any(|seat| seat.replica.as_ref().is_ok_and(Replica::is_cutting))
    }

    /// One log write for all shards of the lane, if the last one is done. Says whether anything was started.
    pub fn propose_if_free(&mut self) -> bool {
        if self.journal.is_busy() {
            return false;
        }
        for seat in 0..self.seats.len() {
            let wants = self.seats[seat].replica.as_ref().is_ok_and(Replica::wants_flush);
            if wants {
                self.counters.entries += 1;
                self.with_replica(seat, |replica, actions| replica.propose_gathered(actions));
            }
        }
        if self.queued.is_empty() {
            return false;
        }
        self.counters.log_writes += 1;
        let queued = std::mem::take(&mut self.queued);
        if let Written::Synced { confirmed, too_large } = self.journal.write(queued, self.counters.reads) {
            self.confirm(&confirmed);
            if let Some(shard) = too_large {
                self.snapshot_now(shard);
            }
        }
        true
    }

    /// Asks SQL for what was missed in this turn, for all connections together (records 39).
    pub fn ask_sql(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].replica.as_ref().is_ok_and(Replica::wants_sql) {
                self.with_replica(seat, |replica, actions| replica.ask_sql(actions));
            }
        }
    }

    /// Does what the replicas asked for, and a little of a running cut.
    pub fn perform(&mut self) {
        if self.is_cutting() {
            for seat in 0..self.seats.len() {
                if self.seats[seat].replica.as_ref().is_ok_and(Replica::is_cutting) {
                    self.with_replica(seat, |replica, actions| replica.snapshot_step(CUT_BYTES, actions));
                    break;
                }
            }
        }
        let mut answers = std::mem::take(&mut self.actions.answers);
        for (caller, answer) in answers.drain(..) {
            self.answer(caller, answer);
        }
        if self.actions.answers.is_empty() {
            self.actions.answers = answers;
        }
    }

    /// Gives a caller a response that is no answer of a replica.
    pub(super) fn respond_to(&mut self, caller: Caller, response: Response) {
        if caller.source != OUTSIDE {
            let ticket = Ticket { connection: caller.source as u32, sequence: caller.sequence };
            return self.answers.push((ticket, response));
        }
        if let Some(Outside::Call(done)) = self.outside.try_remove(caller.sequence as usize) {
            done(response);
        }
    }

    #[inline]
    fn answer(&mut self, caller: Caller, answer: Answer) {
        if caller.source != OUTSIDE {
            let ticket = Ticket { connection: caller.source as u32, sequence: caller.sequence };
            self.answers.push((ticket, response(answer)));
            return;
        }
        match self.outside.try_remove(caller.sequence as usize) {
            Some(Outside::Call(done)) => done(response(answer)),
            Some(Outside::Shard(done)) => done(match answer {
                Answer::Failed(code) => Err(code),
                Answer::One(_) | Answer::Many(_) | Answer::ConditionFailed => Ok(0),
            }),
            None => {}
        }
    }

    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty() || !self.actions.answers.is_empty()
    }

    pub fn take_answers(&mut self) -> Vec<(Ticket, Response)> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn respond(&mut self, ticket: Ticket, response: Response) {
        self.answers.push((ticket, response));
    }

    pub fn status(&self, connections: u64) -> LaneStatus {
        let counters = &self.counters;
        LaneStatus {
            shards: self.seats.iter().map(|seat| self.seat_status(seat)).collect(),
            connections,
            counters: vec![
                ("reads", counters.reads),
                ("writes", counters.writes),
                ("calls", counters.calls),
                ("log_entries", counters.entries),
                ("log_writes", counters.log_writes),
                ("sql_loads", counters.loads),
                ("sql_flushes", counters.flushes),
                ("snapshots", counters.snapshots),
            ],
        }
    }

    /// How far SQL is behind with this lane's rows.
    pub fn writeback(&self) -> Vec<TableWriteback> {
        let replicas = self.seats.iter().filter_map(|seat| seat.replica.as_ref().ok());
        let lines = replicas.flat_map(Replica::writeback_status).filter_map(|status| {
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
                written_per_second: tally.per_second(self.time.monotonic_ms),
                written_rows: tally.written,
                last_error: tally.last_error,
                ..TableWriteback::default()
            }
        });
        lines.chain(tallies).collect()
    }

    /// Rows that SQL does not take.
    pub fn dead_letters(&self, table: Option<TableId>) -> Vec<DeadLetterLine> {
        let replicas = self.seats.iter().filter_map(|seat| seat.replica.as_ref().ok());
        let letters = replicas.flat_map(|replica| replica.records().dead_letters());
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

    pub(super) fn seat_status(&self, seat: &Seat) -> ShardStatus {
        let mut status =
            ShardStatus { shard: seat.shard, lo: seat.lo, hi: seat.hi, lane: self.number, ..Default::default() };
        match &seat.replica {
            Err(reason) => status.stopped = Some(reason.clone()),
            Ok(replica) => {
                let look = replica.status();
                status.leader = look.leader.map(|leader| shardine_model::NodeId(leader.0));
                status.term = look.term;
                status.applied = look.applied;
                status.committed = look.committed;
                status.snapshot = look.snapshot;
                status.records = look.records;
                status.bytes = look.bytes;
                status.dirty = look.dirty;
                status.bytes_max = seat.memory_max;
                status.suspended = look.is_suspended;
            }
        }
        status
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
        let serving = self.seats.iter().filter_map(|seat| Some((seat.shard, seat.replica.as_ref().ok()?)));
        serving.map(|(shard, replica)| (shard, self.number, replica.records().catalogue().clone())).collect()
    }

    pub fn is_serving(&self) -> bool {
        self.seats.iter().all(|seat| seat.replica.as_ref().map_or(true, Replica::is_serving))
    }
}

/// What requests to a shard that does not run are answered. Asking again does not help, so it does not say so; the reason
/// has paths of this machine in it, which are for those who run it.
pub(super) fn stopped(shard: ShardId) -> Response {
    let message = format!("shard {shard} has stopped, the others serve; `shardine shards` says why and what to do");
    Response::Refused(Refusal::new(ErrorCode::NoLeader, message))
}

/// A kick or a flush has no reply of its own: it is done.
fn response(answer: Answer) -> Response {
    match answer {
        Answer::Many(replies) if replies.is_empty() => Response::Done,
        answer => Response::Answer(answer),
    }
}

impl LocalEngine for Core {
    fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    fn now(&self) -> Timestamp {
        self.time.wall
    }

    #[inline]
    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        self.counters.reads += 1;
        let position = row.position();
        let Some(seat) = self.seat_of(position) else { return Read::Later };
        let Ok(replica) = &self.seats[seat].replica else { return Read::Later };
        match replica.read_now(position, row) {
            ReadNow::Live(view) => Read::Live(view),
            ReadNow::Absent { version, sql_version } => Read::Absent { version, sql_version },
            ReadNow::Later => Read::Later,
        }
    }

    #[inline]
    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        self.counters.writes += 1;
        let mut rows = request.rows();
        let Some(first) = rows.next() else { return self.respond(ticket, Response::Answer(Answer::Many(Vec::new()))) };
        let position = first.position();
        if rows.any(|row| row.position() != position) {
            return self.respond(ticket, refused(ErrorCode::BadRequest));
        }
        let caller = Caller { source: super::source_of(ticket), sequence: ticket.sequence };
        match self.seat_of(position) {
            Some(seat) => match &mut self.seats[seat].replica {
                // What this leads to is collected when the turn is settled: nothing but the entry grows here.
                Ok(replica) => replica.submit(caller, request, &mut self.actions),
                Err(_) => self.respond(ticket, stopped(self.seats[seat].shard)),
            },
            None => {
                let mut bytes = Vec::new();
                request.encode(&mut bytes);
                self.call_elsewhere(Call::Submit { request: bytes.into(), ack: Ack::default() }, ticket);
            }
        }
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        self.counters.calls += 1;
        if self.exchange.lane_of(&call) != Some(self.number) {
            return self.call_elsewhere(call, ticket);
        }
        let caller = Caller { source: super::source_of(ticket), sequence: ticket.sequence };
        if let Some(response) = self.call_here(call, caller) {
            self.respond(ticket, response);
        }
    }
}

impl Core {
    fn call_elsewhere(&mut self, call: Call, ticket: Ticket) {
        let inbox = self.exchange.inboxes[self.number].clone();
        let done: Respond = Box::new(move |response| inbox.send(LaneMessage::Response { ticket, response }));
        self.exchange.dispatch(call, done);
    }
}

//! Calls that concern one place of this lane, from its own connections or from outside.

use shardine_host::SeatId;
use shardine_model::codec::Reader;
use shardine_model::{Answer, ErrorCode, Position, Refusal, Request, RequestEpoch, RowKey, RowKeyBuf, ShardId};
use shardine_records::{Lookup, read_reply};
use shardine_router::{Explanation, RemoteCall, Residence, Response, RowCall, ShardAsk};
use shardine_shard::{Caller, ReadStale};

use super::core::{Core, Outside};
use super::forward::alone;
use super::looks::Look;
use crate::exchange::refused;
use crate::lane_message::{Respond, ShardDone};

impl Core {
    pub fn call_from_outside(&mut self, source: Option<u64>, call: RowCall, position: Position, done: Respond) {
        self.counters.calls += 1;
        let caller = self.outside.enter(Outside::Call(done));
        // One that comes alone keeps to itself.
        let source = source.unwrap_or_else(|| alone(caller));
        let Some(call) = self.read_anywhere(caller, source, position, call) else { return };
        if !self.may_run_here(&call, position) {
            return self.forward(caller, source, position, &RemoteCall::Row(call));
        }
        if let Some(response) = self.call_here(call, position, caller) {
            self.respond_to(caller, response);
        }
    }

    /// A call of a client that goes to leaders by itself.
    pub fn call_directly(&mut self, call: RowCall, position: Position, done: Respond) {
        let elsewhere = match call {
            RowCall::ReadStale { .. } => None,
            _ => self.way.as_ref().and_then(|way| way.routes.elsewhere(position)),
        };
        match elsewhere {
            Some(route) => done(Response::Moved(Box::new(route))),
            None => self.call_from_outside(None, call, position, done),
        }
    }

    /// Does a call at its position. `None` means that the answer comes later, to the caller.
    pub(super) fn call_here(&mut self, call: RowCall, position: Position, caller: Caller) -> Option<Response> {
        let Some(seat) = self.seat_of(position) else { return Some(refused(ErrorCode::StaleRoute)) };
        if self.host.replica(seat).is_none() && !matches!(call, RowCall::Explain { .. }) {
            return Some(self.stopped(position));
        }
        self.host.count(seat, position);
        if self.programs.hold_at(position) && matches!(call, RowCall::Read { .. } | RowCall::Submit { .. }) {
            self.programs.hold(position, caller, call);
            return None;
        }
        match call {
            RowCall::Read { row } => {
                let copied = self.host.act(seat, |replica, actions| {
                    let before = actions.answers.len();
                    replica.read(caller, row.as_ref(), actions);
                    actions.answers[before..].iter().map(|(_, answer)| answer.row_bytes()).sum::<usize>()
                });
                self.copied_bytes += copied.unwrap_or(0);
            }
            RowCall::ReadStale { row, max_age_ms } => return self.read_stale(seat, row.as_ref(), max_age_ms, caller),
            RowCall::Submit { request, catalogue, ack } => {
                let Ok(request) = Request::decode(&mut Reader::new(&request)) else {
                    return Some(refused(ErrorCode::BadRequest));
                };
                self.programs.note_change_at(position);
                self.host.act(seat, |replica, actions| {
                    let epoch = RequestEpoch { catalogue, ..replica.records().epoch() };
                    replica.submit_with(caller, &request, epoch, ack, actions);
                });
            }
            RowCall::Kick { row, .. } if self.has_time_to_live(seat, &row) => {
                let message = "the record has a time to live, which SQL does not keep: it stays in memory";
                return Some(Response::Refused(Refusal::new(ErrorCode::Unsupported, message)));
            }
            RowCall::Kick { row, nowait } => {
                self.host.act(seat, |replica, actions| replica.kick(caller, row.as_ref(), nowait, actions));
            }
            RowCall::Flush { row } => {
                let row = row.as_ref();
                self.host.act(seat, |replica, actions| replica.flush_rows(caller, Some(row), None, actions));
            }
            RowCall::AwaitSql { row, version, within_ms } => {
                let row = row.as_ref();
                self.host.act(seat, |replica, actions| {
                    replica.await_sql(caller, row, version, within_ms, actions);
                });
            }
            RowCall::RetryDeadLetter { row } => {
                let row = row.as_ref();
                self.host.act(seat, |replica, actions| {
                    replica.retry_dead_letters(caller, Some(row), None, actions);
                });
            }
            RowCall::DiscardDeadLetter { row } => {
                self.host.act(seat, |replica, actions| replica.discard_dead_letter(caller, row.as_ref(), actions));
            }
            RowCall::Scan(scan) => return self.look(seat, Look::Scan(scan), caller),
            RowCall::Verify(verify) => return self.look(seat, Look::Verify(verify), caller),
            RowCall::Explain { row } => return Some(self.explain(seat, &row)),
            RowCall::Run(program) => return self.run_program(seat, *program, caller),
        }
        None
    }

    fn read_stale(&mut self, seat: SeatId, row: RowKey<'_>, max_age_ms: u64, caller: Caller) -> Option<Response> {
        let response = self
            .host
            .act(seat, |replica, actions| match replica.read_stale(row, max_age_ms) {
                ReadStale::Found { row, applied } => Some(Response::Stale { reply: read_reply(row), applied }),
                ReadStale::Refused(code) => Some(Response::Answer(Answer::Failed(code))),
                ReadStale::Later => {
                    replica.read(caller, row, actions);
                    None
                }
            })
            .flatten();
        self.counters.stale_reads += u64::from(matches!(response, Some(Response::Stale { .. })));
        response
    }

    /// Whether a call is done here at once: on a node that is alone, or where it is about this node. In a cluster everything else is
    /// kept until it is answered ([`Core::forward`]), for the lead may be lost meanwhile.
    pub(super) fn may_run_here(&self, call: &RowCall, position: Position) -> bool {
        self.way.is_none() || matches!(call, RowCall::Explain { .. }) && self.seat_of(position).is_some()
    }

    pub fn ask_shard(&mut self, shard: ShardId, what: ShardAsk, done: ShardDone) {
        let leads = self.begin_of(shard).is_some_and(|position| self.leads_at(position));
        if self.way.is_some() && !leads {
            return self.ask_remotely(shard, what, done);
        }
        let caller = self.outside.enter(Outside::Shard(done));
        if let Some(response) = self.ask_here(shard, what, caller) {
            self.respond_to(caller, response);
        }
    }

    /// Asks a shard of this lane. `None` means that the answer comes later, to the caller.
    pub(super) fn ask_here(&mut self, shard: ShardId, what: ShardAsk, caller: Caller) -> Option<Response> {
        let Some(seat) = self.host.seat_of(shard) else { return Some(refused(ErrorCode::StaleRoute)) };
        if self.host.replica(seat).is_none() {
            return Some(refused(ErrorCode::NoLeader));
        }
        match what {
            ShardAsk::Count { table } => self.look(seat, Look::Count(table), caller),
            ShardAsk::Flush { table } => {
                self.host.act(seat, |replica, actions| replica.flush_rows(caller, None, table, actions));
                None
            }
            ShardAsk::RetryDeadLetters { table } => {
                self.host.act(seat, |replica, actions| replica.retry_dead_letters(caller, None, table, actions));
                None
            }
            ShardAsk::AsOf { range, ask } => {
                let now = self.host.replica(seat).map(|replica| replica.records().epoch().range.0);
                match now == Some(range) {
                    true => self.ask_here(shard, *ask, caller),
                    false => Some(refused(ErrorCode::VersionMismatch)),
                }
            }
            ShardAsk::Middle => self.look(seat, Look::Middle, caller),
            ShardAsk::Propose { entry } => match shardine_model::Entry::decode(&entry) {
                Ok(entry) => {
                    self.host.act(seat, |replica, actions| replica.propose_for(caller, &entry, actions));
                    None
                }
                Err(_) => Some(refused(ErrorCode::Internal)),
            },
        }
    }

    fn has_time_to_live(&self, seat: SeatId, row: &RowKeyBuf) -> bool {
        let found = self.host.replica(seat).map(|replica| replica.records().get(row.as_ref().position(), row.as_ref()));
        matches!(found, Some(Lookup::Live(view)) if view.expires_at.is_some())
    }

    fn explain(&self, seat: SeatId, row: &RowKeyBuf) -> Response {
        let key = row.as_ref();
        let position = key.position();
        let Some(table) = self.catalogue.get(row.table) else { return refused(ErrorCode::UnknownTable) };
        let mut explanation = Explanation {
            table: table.name.clone(),
            partition_key: shardine_model::key::partition_key(&row.key).to_vec(),
            position,
            shard: self.shard_status(self.places.find(position)),
            residence: Residence::NotInMemory,
            version: Default::default(),
            sql_version: Default::default(),
            expires_at: None,
            retries: 0,
        };
        if let Some(cluster) = &self.exchange.cluster {
            explanation.shard.place(&cluster.map());
            for replica in &mut explanation.shard.replicas {
                replica.lives = cluster.board.silent_for(replica.node).is_none();
            }
        }
        if let Some(replica) = self.host.replica(seat) {
            match replica.records().get(position, key) {
                Lookup::Live(view) => {
                    explanation.residence = Residence::Live;
                    explanation.version = view.version;
                    explanation.sql_version = view.sql_version;
                    explanation.expires_at = view.expires_at;
                }
                Lookup::Absent { version, sql_version } => {
                    explanation.residence = Residence::Absent;
                    (explanation.version, explanation.sql_version) = (version, sql_version);
                }
                Lookup::NotResident | Lookup::UnknownTable => {}
            }
        }
        Response::Explanation(Box::new(explanation))
    }
}

//! Calls that concern one place of this lane, from its own connections or from outside.

use shardine_model::codec::Reader;
use shardine_model::{Answer, ErrorCode, Request, ShardId};
use shardine_records::Lookup;
use shardine_router::{Call, Explanation, FlushScope, Residence, Response};
use shardine_shard::Caller;

use super::core::{Core, OUTSIDE, Outside};
use crate::exchange::{refused, scan_position};
use crate::letter::{Done, ShardCall, ShardDone};

impl Core {
    pub fn call_from_outside(&mut self, call: Call, done: Done) {
        self.counters.calls += 1;
        let place = self.outside.insert(Outside::Call(done));
        let caller = Caller { source: OUTSIDE, sequence: place as u64 };
        if let Some(response) = self.call_here(call, caller)
            && let Some(Outside::Call(done)) = self.outside.try_remove(place)
        {
            done(response);
        }
    }

    /// Does a call. `None` means that the answer comes later, to the caller.
    pub(super) fn call_here(&mut self, call: Call, caller: Caller) -> Option<Response> {
        let position = match &call {
            Call::Read { row } | Call::Kick { row, .. } | Call::Explain { row } => row.as_ref().position(),
            Call::Flush(FlushScope::Row(row)) => row.as_ref().position(),
            Call::Submit { request } => {
                let request = Request::decode(&mut Reader::new(request)).ok()?;
                request.first_row()?.position()
            }
            Call::Scan(scan) => scan_position(scan),
            Call::Flush(FlushScope::Table(_) | FlushScope::All)
            | Call::Clear { .. }
            | Call::Count { .. }
            | Call::CreateTable(_)
            | Call::AddField { .. }
            | Call::DropTable { .. }
            | Call::Status => unreachable!("such calls concern several shards and are dealt out by the exchange"),
        };
        let Some(seat) = self.seat_of(position) else { return Some(refused(ErrorCode::StaleRoute)) };
        if self.seats[seat].replica.is_err() && !matches!(call, Call::Explain { .. }) {
            return Some(refused(ErrorCode::NoLeader));
        }
        match call {
            Call::Read { row } => {
                self.with_replica(seat, |replica, actions| replica.read(caller, row.as_ref(), actions));
            }
            Call::Submit { request } => {
                let Ok(request) = Request::decode(&mut Reader::new(&request)) else {
                    return Some(refused(ErrorCode::BadRequest));
                };
                self.with_replica(seat, |replica, actions| replica.submit(caller, &request, actions));
            }
            Call::Kick { row, nowait } => {
                self.with_replica(seat, |replica, actions| replica.kick(caller, row.as_ref(), nowait, actions));
            }
            Call::Flush(FlushScope::Row(row)) => {
                let row = row.as_ref();
                self.with_replica(seat, |replica, actions| replica.flush_rows(caller, Some(row), None, actions));
            }
            Call::Scan(scan) => return Some(self.scan(seat, &scan)),
            Call::Explain { row } => return Some(self.explain(seat, &row)),
            _ => unreachable!("sorted out above"),
        }
        None
    }

    pub fn ask_shard(&mut self, shard: ShardId, what: ShardCall, done: ShardDone) {
        let Some(seat) = self.seats.iter().position(|seat| seat.shard == shard) else {
            return done(Err(ErrorCode::StaleRoute));
        };
        let Ok(replica) = &mut self.seats[seat].replica else { return done(Err(ErrorCode::NoLeader)) };
        if let ShardCall::Count(table) = what {
            return done(Ok(replica.records().live_count(table)));
        }
        let place = self.outside.insert(Outside::Shard(done));
        let caller = Caller { source: OUTSIDE, sequence: place as u64 };
        self.with_replica(seat, |replica, actions| match what {
            ShardCall::Flush(table) => replica.flush_rows(caller, None, table, actions),
            ShardCall::Propose(entry) => match shardine_model::Entry::decode(&entry) {
                Ok(entry) => replica.propose_for(caller, &entry, actions),
                Err(_) => actions.answers.push((caller, Answer::Failed(ErrorCode::Internal))),
            },
            ShardCall::Count(_) => unreachable!("answered above"),
        });
    }

    fn explain(&self, seat: usize, row: &shardine_model::RowKeyBuf) -> Response {
        let key = row.as_ref();
        let position = key.position();
        let Some(table) = self.catalogue.get(row.table) else { return refused(ErrorCode::UnknownTable) };
        let mut explanation = Explanation {
            table: table.name.clone(),
            partition_key: shardine_model::key::partition_key(&row.key).to_vec(),
            position,
            shard: self.seat_status(&self.seats[seat]),
            residence: Residence::NotInMemory,
            version: Default::default(),
            sql_version: Default::default(),
            expires_at: None,
        };
        if let Ok(replica) = &self.seats[seat].replica {
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

//! Calls that look at many records of a shard. Like reads, they must not see the state of a leader that was replaced: where the
//! shard has several voters they wait until its replica is known to lead, all that wait sharing one round.

use shardine_host::SeatId;
use shardine_model::{ErrorCode, TableId};
use shardine_router::{Response, ScanCall, VerifyCall};
use shardine_shard::{Caller, ReadBarrier};

use super::core::Core;
use crate::exchange::refused;

/// What somebody wants to look at.
pub(super) enum Look {
    Scan(ScanCall),
    Verify(VerifyCall),
    Count(Option<TableId>),
    Middle,
}

impl Core {
    /// Looks, as soon as that is allowed. `None` means that the answer comes later, to the caller.
    pub(super) fn look(&mut self, seat: SeatId, look: Look, caller: Caller) -> Option<Response> {
        match self.host.act(seat, |replica, _| replica.read_barrier(caller)) {
            None => Some(refused(ErrorCode::NoLeader)),
            Some(ReadBarrier::Refused(code)) => Some(refused(code)),
            Some(ReadBarrier::Passed) => self.look_now(seat, &look, caller),
            Some(ReadBarrier::Waiting) => {
                self.looks.insert(caller, (seat, look));
                None
            }
        }
    }

    fn look_now(&mut self, seat: SeatId, look: &Look, caller: Caller) -> Option<Response> {
        match look {
            Look::Scan(call) => self.scan(seat, call, caller),
            Look::Verify(call) => self.verify(seat, call, caller),
            Look::Count(table) => Some(match self.host.replica(seat) {
                Some(replica) => Response::Count(replica.live_count(*table)),
                None => refused(ErrorCode::NoLeader),
            }),
            Look::Middle => Some(match self.host.replica(seat) {
                Some(replica) => Response::Count(replica.records().middle().map_or(0, |middle| middle.position.0)),
                None => refused(ErrorCode::NoLeader),
            }),
        }
    }

    /// The replica is known to have led when these callers came.
    pub(super) fn passed(&mut self, callers: Vec<Caller>) {
        for caller in callers {
            if let Some((seat, look)) = self.looks.remove(&caller)
                && let Some(response) = self.look_now(seat, &look, caller)
            {
                self.respond_to(caller, response);
            }
        }
    }
}

//! Answers to those who only look.

use shardine_host::{Host, Seat, SeatId};
use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_router::{
    CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordStatus, CoordView, Response, SemaphoreRange,
};
use shardine_shard::coord::{ClaimLine, Coord, NodeNumber, Range, Replica, SemaphoreLine};

/// Owners and waiters shown of one semaphore.
const CLAIMS_MAX: usize = 100;

pub(super) fn look(host: &Host<Replica>, look: &CoordLook, seat_of: impl Fn(&str) -> Option<SeatId>) -> Response {
    let seats: Vec<&Seat<Replica>> = host.seats().collect();
    let no_replica =
        || Refusal::new(ErrorCode::NoLeader, "nobody is known to lead coordination at the moment; try again");
    let looked = match look {
        _ if seats.is_empty() => Err(no_replica()),
        CoordLook::Nodes => nodes(&seats),
        CoordLook::Sessions { node, .. } | CoordLook::Semaphores { node, .. } => {
            let seat = seat_of(node).and_then(|seat| host.seat(seat));
            seat.map_or_else(|| Err(missing(node)), replica_of).map(|replica| look_at(replica, look))
        }
    };
    looked.unwrap_or_else(Response::Refused)
}

fn replica_of(seat: &Seat<Replica>) -> Result<&Replica, Refusal> {
    seat.replica.as_ref().map_err(|reason| Refusal::new(ErrorCode::NoLeader, reason.clone()))
}

fn look_at(replica: &Replica, look: &CoordLook) -> Response {
    let coord = replica.coord();
    match look {
        CoordLook::Nodes => unreachable!("that is a look at all groups"),
        CoordLook::Sessions { node, after, limit } => with_node(coord, node, |number| {
            let lines = coord.list_sessions(number, *after).take(*limit).map(|line| CoordSession {
                id: line.id.0,
                timeout_ms: line.timeout_ms,
                description: line.description,
                attached: replica.is_attached(number, line.id),
                claims: line.claims,
            });
            CoordView::Sessions(lines.collect())
        }),
        CoordLook::Semaphores { node, which, limit } => with_node(coord, node, |number| {
            let range = match which {
                SemaphoreRange::All => Range::All,
                SemaphoreRange::After(name) => Range::After(name),
                SemaphoreRange::Named(name) => Range::Named(name),
            };
            let found = coord.list_semaphores(number, range, CLAIMS_MAX).take(*limit).map(semaphore);
            CoordView::Semaphores(found.collect())
        }),
    }
}

fn with_node(coord: &Coord, path: &str, view: impl FnOnce(NodeNumber) -> CoordView) -> Response {
    match coord.find_node(path) {
        Some(number) => Response::Coord(view(number)),
        None => Response::Refused(missing(path)),
    }
}

fn missing(path: &str) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("there is no coordination node {path}"))
}

/// Those of all groups, by their paths. A list that lacks some of them would look whole.
fn nodes(seats: &[&Seat<Replica>]) -> Result<Response, Refusal> {
    let mut nodes = Vec::new();
    for seat in seats {
        nodes.extend(replica_of(seat)?.coord().list_nodes().map(|line| CoordNode {
            path: line.path,
            self_check_ms: line.config.self_check_ms(),
            grace_ms: line.config.grace_ms(),
            strict_reads: line.config.reads_are_strict(),
            strict_attaches: line.config.attaches_are_strict(),
            sessions: line.sessions,
            semaphores: line.semaphores,
        }));
    }
    nodes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(Response::Coord(CoordView::Nodes(nodes)))
}

fn semaphore(line: SemaphoreLine) -> CoordSemaphore {
    let found = line.description;
    CoordSemaphore {
        name: found.name,
        data: found.data,
        limit: found.limit,
        count: found.count,
        ephemeral: found.ephemeral,
        owners_total: line.owners,
        owners: found.owners.into_iter().map(claim).collect(),
        waiters_total: line.waiters,
        waiters: found.waiters.into_iter().map(claim).collect(),
    }
}

fn claim(line: ClaimLine) -> CoordClaim {
    CoordClaim { order_id: line.order.0, session_id: line.session.0, count: line.count, data: line.data }
}

pub(super) fn status(seat: &Seat<Replica>) -> CoordStatus {
    let group = seat.shard;
    let status = match &seat.replica {
        Ok(replica) => replica.status(),
        Err(reason) => {
            return CoordStatus { group: group.0, stopped: Some(reason.clone()), ..CoordStatus::default() };
        }
    };
    CoordStatus {
        group: group.0,
        leader: status.leader.map(|leader| NodeId(leader.0)),
        term: status.term,
        applied: status.applied,
        snapshot: status.snapshot,
        nodes: status.totals.nodes,
        sessions: status.totals.sessions,
        semaphores: status.totals.semaphores,
        bytes: status.totals.bytes,
        streams: status.streams,
        watches: status.watches,
        waiters: status.waiting,
        stopped: None,
    }
}

//! Looks at coordination, for a node that has no replica of it or does not lead it.

use super::forms::Wire;
use crate::coord::{CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordView, SemaphoreRange};

choice!(CoordLook, "look at coordination" {
    1 => Nodes,
    2 => Sessions { node, after, limit },
    3 => Semaphores { node, which, limit },
});

choice!(SemaphoreRange, "range of semaphores" {
    1 => All,
    2 => After(name),
    3 => Named(name),
});

choice!(CoordView, "view of coordination" {
    1 => Nodes(nodes),
    2 => Sessions(sessions),
    3 => Semaphores(semaphores),
});

record!(CoordNode { path, self_check_ms, grace_ms, strict_reads, strict_attaches, sessions, semaphores });
record!(CoordSession { id, timeout_ms, description, attached, claims });
record!(CoordSemaphore { name, data, limit, count, ephemeral, owners, owners_total, waiters, waiters_total });
record!(CoordClaim { order_id, session_id, count, data });

listed!(CoordNode, CoordSession, CoordSemaphore, CoordClaim);

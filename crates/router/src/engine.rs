//! The two ways into the engine: on a lane's own thread, and from any other.

use std::sync::Arc;

use shardine_model::{Catalogue, Position, Request, RowKey, RowView, Timestamp, Version};

use crate::call::Call;
use crate::response::Response;

/// Where a response goes: a connection of this lane, and the place in its line of replies. A connection's id names no other
/// one for as long as the process lives, so a response that comes late goes to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub connection: u64,
    pub sequence: u64,
}

/// What a read finds on the spot.
pub enum Read<'a> {
    Live(RowView<'a>),
    Absent {
        version: Version,
        sql_version: Version,
    },
    /// Not to be answered now (another lane, a load, a write of the same key on its way): ask with `call`.
    Later,
}

/// Whether it is certain what a key names: it begins with the name of a table, or it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    #[default]
    Known,
    /// It will be, or it will be known that nobody can say it: until then requests wait.
    NotYet,
    /// Nobody who could say it is in reach.
    Unknown,
}

/// The engine as a door on a lane's thread sees it. Responses that do not come at once arrive later under the ticket.
pub trait LocalEngine {
    fn catalogue(&self) -> &Catalogue;

    fn names(&self) -> Names {
        Names::Known
    }

    fn now(&self) -> Timestamp;

    /// A clock that never goes back, for how long something took.
    fn micros(&self) -> u64 {
        self.now().0.saturating_mul(1_000)
    }

    /// What time it is for the rows at a position: that of their shard, which may be ahead of the node's and never goes back.
    fn now_at(&mut self, _position: Position) -> Timestamp {
        self.now()
    }

    /// Reads a row of a shard of this lane without copying it.
    fn read(&mut self, row: RowKey<'_>) -> Read<'_>;

    /// Proposes a change; its `Response::Answer` always comes under the ticket.
    fn submit(&mut self, request: &Request<'_>, ticket: Ticket);

    /// Anything else; the response always comes under the ticket.
    fn call(&mut self, call: Call, ticket: Ticket);
}

/// The engine from other threads.
pub trait RemoteEngine: Send + Sync {
    fn catalogue(&self) -> Arc<Catalogue>;

    /// Carries a call to where it belongs; `done` is called exactly once, on a lane's thread, and must not block.
    fn call(&self, call: Call, done: Box<dyn FnOnce(Response) + Send>);
}

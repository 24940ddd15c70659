//! The other end of forwarding: which requests of other nodes are executed here. Keeps the order that [`crate::Forwards`]
//! relies on: after the first refusal of a generation, the rest of it is refused.
//!
//! ```text
//! admit   a forward has come on a link   ->  Run, or the refusal to send back; it is never sent on
//! refuse  its shard has refused it, although it was admitted
//! closed  a link is gone
//! ```

use std::collections::BTreeMap;

use shardine_model::Position;

use crate::forward::Refused;
use crate::routes::{Route, Routes};

/// Streams of one link that may stand refused. Each is one connection and partition of the peer whose requests met a change of
/// leaders, and that has not come back since.
pub const REFUSED_STREAMS_MAX: usize = 1 << 16;

/// What a forward says of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The host's number of the link. Never used again.
    pub link: u64,
    pub stream: u64,
    pub generation: u64,
    pub position: Position,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// To the shard of its position, on this lane.
    Run {
        lane: usize,
    },
    Refuse(Refused),
    /// The link holds more refused streams than are kept apart: it must be closed, or order would be lost.
    Close,
}

/// Streams whose present generation is refused.
#[derive(Debug, Default)]
pub struct Gate {
    refused: BTreeMap<u64, BTreeMap<u64, u64>>,
}

impl Gate {
    /// The link of a node's own requests.
    pub const LOCAL: u64 = 0;

    pub fn admit(&mut self, arrival: Arrival, routes: &Routes) -> Admission {
        if let Some(streams) = self.refused.get_mut(&arrival.link)
            && let Some(&generation) = streams.get(&arrival.stream)
        {
            if arrival.generation <= generation {
                return Admission::Refuse(Refused::OldGeneration);
            }
            // Links keep order: nothing of an earlier generation follows.
            streams.remove(&arrival.stream);
        }
        match routes.route(arrival.position) {
            Route::Here { lane } => Admission::Run { lane },
            Route::There(_) | Route::Unknown => match self.refuse(arrival) {
                true => Admission::Refuse(Refused::Moved(routes.moved(arrival.position))),
                false => Admission::Close,
            },
        }
    }

    /// Refuses the rest of a generation. False: there are too many such streams on this link, and it must be closed.
    pub fn refuse(&mut self, arrival: Arrival) -> bool {
        let streams = self.refused.entry(arrival.link).or_default();
        if streams.len() >= REFUSED_STREAMS_MAX && !streams.contains_key(&arrival.stream) {
            return false;
        }
        let generation = streams.entry(arrival.stream).or_default();
        *generation = arrival.generation.max(*generation);
        true
    }

    pub fn closed(&mut self, link: u64) {
        self.refused.remove(&link);
    }
}

//! What happens to coordination only.

use shardine_coord::Ticket;

use crate::coord::Coordination;
use crate::event;
use crate::tenant::EventOf;

/// What reaches a node besides what reaches any.
#[derive(Debug)]
pub enum Input {
    /// Something has come on a stream. What it is stands in the wire, so that it stays in order.
    Readable { wire: usize },
    /// A call about nodes.
    Call { ticket: Ticket },
    /// The door looks for streams that nobody answers on.
    Sweep,
}

#[derive(Debug)]
pub enum Event {
    /// Something has come to the client's end of a stream.
    Hears { wire: usize },
    /// A client thinks of something to do.
    Acts { client: usize },
    /// A client looks whether it is still connected.
    Beats { client: usize },
    /// An operator asks something about nodes.
    Operates,
}

impl From<Event> for EventOf<Coordination> {
    fn from(event: Event) -> Self {
        Self::Tenant(event)
    }
}

/// For whatever life of the node it finds.
pub fn arrive(node: usize, input: Input) -> EventOf<Coordination> {
    EventOf::<Coordination>::Arrive { node, input: event::Input::Own(input) }
}

/// For one life of the node only.
pub fn own(node: usize, life: u64, input: Input) -> EventOf<Coordination> {
    EventOf::<Coordination>::Own { node, life, input: event::Input::Own(input) }
}

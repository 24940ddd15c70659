//! Everything that can happen, and the order in which it does: by virtual time, then by the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardine_host::{Receipt, SeatId};
use shardine_model::NodeId;
use shardine_shard::Message;
use shardine_transport::Pulse;

use crate::council::Petition;
use crate::links::LinkId;

/// What reaches the process of a node. Waits while the process is paused, and is lost with it when it crashes.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are messages, the large ones")]
pub enum Input<I> {
    Tick,
    Message {
        group: usize,
        /// The node at the other end of the link.
        sender: NodeId,
        message: Message,
    },
    /// A lane's batch is on disk.
    Synced {
        lane: usize,
        receipt: Receipt,
    },
    SnapshotSaved {
        group: usize,
        seat: SeatId,
        index: u64,
    },
    /// The log is large, and this group has its oldest entries. The lane that has looked is told.
    SnapshotNow {
        lane: usize,
        group: usize,
    },
    /// Everything that is led here is to be handed over.
    HandOver,
    /// Another node is suspected of being dead, or no longer.
    Suspect {
        of: usize,
    },
    Trust {
        of: usize,
    },
    /// Between ticks: whoever waits to ask for votes may be due.
    Look,
    /// It is time to tell the others what time it is, and another one does.
    PulseDue,
    Pulse {
        from: usize,
        pulse: Pulse<'static>,
    },
    /// A change of the map, or all of it.
    Map {
        change: Vec<u8>,
    },
    /// Something has come on a link, or it is gone.
    Link {
        link: LinkId,
    },
    LinkGone {
        link: LinkId,
    },
    /// The next pieces of a snapshot may be cut.
    Cut {
        lane: usize,
    },
    /// Of the tenant's own.
    Own(I),
}

#[derive(Debug)]
pub enum Event<I, E> {
    /// For whatever life of the node it finds.
    Arrive {
        node: usize,
        input: Input<I>,
    },
    /// For one life of the node only.
    Own {
        node: usize,
        life: u64,
        input: Input<I>,
    },
    DiskSynced {
        node: usize,
        life: u64,
        lane: usize,
    },
    SnapshotWritten {
        node: usize,
        life: u64,
        cut: u64,
    },
    Crash {
        node: usize,
        life: u64,
        down: u64,
    },
    /// A node hears nobody for a while.
    Deafened {
        node: usize,
        length: u64,
    },
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    Strike,
    /// Whoever leads meta looks at everything.
    CouncilLooks,
    /// Something is told to whoever leads meta.
    Petition(Petition),
    /// A machine without a disk of its own has a number, and the map in which it stands.
    Joined {
        machine: usize,
        node: NodeId,
        map: Vec<u8>,
    },
    /// It asks again.
    AskToJoin {
        machine: usize,
        start: u64,
    },
    /// A node that is to be emptied is used again.
    Undrain {
        node: NodeId,
    },
    /// Of the tenant's own.
    Tenant(E),
}

/// When an event comes, in which order it was scheduled, and where it lies meanwhile: events are large, and a heap moves
/// what it holds.
type Scheduled = Reverse<(u64, u64, usize)>;

#[derive(Debug)]
pub struct Schedule<V> {
    heap: BinaryHeap<Scheduled>,
    sequence: u64,
    events: Vec<Option<V>>,
    free: Vec<usize>,
}

impl<V> Default for Schedule<V> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0, events: Vec::new(), free: Vec::new() }
    }
}

impl<V> Schedule<V> {
    pub fn at(&mut self, at: u64, event: V) {
        self.sequence += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.heap.push(Reverse((at, self.sequence, place)));
    }

    /// The next event up to a time.
    pub fn next_until(&mut self, end: u64) -> Option<(u64, V)> {
        let &Reverse((at, _, place)) = self.heap.peek()?;
        if at > end {
            return None;
        }
        self.heap.pop();
        self.free.push(place);
        self.events[place].take().map(|event| (at, event))
    }
}

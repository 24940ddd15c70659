//! What stands around replicas wherever they live: on a lane, on the thread of coordination, in the simulator. The pure core
//! decides what is to be done; the host decides in which order, and for whom a thing was done when it is done.
//!
//! A [`Host`] has seats. Its owner acts on a replica through its seat, which lists the seat as touched; at the end of the
//! turn only touched seats are looked at, so idle ones cost nothing. What replicas want on disk gathers in one queue, in
//! order, and leaves as a [`Batch`]: one at a time, so that whatever comes meanwhile shares the next one. Everything else
//! (messages to peers, pieces of snapshots, answers) is handed to the owner.
//!
//! Beside it stands what a node takes for the time ([`BelievedClock`]).
//!
//! Never touches a disk, a socket, a thread or a clock: the server and the simulator each do that in their own way, with
//! this code between them and the replicas.

// In the order in which a newcomer should read them.
mod host;
mod seat;
mod log_queue;
mod replica;
mod births;
mod heirs;
mod handover;
mod members;
mod splitting;
mod load;
mod speakers;
mod clock;

pub use births::{Cradle, Parted};
pub use clock::{BelievedClock, Doubt, WALL_STEP_MS_MAX, signed_difference};
pub use handover::HandOverStatus;
pub use host::{Host, Part};
pub use load::{Meter, Parting};
pub use log_queue::{Batch, Receipt};
pub use members::Move;
pub use replica::{GroupReplica, SnapshotState, Work};
pub use seat::{Seat, SeatId};
pub use speakers::Speakers;
pub use splitting::{LoadLimits, Reading, Reason, ShardLoad, ShardSize, SplitLimits, Splitting};

#[cfg(test)]
mod tests;

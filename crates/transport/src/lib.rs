//! What nodes say to each other on their peer port, as sessions without I/O: bytes in, items out, and the other way round.
//!
//! A link begins with a greeting ([`Hello`], [`Welcome`] or [`Refusal`]), in which both sides find out whether they are who
//! the other one means; after that both send batches of items until one of them closes. There are three kinds of link to each
//! peer ([`LinkKind`]), so that nothing small waits behind something large.
//!
//! Pure: no sockets, threads or clock; time is an argument. What stands between this and the wire, such as TLS, sees bytes
//! only.

// In the order in which a newcomer should read them.
mod link;
mod hello;
mod refusal;
mod sightings;
mod admission;

mod frame;
mod item;
mod inbound;
mod outbox;

mod liveness;
mod clocks;

pub mod limits;

pub use admission::{Admission, Local, Standing};
pub use clocks::Clocks;
pub use frame::{Broken, Greeting, Opening};
pub use hello::{Hello, PROTOCOL_VERSION, PROTOCOL_VERSION_LEAST, Welcome, Who};
pub use inbound::Inbound;
pub use item::{
    Answer, Begin, Body, End, Forward, ForwardFlags, Goodbye, Heirs, Item, Lead, LeaderNews, Leads, MapDelta,
    MapVersion, Outcome, Piece, Pulse, Raft, Subject, Suspicion, Taken, TransferRefusal, TransferRefused,
};
pub use link::LinkKind;
pub use liveness::{Change, Liveness};
pub use outbox::{Dropped, Full, Outbox};
pub use refusal::Refusal;
pub use sightings::{Recognition, Sighting, Sightings};

//! The Redis door: bytes in, commands to the engine, bytes out. No sockets, no threads, no clock.
//!
//! A [`RespConnection`] is one connection. The host hands it what it has read; the connection cuts it into commands, asks the
//! engine, and appends replies to the host's buffer in the order of the commands, whatever order the answers come in.
//! What it speaks is told in `docs/redis.md`.

// A newcomer reads: connection, frame, verb, command, queue, waiting.
// In the order in which a newcomer should read them.
mod options;
mod book;
mod shelf;
mod inside;
pub mod frame;
mod verb;
mod connection;
mod company;
mod roster;
mod slow_log;

pub mod address;
mod command;

mod queue;
mod waiting;

mod value;
pub mod wire;
mod glob;
mod failure;

pub use book::{Book, Header, digest, hex};
pub use connection::{Flow, Peer, Received, RespConnection};
pub use inside::{Deed, Inside};
pub use options::{Options, Password, REDIS_VERSION};
pub use roster::Roster;
pub use shelf::{FunctionOf, Libraries, Library, LibraryHeader, ReadLibrary, Shelf, is_library_word};
pub use slow_log::SlowLog;
pub use wire::Protocol;

//! Links to the other nodes of the cluster: control links in a thread of their own, append links on the lanes, bulk links for
//! snapshots. What is said on them, and whom one believes, is decided in `shardine-transport`; sockets are here.

// In the order in which a newcomer should read them.
mod book;
mod link;
mod board;
mod guests;
mod bulk;
mod control;

pub(crate) use self::board::Board;
pub(crate) use self::board::news;
pub(crate) use self::book::Book;
pub(crate) use self::bulk::{BulkSender, Content, Delivery, Parcel, Prepared, start as start_bulk};
pub(crate) use self::control::{Audience, Control, ControlHandle, ControlMessage, MapNews};
pub(crate) use self::link::{Closed, Link};

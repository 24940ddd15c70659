//! What each command does. A command file turns words into a question to the engine, or an answer into bytes.

// A newcomer reads: read, change, format, many, transaction, record; the rest in any order.
pub(crate) mod read;
pub(crate) mod change;
pub(crate) mod many;
pub(crate) mod look;
pub(crate) mod transaction;
pub(crate) mod program;
pub(crate) mod scripts;
pub(crate) mod functions;
pub(crate) mod atomic;
pub(crate) mod call;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod own;
pub(crate) mod client;
pub(crate) mod others;
pub(crate) mod slow;
pub(crate) mod config;
pub(crate) mod describe;
pub(crate) mod docs;
pub(crate) mod info;
pub(crate) mod reply_format;

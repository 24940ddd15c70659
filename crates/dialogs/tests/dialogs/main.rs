//! The service in front of a real server: what is asked over HTTP, and what is in the tables afterwards.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod access;
mod chats;
mod messages;
mod once;
mod streams;
mod stage;

//! Every maximum of the service, with its reason.

use std::time::Duration;

/// Members of a chat: each is a row of its own that is written before the chat is there.
pub const USERS_MAX: usize = 500;
/// Bytes of a text. Longer ones are documents, and belong elsewhere.
pub const TEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of a body: a text with every character escaped, and its neighbours.
pub const BODY_BYTES_MAX: usize = 128 << 10;
/// Chats or messages of a page.
pub const PAGE_MAX: u32 = 1_000;
/// The same if nothing is said.
pub const PAGE_DEFAULT: u32 = 50;
/// Characters of an `Idempotency-Key`, as others have it.
pub const ONCE_KEY_MAX: usize = 255;
/// How long a key is remembered. Who repeats a request does so within minutes.
pub const ONCE_TIME: Duration = Duration::from_secs(24 * 3_600);
/// Chats whose members are kept in memory: some 100 bytes each. Members never change.
pub const KNOWN_MAX: usize = 100_000;
/// Notes of new messages that a reader may be behind with; one that is further behind looks for itself.
pub const POSTED_MAX: usize = 1_024;
/// How often a stream looks for messages that other processes have taken.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Seconds by which a message may become readable after a later one: its request may take that long, and clocks of two hosts
/// of the service may differ by as much.
pub const SETTLE_SECONDS: i64 = 15;
/// How often half-made chats are looked for.
pub const FINISH_EVERY: Duration = Duration::from_secs(5);

//! Every maximum of a link, each with its reason, and the times by which liveness is judged.

use shardine_model::limits::{REPLY_BYTES_MAX, SNAPSHOT_CHUNK_BYTES_MAX};

/// Bytes of a greeting: a name of 63 bytes and a few numbers. Whoever says more before he is let in is no node.
pub const GREETING_BYTES_MAX: usize = 1 << 10;

/// Bytes of what stands around an item's largest part, generously.
const AROUND_BYTES: usize = 1 << 10;

/// Bytes of a frame on a control link: a pulse that names thirty thousand groups. Votes must not wait behind more.
pub const CONTROL_FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of a frame on an append link. The largest item is the answer to a forwarded request; an entry of the log, which is one
/// request or one loaded record above the size at which entries end, is smaller.
pub const APPEND_FRAME_BYTES_MAX: usize = REPLY_BYTES_MAX + AROUND_BYTES;

/// Bytes of one piece of a transfer. It is held in memory on both sides.
pub const PIECE_BYTES_MAX: usize = SNAPSHOT_CHUNK_BYTES_MAX;

/// Bytes of a frame on a bulk link.
pub const BULK_FRAME_BYTES_MAX: usize = PIECE_BYTES_MAX + AROUND_BYTES;

/// Bytes of a change of the map that travels on the control link. Whoever is further behind gets the map whole, by bulk.
pub const MAP_DELTA_BYTES_MAX: usize = 64 << 10;

/// Bytes of the map as a whole. A hundred thousand shards with their replicas take ten.
pub const MAP_BYTES_MAX: u64 = 64 << 20;

/// Bytes after which a batch is closed and the next one begun: the peer can work on the first while the second is on its way.
pub const BATCH_BYTES_SOFT: usize = 256 << 10;

/// Bytes that may wait for a peer on an append link before messages are dropped and forwards refused: a tenth of a second of a fast
/// network. A Raft message that is dropped is sent again; one that waits longer than an election is worth nothing.
pub const APPEND_OUTBOX_BYTES_MAX: usize = 64 << 20;

/// The same on a control link. What waits there is old news.
pub const CONTROL_OUTBOX_BYTES_MAX: usize = 4 << 20;

/// The same on a bulk link: two pieces under way, so that the next one is read from disk while one is sent.
pub const BULK_OUTBOX_BYTES_MAX: usize = 2 * BULK_FRAME_BYTES_MAX;

/// How much more an answer may add to a full queue. The work is done by then, and to drop it leaves the client in doubt.
pub const ANSWER_OUTBOX_BYTES_EXTRA: usize = REPLY_BYTES_MAX;

/// Bytes that an empty queue keeps allocated. One large reply should not be paid for ever.
pub const OUTBOX_BYTES_KEPT: usize = 1 << 20;

/// Bytes of a sentence for people in a refusal.
pub const REASON_BYTES_MAX: usize = 512;

/// Heirs that a leader names for a group. With five voters there are four.
pub const HEIRS_MAX: usize = 8;

/// Nodes that one node remembers. A cluster of a thousand nodes that replaces each of them now and then.
pub const SIGHTINGS_MAX: usize = 100_000;

/// How often a node tells every other one that it lives.
pub const PULSE_MS: u64 = 50;

/// The shortest silence that is held against a node: six pulses. Less would be a pause of a busy machine.
pub const SILENCE_MS_MIN: u64 = 300;

/// How many times the largest gap of late a silence must be.
pub const SILENCE_GAPS: u64 = 4;

/// The longest silence that is waited for, whatever the gaps have been: then followers stand for election by themselves.
pub const SILENCE_MS_MAX: u64 = 1_000;

/// How long a node that has never been heard may take to say its first word.
pub const FIRST_WORD_MS: u64 = 1_000;

/// For how long the largest gap counts.
pub const GAPS_KEPT_MS: u64 = 60_000;

/// How long this node's own thread may take between two looks before it blames itself for what it has not heard.
pub const OWN_PAUSE_MS: u64 = 150;

/// How long a comparison of clocks counts without a newer one.
pub const CLOCK_KEPT_MS: u64 = 10_000;

/// How far clocks that agree may be apart. A wall clock further from the others' is not believed.
pub const CLOCKS_APART_MS_MAX: u64 = 5_000;

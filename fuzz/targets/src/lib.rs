//! What is fuzzed: one function per reader of bytes that come from a client, a peer or a disk. A function takes any bytes
//! and returns; a panic is a finding. Beyond not panicking, each checks what must hold for every input that is accepted.

mod apply;
mod door;
mod link;
mod map;
mod peer;
mod script;

use shardine_model::codec::Reader;
use shardine_model::{Answer, Entry, Request};

pub use apply::{chunks, commands, replica, state_chunk};
pub use door::{resp_request, resp_session};
pub use link::peer_link;
pub use map::{begun, first_map, map};
pub use peer::peer_message;
pub use script::script;

/// A function under its name, which is also that of its program and of its folder of inputs.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All targets, for the tests that replay the stored inputs.
pub const TARGETS: [Target; 12] = [
    Target { name: "commands", run: commands },
    Target { name: "log_entry", run: log_entry },
    Target { name: "log_segment", run: log_segment },
    Target { name: "map", run: map },
    Target { name: "peer_link", run: peer_link },
    Target { name: "peer_message", run: peer_message },
    Target { name: "resp_request", run: resp_request },
    Target { name: "resp_session", run: resp_session },
    Target { name: "script", run: script },
    Target { name: "snapshot", run: snapshot },
    Target { name: "state_chunk", run: state_chunk },
    Target { name: "stored_answer", run: stored_answer },
];

/// An entry of a shard's log. What was read is written and read again to the same bytes: two replicas that pass an entry on
/// must not part over it.
pub fn log_entry(data: &[u8]) {
    let Ok(entry) = Entry::decode(data) else { return };
    let written = entry.to_bytes();
    let again = Entry::decode(&written).expect("an entry that was written can be read");
    assert_eq!(again.to_bytes(), written, "an entry must not change by being passed on");
    if let Entry::Commands { requests, .. } = entry {
        walk_requests(requests);
    }
}

/// Requests follow each other without a count; the walk has to end, at the end or at an error.
fn walk_requests(run: &[u8]) {
    let mut reader = Reader::new(run);
    while !reader.is_empty() {
        let Ok(request) = Request::decode(&mut reader) else { return };
        let written = request_bytes(&request);
        let again = Request::decode(&mut Reader::new(&written)).expect("a request that was written can be read");
        assert_eq!(request_bytes(&again), written, "a request must not change by being passed on");
        // Routing looks at the rows before anything else does.
        request.rows().for_each(|row| _ = row.position());
    }
}

fn request_bytes(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(&mut out);
    out
}

/// A segment of the log as a crash may have left it.
pub fn log_segment(data: &[u8]) {
    drop(shardine_store::log::scan(data));
}

/// A snapshot file, which may come from a peer.
pub fn snapshot(data: &[u8]) {
    let Ok((_, chunks)) = shardine_store::snapshot::decode_all(data) else { return };
    let bytes: usize = chunks.iter().map(Vec::len).sum();
    assert!(bytes <= data.len(), "a snapshot cannot hold more than its file");
}

/// An answer kept for a repeated request.
pub fn stored_answer(data: &[u8]) {
    let mut reader = Reader::new(data);
    let Ok(answer) = Answer::decode(&mut reader) else { return };
    let written = answer_bytes(&answer);
    let again = Answer::decode(&mut Reader::new(&written)).expect("an answer that was written can be read");
    assert_eq!(answer_bytes(&again), written, "an answer must not change by being kept");
}

fn answer_bytes(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    answer.encode(&mut out);
    out
}

//! The Redis door under bytes that no client library would send: its parser alone, and a whole connection with the state
//! machine behind it. Bytes arrive in pieces that nobody chose, so where they are cut must not show.

use std::sync::Arc;

use shardine_fake::{FakeShard, LocalFake};
use shardine_resp::frame::{Args, Limits, Parsed, parse};
use shardine_resp::{Flow, Options, Peer, RespConnection};

use crate::replica;

/// Inputs are cut at every byte, which costs the square of their length.
const CUT_BYTES_MAX: usize = 512;

/// Frames, read from the whole input and from an input that grows byte by byte: the same words, and the same end.
pub fn resp_request(data: &[u8]) {
    let whole = frames(data, data.len());
    if data.len() <= CUT_BYTES_MAX {
        assert_eq!(frames(data, 1), whole, "where the input is cut must not show");
    }
}

/// The frames of an input that arrives in pieces, and the error that ended it.
fn frames(data: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut frames, mut args, mut start, mut end) = (Vec::new(), Args::default(), 0, 0);
    loop {
        match parse(&data[start..end], &Limits::BEFORE_AUTH, &mut args) {
            Ok(Parsed::Incomplete) if end == data.len() => return (frames, None),
            Ok(Parsed::Incomplete) => end = (end + piece).min(data.len()),
            Ok(Parsed::Empty { consumed }) => {
                assert!(consumed > 0, "a frame takes bytes");
                start += consumed;
            }
            Ok(Parsed::Command { consumed }) => {
                assert!(consumed > 0, "a frame takes bytes");
                frames.push(args.line(&data[start..end]).words(0).map(<[u8]>::to_vec).collect());
                start += consumed;
            }
            Err(error) => return (frames, Some(error.to_string())),
        }
    }
}

/// A whole connection: everything that a client sends is answered, in the same words however it arrives.
pub fn resp_session(data: &[u8]) {
    let whole = conversation(data, data.len().max(1));
    assert_eq!(conversation(data, 7), whole, "where the input is cut must not show");
}

fn conversation(data: &[u8], piece: usize) -> Vec<u8> {
    let mut room = LocalFake::new(FakeShard::new(replica(1)));
    let mut connection = RespConnection::new(1, Peer::default(), Arc::new(Options::default()));
    let (mut said, mut out, mut start, mut end) = (Vec::new(), Vec::new(), 0, piece.min(data.len()));
    loop {
        let received = connection.receive(&data[start..end], &mut room, &mut out);
        start += received.consumed;
        let mut flow = received.flow;
        let mut is_answered = false;
        while !room.responses.is_empty() {
            let (sequence, response) = room.responses.remove(0);
            flow = connection.complete(sequence, response, &mut room, &mut out);
            is_answered = true;
        }
        let is_written = !out.is_empty();
        said.append(&mut out);
        match flow {
            Flow::Close => return said,
            Flow::Continue if received.flow == Flow::Continue && end == data.len() => {
                assert_eq!(connection.waiting(), 0, "everything that was asked is answered");
                return said;
            }
            Flow::Continue if received.flow == Flow::Continue => end = (end + piece).min(data.len()),
            // A pause ends by an answer or by a write; without either the connection would hang for ever.
            Flow::Continue | Flow::Pause => {
                assert!(is_answered || is_written, "a connection must not pause for nothing")
            }
        }
    }
}

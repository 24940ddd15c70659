//! Links between nodes under bytes that no node would send.

use shardine_transport::{Greeting, Inbound, LinkKind, Opening, Outbox};

/// The first byte chooses who reads: somebody who was dialled, somebody who has dialled, or one of the kinds of link. The rest
/// comes raw, and once more as the body of a frame whose sum is right: behind sums there is more to be found. What was read is
/// written and read again to the same.
pub fn peer_link(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let framed = framed(rest);
    for bytes in [rest, &framed] {
        match choice % 5 {
            0 => greeting(Opening::accepted, bytes),
            1 => greeting(Opening::dialled, bytes),
            2 => items(LinkKind::Control, bytes),
            3 => items(LinkKind::Append, bytes),
            _ => items(LinkKind::Bulk, bytes),
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let sum = crc32fast::hash(&[&length[..], body].concat());
    [&length[..], &sum.to_le_bytes(), body].concat()
}

fn greeting(opening: fn() -> Opening, bytes: &[u8]) {
    let Ok(Some(greeting)) = opening().receive(bytes) else { return };
    let written = match &greeting {
        Greeting::Hello(hello) => hello.to_frame(),
        Greeting::Welcome(welcome) => welcome.to_frame(),
        // The sentence for people is our own, if the reason is known.
        Greeting::Refused(refusal) => refusal.to_frame(),
        Greeting::OtherVersion { .. } => return,
    };
    assert_eq!(opening().receive(&written), Ok(Some(greeting)), "a greeting must not change by being passed on");
}

fn items(kind: LinkKind, bytes: &[u8]) {
    let mut inbound = Inbound::new(kind);
    let mut again = Outbox::new(kind);
    let mut texts = Vec::new();
    let middle = bytes.len() / 2;
    for some in [&bytes[..middle], &bytes[middle..]] {
        let result = inbound.receive(some, |item| {
            texts.push(format!("{item:?}"));
            again.push(&item).expect("what fitted one frame fits the queue");
        });
        if result.is_err() {
            break;
        }
    }
    assert!(inbound.held_bytes() <= 2 * bytes.len() + 64, "no memory is taken for what a length claims");
    let mut read = Vec::new();
    Inbound::new(kind).receive(again.bytes(), |item| read.push(format!("{item:?}"))).expect("written here");
    assert_eq!(read, texts, "items must not change by being passed on");
}

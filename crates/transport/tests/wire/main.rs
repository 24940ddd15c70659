//! What goes over the wire: the same bytes for ever, the same items behind it, and nothing but an error from noise.

mod golden;
mod greeting;
mod noise;
mod outbox;
mod round_trip;
mod samples;

use shardine_transport::{Broken, Inbound, Item, LinkKind, Outbox};

/// The bytes of one frame with these items.
fn frame(kind: LinkKind, items: &[Item<'_>]) -> Vec<u8> {
    let mut outbox = Outbox::new(kind);
    items.iter().for_each(|item| outbox.push(item).expect("room"));
    outbox.bytes().to_vec()
}

/// What comes out, each item as text, when bytes come in so many at a time.
fn received(kind: LinkKind, bytes: &[u8], at_a_time: usize) -> Result<Vec<String>, Broken> {
    let (mut inbound, mut items) = (Inbound::new(kind), Vec::new());
    for some in bytes.chunks(at_a_time) {
        inbound.receive(some, |item| items.push(format!("{item:?}")))?;
    }
    Ok(items)
}

fn texts(items: &[Item<'_>]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

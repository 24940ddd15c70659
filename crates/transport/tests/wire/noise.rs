//! Whatever comes, nothing panics, and no memory is taken for what a length claims.

use proptest::prelude::*;
use shardine_transport::{Broken, Inbound, LinkKind, Opening};

use crate::{frame, received, samples};

/// Closes a body as a frame of a peer that means harm: with a sum that is right.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let sum = crc32fast::hash(&[&length[..], body].concat());
    [&length[..], &sum.to_le_bytes(), body].concat()
}

#[test]
fn a_claimed_length_is_not_believed() {
    for kind in LinkKind::ALL {
        let limit = kind.frame_bytes_max() as u32;
        let mut inbound = Inbound::new(kind);
        assert!(inbound.receive(&limit.to_le_bytes(), |_| ()).is_ok());
        assert!(inbound.receive(&[0; 100], |_| ()).is_ok());
        assert!(inbound.held_bytes() < 4_096, "{} bytes for 104", inbound.held_bytes());

        let above = Inbound::new(kind).receive(&(limit + 1).to_le_bytes(), |_| ());
        assert!(matches!(above, Err(Broken::TooLong { .. })), "{kind}: {above:?}");
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_noticed() {
    for sample in samples::all() {
        let good = frame(sample.kind, std::slice::from_ref(&sample.item));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // A length that has grown makes the reader wait for more.
            let result = received(sample.kind, &bad, bad.len());
            assert!(result.as_ref().map_or(true, Vec::is_empty), "{:?}, bit {bit}: {result:?}", sample.item);
        }
    }
}

#[test]
fn items_cut_anywhere_are_refused_or_shorter() {
    for sample in samples::all() {
        for len in 0..sample.content.len() {
            let length = (len as u32).to_le_bytes();
            let body = [&[4, sample.tag][..], &length, &sample.content[..len]].concat();
            let result = received(sample.kind, &framed(&body), body.len() + 8);
            let whole = format!("{:?}", sample.item);
            assert!(result.as_ref().map_or(true, |items| items[0] != whole), "{whole} in {len} bytes");
        }
        let body = [&[4, sample.tag][..], &[200, 0, 0, 0], sample.content].concat();
        assert!(received(sample.kind, &framed(&body), 4_096).is_err(), "longer than the frame");
    }
}

#[test]
fn an_item_on_the_wrong_link_is_refused() {
    for sample in samples::all() {
        let bytes = frame(sample.kind, std::slice::from_ref(&sample.item));
        for other in LinkKind::ALL {
            let fits = samples::all().iter().any(|sibling| sibling.kind == other && sibling.tag == sample.tag);
            assert_eq!(received(other, &bytes, bytes.len()).is_ok(), fits, "{:?} on {other}", sample.item);
        }
    }
}

proptest! {
    /// reliability I79.
    #[test]
    fn noise_is_survived(noise in proptest::collection::vec(any::<u8>(), 0..300), at_a_time in 1..40usize) {
        for kind in LinkKind::ALL {
            let _ = received(kind, &noise, at_a_time);
            let _ = received(kind, &framed(&noise), at_a_time);
            let _ = received(kind, &framed(&[&[4][..], &noise].concat()), at_a_time);
        }
        for mut opening in [Opening::accepted(), Opening::dialled(), Opening::accepted(), Opening::dialled()] {
            let _ = opening.receive(&noise);
        }
        for tag in 1..=3 {
            let _ = Opening::accepted().receive(&framed(&[&[tag][..], &noise].concat()));
            let _ = Opening::dialled().receive(&framed(&[&[tag][..], &noise].concat()));
        }
    }

    #[test]
    fn noise_inside_an_item_is_survived(content in proptest::collection::vec(any::<u8>(), 0..80)) {
        for sample in samples::all() {
            let length = (content.len() as u32).to_le_bytes();
            let body = [&[4, sample.tag][..], &length, &content].concat();
            let _ = received(sample.kind, &framed(&body), 4_096);
        }
    }
}

//! Bytes that nodes of different versions will read of each other. A test here is never changed, only added to.

use shardine_model::NodeId;
use shardine_transport::{Hello, LinkKind, Refusal, Welcome, Who};

use crate::{frame, samples};

/// A frame around a body, as documented.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let sum = crc32(&[&length[..], body].concat());
    [&length[..], &sum.to_le_bytes(), body].concat()
}

/// By the definition and not by the crate that is used: a polynomial must not change behind our back.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

fn lili() -> Who {
    let cluster = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
    Who { cluster, node: NodeId(300), name: "lili".to_owned(), incarnation: 12, start: 0x0102, features: 1 }
}

const LILI: &[u8] =
    b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xac\x02\x04lili\x0c\x02\x01\0\0\0\0\0\0\x01";

#[test]
fn a_hello_has_these_bytes_for_ever() {
    for (kind, tag) in LinkKind::ALL.into_iter().zip(1u8..) {
        let body = [b"\x01shardine\x01\0\x01\0", LILI, &[tag, 7, 0]].concat();

        assert_eq!(Hello::new(lili(), kind, NodeId(7)).to_frame(), framed(&body), "{kind}");
    }
}

#[test]
fn a_welcome_has_these_bytes_for_ever() {
    let hello = Hello::new(lili(), LinkKind::Append, NodeId(7));

    assert_eq!(Welcome::new(lili(), &hello).to_frame(), framed(&[b"\x02\x01\0", LILI].concat()));
}

pub fn refusals() -> Vec<(Refusal, Vec<u8>)> {
    let node = NodeId(300);
    let cluster = [&[1, 16][..], &LILI[..16]].concat();
    vec![
        (Refusal::OtherCluster { cluster: lili().cluster }, cluster),
        (Refusal::OtherVersion { newest: 300, least: 2 }, vec![2, 3, 0xac, 2, 2]),
        (Refusal::WrongNode { node }, vec![3, 2, 0xac, 2]),
        (Refusal::OldCopy { node, incarnation: 9 }, vec![4, 3, 0xac, 2, 9]),
        (Refusal::Oneself, vec![5, 0]),
        (Refusal::Removed { node }, vec![6, 2, 0xac, 2]),
        (Refusal::NoCluster, vec![7, 0]),
        (Refusal::Busy, vec![8, 0]),
        (Refusal::Stopping, vec![9, 0]),
        (Refusal::Other { code: 200, reason: "later".to_owned() }, vec![200, 0]),
    ]
}

#[test]
fn a_refusal_has_these_bytes_for_ever_with_a_sentence_behind() {
    for (refusal, facts) in refusals() {
        let bytes = refusal.to_frame();

        assert_eq!(bytes[8], 3, "{refusal:?}");
        assert_eq!(bytes[9..9 + facts.len()], facts, "{refusal:?}");
        assert_eq!(bytes, framed(&bytes[8..]), "{refusal:?}");
    }
}

#[test]
fn items_have_these_bytes_for_ever() {
    for sample in samples::all() {
        let length = (sample.content.len() as u32).to_le_bytes();
        let body = [&[4, sample.tag][..], &length, sample.content].concat();

        assert_eq!(frame(sample.kind, std::slice::from_ref(&sample.item)), framed(&body), "{:?}", sample.item);
    }
}

//! Golden bytes of every kind of message. What changes here cannot be read by a node of the version before.

use raft::eraftpb::MessageType;
use shardine_model::ReplicaId;

use super::*;

fn raft(kind: Kind, fill: impl FnOnce(&mut RaftMessage)) -> Message {
    let mut inner = eraftpb::Message { from: 7, to: 300, term: 5, ..Default::default() };
    inner.set_msg_type(kind.to_raft());
    let stamps = Stamps { sent: 300, echo: 5, age_ms: (kind == Kind::Append).then_some(40) };
    let mut message = RaftMessage { kind, inner, committed: 0, conf_index: 0, stamps };
    fill(&mut message);
    Message(Body::Raft(message))
}

fn entry(index: u64, term: u64, kind: EntryType, data: &'static [u8]) -> Entry {
    let mut entry = Entry { index, term, data: data.into(), ..Entry::default() };
    entry.set_entry_type(kind);
    entry
}

fn append() -> Message {
    raft(Kind::Append, |message| {
        let inner = &mut message.inner;
        (inner.index, inner.log_term, inner.commit, message.committed) = (200, 3, 150, 201);
        let normal = entry(201, 3, EntryType::EntryNormal, b"one");
        let change = entry(202, 5, EntryType::EntryConfChangeV2, b"two");
        inner.set_entries(vec![normal, change].into());
    })
}

fn snapshot() -> Message {
    raft(Kind::Snapshot, |message| {
        let ids = |numbers: &[u64]| numbers.iter().copied().map(ReplicaId).collect();
        let membership = Membership {
            voters: ids(&[7]),
            learners: ids(&[300]),
            outgoing: ids(&[7, 8, 9]),
            learners_next: ids(&[9]),
            auto_leave: true,
        };
        let mut snapshot = Snapshot { data: b"state".as_slice().into(), ..Snapshot::default() };
        (snapshot.mut_metadata().index, snapshot.mut_metadata().term) = (130, 4);
        snapshot.mut_metadata().set_conf_state(conf_state(&membership));
        message.inner.set_snapshot(snapshot);
        (message.conf_index, message.committed) = (128, 140);
    })
}

fn call(kind: Kind, context: &'static [u8]) -> Message {
    raft(kind, |message| {
        let inner = &mut message.inner;
        (inner.index, inner.log_term, inner.commit, inner.commit_term) = (9, 4, 8, 3);
        inner.context = context.into();
    })
}

fn golden() -> Vec<(Message, Vec<u8>)> {
    let (from, to) = (ReplicaId(7), ReplicaId(300));
    let head = |tag: u8| vec![1, tag, 7, 0xac, 2, 5, 0xac, 2, 5, if tag == TAG_APPEND { 41 } else { 0 }];
    let with = |tag: u8, rest: &[u8]| [&head(tag)[..], rest].concat();
    let vote_response = |kind| raft(kind, |message| message.inner.reject = false);
    let rejection = |kind| {
        raft(kind, |message| {
            let inner = &mut message.inner;
            (inner.reject, inner.commit, inner.commit_term) = (true, 8, 3);
        })
    };
    vec![
        (append(), with(1, &[200, 1, 3, 150, 1, 201, 1, 2, 0, 3, b'o', b'n', b'e', 5, 3, b't', b'w', b'o'])),
        (
            raft(Kind::AppendResponse, |message| (message.inner.index, message.inner.commit) = (202, 201)),
            with(2, &[202, 1, 201, 1, 0]),
        ),
        (
            raft(Kind::AppendResponse, |message| {
                let inner = &mut message.inner;
                (inner.index, inner.commit, inner.reject) = (202, 201, true);
                (inner.reject_hint, inner.log_term) = (150, 3);
            }),
            with(2, &[202, 1, 201, 1, 1, 150, 1, 3]),
        ),
        (
            raft(Kind::AppendResponse, |message| {
                let inner = &mut message.inner;
                (inner.index, inner.commit, inner.reject) = (202, 201, true);
                (inner.reject_hint, inner.log_term, inner.request_snapshot) = (210, 3, 210);
            }),
            with(2, &[202, 1, 201, 1, 2, 210, 1, 3, 210, 1]),
        ),
        (call(Kind::Vote, b""), with(3, &[9, 4, 8, 3, 0])),
        (call(Kind::Vote, b"CampaignTransfer"), with(3, &[9, 4, 8, 3, 1])),
        (vote_response(Kind::VoteResponse), with(4, &[0, 0, 0])),
        (rejection(Kind::VoteResponse), with(4, &[8, 3, 1])),
        (call(Kind::PreVote, b""), with(5, &[9, 4, 8, 3, 0])),
        (vote_response(Kind::PreVoteResponse), with(6, &[0, 0, 0])),
        (rejection(Kind::PreVoteResponse), with(6, &[8, 3, 1])),
        (
            raft(Kind::Heartbeat, |message| {
                (message.inner.commit, message.committed) = (150, 201);
                message.inner.context = b"\0\0\0\x01\0\0\0\x02".as_slice().into();
            }),
            with(7, &[150, 1, 201, 1, 8, 0, 0, 0, 1, 0, 0, 0, 2]),
        ),
        (
            raft(Kind::HeartbeatResponse, |message| {
                message.inner.commit = 150;
                message.inner.context = b"\0\0\0\x01\0\0\0\x02".as_slice().into();
            }),
            with(8, &[150, 1, 8, 0, 0, 0, 1, 0, 0, 0, 2]),
        ),
        (
            snapshot(),
            with(
                9,
                &[130, 1, 4, 128, 1, 140, 1, 1, 7, 1, 0xac, 2, 3, 7, 8, 9, 1, 9, 1, 5, b's', b't', b'a', b't', b'e'],
            ),
        ),
        (raft(Kind::TimeoutNow, |_| {}), head(10)),
        (Message(Body::Inquiry { from, to, conf_index: 128 }), vec![1, 11, 7, 0xac, 2, 128, 1]),
        (Message(Body::Excluded { from, to, conf_index: 128 }), vec![1, 12, 7, 0xac, 2, 128, 1]),
        (
            Message(Body::Sum { from, to, index: 128, sum: *b"sixteen bytes, 1" }),
            [&[1, 13, 7, 0xac, 2, 128, 1][..], b"sixteen bytes, 1"].concat(),
        ),
    ]
}

#[test]
fn messages_have_these_bytes_for_ever() {
    for (message, bytes) in golden() {
        let mut encoded = Vec::new();
        message.encode(&mut encoded);

        assert_eq!(encoded, bytes, "{}", message.summary());
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
}

#[test]
fn a_message_cut_anywhere_or_with_more_behind_it_is_refused() {
    for (message, bytes) in golden() {
        for len in 0..bytes.len() {
            assert!(Message::decode(&bytes[..len]).is_err(), "{} in {len} bytes", message.summary());
        }
        assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err(), "{} and more", message.summary());
    }
}

/// reliability F44: raft-rs ends the process over these; no honest peer sends them.
#[test]
fn what_contradicts_itself_is_refused() {
    let refused: [(&str, &[u8]); 8] = [
        ("no term", &[1, 10, 7, 2, 0, 0, 0, 0]),
        ("no sender", &[1, 10, 0, 2, 5, 0, 0, 0]),
        ("an index without end", &[1, 2, 7, 2, 5, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0]),
        ("a place without a term", &[1, 1, 7, 2, 5, 0, 0, 0, 200, 1, 0, 0, 0, 0]),
        ("an entry of a term to come", &[1, 1, 7, 2, 5, 0, 0, 0, 1, 3, 0, 0, 1, 6, 0]),
        ("a snapshot of nobody", &[1, 9, 7, 2, 5, 0, 0, 0, 9, 4, 0, 9, 0, 0, 0, 0, 0, 0]),
        ("one who both votes and learns", &[1, 9, 7, 2, 5, 0, 0, 0, 9, 4, 0, 9, 1, 7, 1, 7, 0, 0, 0, 0]),
        ("a membership made behind the snapshot", &[1, 9, 7, 2, 5, 0, 0, 0, 9, 4, 10, 9, 1, 7, 0, 0, 0, 0, 0]),
    ];
    let sound: [&[u8]; 4] = [
        &[1, 10, 7, 2, 5, 0, 0, 0],
        &[1, 2, 7, 2, 5, 0, 0, 0, 9, 0, 0],
        &[1, 1, 7, 2, 5, 0, 0, 0, 1, 3, 0, 0, 1, 4, 0],
        &[1, 9, 7, 2, 5, 0, 0, 0, 9, 4, 9, 9, 1, 7, 0, 0, 0, 0, 0],
    ];
    assert!(sound.iter().all(|bytes| Message::decode(bytes).is_ok()), "the same without the contradiction");
    for (why, bytes) in refused {
        assert!(Message::decode(bytes).is_err(), "{why}");
    }
}

/// Whatever raft-rs can send has a kind here, but for what is not forwarded.
#[test]
fn every_kind_that_travels_has_a_number() {
    let kinds = [
        Kind::Append,
        Kind::AppendResponse,
        Kind::Vote,
        Kind::VoteResponse,
        Kind::PreVote,
        Kind::PreVoteResponse,
        Kind::Heartbeat,
        Kind::HeartbeatResponse,
        Kind::Snapshot,
        Kind::TimeoutNow,
    ];
    for kind in kinds {
        assert_eq!((Kind::of(kind.to_raft()), Kind::of_tag(kind.tag())), (Some(kind), Some(kind)));
    }
    assert_eq!(Kind::of(MessageType::MsgPropose), None);
    assert_eq!(Kind::of(MessageType::MsgReadIndex), None);
}

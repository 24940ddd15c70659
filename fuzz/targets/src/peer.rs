//! Messages of peers under bytes that no peer would send, and a group that takes what can be read of them.

use shardine_consensus::{Group, Keep, Message, Options, Restored, Role};
use shardine_model::ReplicaId;
use shardine_model::codec::Reader;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership, SnapshotMeta};

/// The replica that is written to.
const OWN: ReplicaId = ReplicaId(2);

/// Messages, each behind its length, to a follower with a log, to a leader, and to one that has nothing yet. What was read is
/// written and read again to the same message.
pub fn peer_message(data: &[u8]) {
    let mut groups = [follower(), leader(), newcomer()].map(Some);
    let mut reader = Reader::new(data);
    while let Ok(bytes) = reader.bytes("message") {
        let Ok(message) = Message::decode(bytes) else { continue };
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(Message::decode(&written).as_ref(), Ok(&message), "a message must not change by being passed on");
        for place in &mut groups {
            if let Some(group) = place {
                group.step(message.clone());
                group.tick();
                let goes_on = drain(group);
                place.take_if(|_| !goes_on);
            }
        }
    }
}

/// Lets a group do what it has to. False if it met a change of members that it cannot read, over which a replica stops.
fn drain(group: &mut Group) -> bool {
    while let Some(ready) = group.ready() {
        group.persisted(ready.number);
        for entry in ready.committed {
            if entry.kind == LogEntryKind::Membership && group.apply_membership(&entry).is_err() {
                return false;
            }
            group.applied(entry.index);
            group.trim(entry.index, Keep { entries: 2, bytes: u64::MAX });
        }
    }
    true
}

fn follower() -> Group {
    let entry = |index: u64| LogEntry { index, term: index / 2 + 1, kind: LogEntryKind::Normal, data: "x".into() };
    let membership = Membership::of([1, 2, 3].map(ReplicaId));
    let restored = Restored {
        snapshot: SnapshotMeta { membership, ..SnapshotMeta::default() },
        hard_state: HardState { term: 4, vote: ReplicaId(1), commit: 3 },
        entries: (1..=6).map(entry).collect(),
    };
    let mut group = Group::new(options(), restored);
    drain(&mut group);
    group
}

fn leader() -> Group {
    let mut group = follower();
    group.campaign();
    drain(&mut group);
    for (kind, term) in [(PRE_VOTE_RESPONSE, group.term() + 1), (VOTE_RESPONSE, group.term() + 1)] {
        let granted = [1, kind, 1, OWN.0 as u8, term as u8, 0, 0, 0, 0, 0, 0];
        group.step(Message::decode(&granted).expect("a vote"));
        drain(&mut group);
    }
    assert_eq!(group.role(), Role::Leader);
    group
}

const VOTE_RESPONSE: u8 = 4;
const PRE_VOTE_RESPONSE: u8 = 6;

fn newcomer() -> Group {
    Group::new(options(), Restored::default())
}

fn options() -> Options {
    Options { id: OWN, shard: 1, incarnation: 1, seed: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else fuzzing would begin with nothing.
    #[test]
    fn the_stored_messages_can_be_read() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/peer_message");
        for file in std::fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                let message = Message::decode(reader.bytes("message").unwrap());
                assert!(message.is_ok(), "{}: {message:?}", path.display());
            }
        }
    }
}

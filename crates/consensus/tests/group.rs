//! A Raft group as a pure step function: the same calls give the same outcome, and nothing is promised before the disk has it.

use shardine_consensus::{Group, Message, Options, Ready, Restored, Role};
use shardine_model::ReplicaId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership, SnapshotMeta};

fn restored(voters: &[u64]) -> Restored {
    let membership = Membership::of(voters.iter().copied().map(ReplicaId));
    Restored { snapshot: SnapshotMeta { membership, ..Default::default() }, ..Default::default() }
}

fn group(id: u64, seed: u64, voters: &[u64]) -> Group {
    Group::new(Options { id: ReplicaId(id), shard: 1, incarnation: 1, seed }, restored(voters))
}

/// Everything a group has ready, with its disk confirming at once.
fn drain(group: &mut Group) -> Vec<Ready> {
    let mut all = Vec::new();
    while let Some(ready) = group.ready() {
        group.persisted(ready.number);
        if let Some(last) = ready.committed.last() {
            group.applied(last.index);
        }
        all.push(ready);
    }
    all
}

fn leading_alone() -> Group {
    let mut group = group(1, 0, &[1]);
    group.campaign();
    drain(&mut group);
    assert_eq!(group.role(), Role::Leader);
    group
}

#[test]
fn nothing_is_committed_before_it_is_on_disk() {
    let mut group = leading_alone();
    group.propose(b"x".to_vec()).unwrap();

    let ready = group.ready().unwrap();
    let early: Vec<LogEntry> = std::iter::from_fn(|| group.ready()).flat_map(|ready| ready.committed).collect();
    group.persisted(ready.number);
    let then: Vec<LogEntry> = std::iter::from_fn(|| group.ready()).flat_map(|ready| ready.committed).collect();

    assert!(ready.must_sync, "an entry is a promise");
    assert!(ready.committed.is_empty() && early.is_empty(), "not on disk, not committed");
    assert_eq!(then.len(), 1);
    assert_eq!(then[0].data, &b"x"[..]);
}

/// What a replica finds on its disk, with a commit index that was never written.
fn found_on_disk(voters: &[u64], kinds: &[LogEntryKind]) -> Group {
    let entry =
        |(index, kind): (u64, &LogEntryKind)| LogEntry { index, term: 1, kind: *kind, data: (&b"x"[..]).into() };
    let entries = (1..).zip(kinds).map(entry).collect();
    let hard_state = HardState { term: 1, vote: ReplicaId(1), commit: 0 };
    Group::new(
        Options { id: ReplicaId(1), shard: 1, incarnation: 2, seed: 0 },
        Restored { hard_state, entries, ..restored(voters) },
    )
}

#[test]
fn what_a_lone_replica_has_on_disk_is_committed_without_an_election() {
    let mut alone = found_on_disk(&[1], &[LogEntryKind::Normal; 3]);

    assert_eq!(drain(&mut alone).into_iter().flat_map(|ready| ready.committed).count(), 3);
    assert_eq!(alone.role(), Role::Follower);
}

#[test]
fn what_one_of_three_has_on_disk_or_one_whose_log_changes_members_is_not() {
    let mut one_of_three = found_on_disk(&[1, 2, 3], &[LogEntryKind::Normal; 3]);
    let changing = found_on_disk(&[1], &[LogEntryKind::Normal, LogEntryKind::Membership, LogEntryKind::Normal]);

    assert_eq!(drain(&mut one_of_three).into_iter().flat_map(|ready| ready.committed).count(), 0);
    assert_eq!(changing.commit(), 0);
}

#[test]
fn a_vote_leaves_only_when_it_is_on_disk() {
    let mut candidate = group(1, 0, &[1, 2, 3]);
    candidate.campaign();
    let messages =
        drain(&mut candidate).into_iter().flat_map(|ready| [ready.messages, ready.persisted_messages].concat());
    let to_second: Vec<Message> = messages.filter(|message| message.to() == ReplicaId(2)).collect();
    let mut voter = group(2, 0, &[1, 2, 3]);
    // The first round only asks whether a vote would be given; the second one takes it.
    let granted = exchange(&mut candidate, &mut voter, to_second);

    let vote =
        granted.iter().find(|ready| ready.hard_state.is_some_and(|state| state.vote == ReplicaId(1))).expect("a vote");

    assert!(vote.must_sync);
    assert!(vote.messages.is_empty(), "what a vote promises waits for the disk");
    assert!(!vote.persisted_messages.is_empty());
}

/// Carries messages to and fro until none is left; gives what the second group had ready.
fn exchange(first: &mut Group, second: &mut Group, mut to_second: Vec<Message>) -> Vec<Ready> {
    let mut seen = Vec::new();
    while !to_second.is_empty() {
        to_second.into_iter().for_each(|message| second.step(message));
        let ready = drain(second);
        let back = ready.iter().flat_map(|ready| [ready.messages.clone(), ready.persisted_messages.clone()].concat());
        let back: Vec<Message> = back.filter(|message| message.to() == first.id()).collect();
        back.into_iter().for_each(|message| first.step(message));
        seen.extend(ready);
        let forth = drain(first).into_iter().flat_map(|ready| [ready.messages, ready.persisted_messages].concat());
        to_second = forth.filter(|message| message.to() == second.id()).collect();
    }
    seen
}

/// records 69: the one random thing in raft-rs, the election timeout, is a function of the group's own numbers.
#[test]
fn the_same_seed_stands_for_election_at_the_same_tick() {
    let ticks_until_candidate = |seed: u64| {
        let mut group = group(1, seed, &[1, 2, 3]);
        (1..100).find(|_| {
            group.tick();
            drain(&mut group);
            group.role() == Role::Candidate
        })
    };

    let twice: Vec<_> = (0..20).map(|seed| (ticks_until_candidate(seed), ticks_until_candidate(seed))).collect();

    assert!(twice.iter().all(|(first, again)| first.is_some() && first == again));
    assert!(twice.iter().any(|(first, _)| *first != twice[0].0), "but not every seed at the same one");
}

#[test]
fn a_replica_comes_back_with_its_log() {
    let entry = |index: u64| LogEntry { index, term: 3, kind: LogEntryKind::Normal, data: vec![index as u8].into() };
    let mut back = restored(&[1]);
    back.snapshot.index = 4;
    back.snapshot.term = 2;
    back.entries = vec![entry(5), entry(6)];
    // The commit index is written lazily: it may be behind the log, or, after a lost tail, ahead of it.
    for commit in [0, 5, 99] {
        back.hard_state = HardState { term: 3, vote: ReplicaId(1), commit };
        let mut group = Group::new(Options { id: ReplicaId(1), shard: 1, incarnation: 2, seed: 0 }, back.clone());

        group.campaign();
        let committed: Vec<u64> =
            drain(&mut group).into_iter().flat_map(|ready| ready.committed).map(|entry| entry.index).collect();

        assert_eq!(committed, [5, 6, 7], "the log, and the new leader's own entry");
        assert!(group.term() > 3);
    }
}

#[test]
fn a_follower_asks_nobody() {
    assert!(!group(2, 0, &[1, 2, 3]).read_index(1));
}

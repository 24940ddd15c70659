//! Handing the lead over, and no longer believing in a leader.

mod net;

use net::Net;
use shardine_consensus::{MembershipChange, Refused, Role, Step, TransferRefused, WhyRefused};
use shardine_model::ReplicaId;

#[test]
fn the_lead_goes_to_whom_it_is_given() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");

    net.node(1).group.transfer_leader(ReplicaId(3)).unwrap();
    net.settle();

    assert_eq!(net.leader(), 3);
    net.write("two");
    net.assert_same(&[1, 2, 3]);
}

/// A transfer that fails leaves nothing behind.
#[test]
fn nothing_is_proposed_while_the_lead_is_handed_over_and_the_data_comes_back() {
    let mut net = Net::of(&[1, 2, 3]);
    net.cut_off(3);
    net.node(1).group.transfer_leader(ReplicaId(3)).unwrap();
    let last = net.nodes[&1].group.last_index();

    let refused = net.node(1).group.propose(b"one".to_vec());

    assert_eq!(refused, Err(Refused { why: WhyRefused::HandingOver, data: b"one".to_vec() }));
    assert_eq!((net.nodes[&1].group.transferee(), net.nodes[&1].group.last_index()), (Some(ReplicaId(3)), last));
    net.tick(15);
    assert_eq!((net.nodes[&1].group.transferee(), net.leader()), (None, 1), "the heir was silent for too long");
    net.write("one");
    assert_eq!(net.nodes[&2].lines, [b"one"]);
}

#[test]
fn one_that_does_not_lead_proposes_nothing_and_hands_nothing_over() {
    let mut net = Net::of(&[1, 2, 3]);
    let follower = &mut net.node(2).group;

    assert_eq!(follower.propose(b"x".to_vec()).map_err(|refused| refused.why), Err(WhyRefused::NotLeader));
    assert_eq!(follower.transfer_leader(ReplicaId(3)), Err(TransferRefused::NotLeader));
    assert_eq!(follower.pulse(), None);
    assert!(follower.progress().is_empty() && follower.heirs().is_empty());
}

/// reliability I6, F28: suspicion makes every replica stand that followed the lost leader. One that learns would be voted for by
/// those who do not know that it has no vote, and lead for ever; one that has nothing yet would count itself a majority of nobody.
#[test]
fn one_without_a_vote_does_not_stand() {
    let mut net = Net::of(&[1, 2, 3]);
    net.begin_empty(4);
    net.begin_empty(5);
    net.node(1).group.propose_membership(&MembershipChange::Simple(Step::Learn(ReplicaId(4)))).unwrap();
    net.write("one");
    net.cut_off(1);
    [2, 3, 4].into_iter().for_each(|id| net.node(id).group.forget_leader());

    [4, 5].into_iter().for_each(|id| net.node(id).group.campaign());
    net.settle();

    assert_eq!([4, 5].map(|id| net.nodes[&id].group.role()), [Role::Follower; 2]);
    net.node(2).group.campaign();
    net.settle();
    assert_eq!(net.nodes[&2].group.role(), Role::Leader);
}

#[test]
fn the_lead_is_given_to_a_voter_that_stays() {
    let mut net = Net::of(&[1, 2, 3]);
    net.begin_empty(4);
    net.node(1).group.propose_membership(&MembershipChange::Simple(Step::Learn(ReplicaId(4)))).unwrap();
    net.settle();
    let leader = &mut net.node(1).group;

    for to in [1, 4, 9] {
        assert_eq!(leader.transfer_leader(ReplicaId(to)), Err(TransferRefused::NoHeir(ReplicaId(to))));
    }
}

/// Who was heard of, and has most of the log, is asked first.
#[test]
fn heirs_are_ranked_by_what_they_have() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.cut_off(2);
    net.write("two");

    let heirs = net.nodes[&1].group.heirs();

    assert_eq!(heirs, [ReplicaId(3), ReplicaId(2)]);
    assert_eq!(net.nodes[&1].group.progress().len(), 2);
    assert!(net.progress_of(3).matched > net.progress_of(2).matched);
}

/// Check-quorum makes followers deaf to calls for votes while they believe in a leader.
#[test]
fn who_forgets_its_leader_hears_others_call_for_votes() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.cut_off(1);
    net.node(2).group.campaign();
    net.settle();
    assert_ne!(net.leader(), 2, "the third believes in its leader, and does not hear");

    net.node(3).group.forget_leader();
    net.node(2).group.campaign();
    net.settle();

    assert_eq!(net.leader(), 2);
    net.join(1);
    net.tick(3);
    net.assert_same(&[1, 2, 3]);
}

/// A wrong suspicion costs nothing where nobody stands for election: the leader's next word is believed.
#[test]
fn a_leader_that_lives_is_believed_again() {
    let mut net = Net::of(&[1, 2, 3]);
    let term = net.nodes[&2].group.term();

    net.node(2).group.forget_leader();
    assert_eq!(net.nodes[&2].group.leader(), None);
    net.tick(3);

    assert_eq!((net.nodes[&2].group.leader(), net.nodes[&2].group.term()), (Some(ReplicaId(1)), term));
    net.node(1).group.forget_leader();
    assert_eq!(net.nodes[&1].group.role(), Role::Leader, "a leader does not doubt itself");
}

/// Repeated calls for votes while the first are not answered do no harm.
#[test]
fn an_heir_may_repeat_its_call() {
    let mut net = Net::of(&[1, 2, 3]);
    let term = net.nodes[&2].group.term();
    net.cut_off(1);
    net.node(2).group.forget_leader();
    for _ in 0..5 {
        net.node(2).group.campaign();
        net.settle();
    }
    assert_eq!(net.nodes[&2].group.term(), term, "asking whether one would be elected costs no term");

    net.node(3).group.forget_leader();
    net.node(2).group.campaign();
    net.settle();

    assert_eq!((net.leader(), net.nodes[&2].group.term()), (2, term + 1));
}

/// The leader's real commit index travels, also to one that lacks the entries, whom raft-rs tells of what it has.
#[test]
fn a_leaders_messages_say_what_is_really_committed() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.cut_off(3);
    net.write("two");
    net.write("three");
    let committed = net.nodes[&1].group.commit();
    net.sent.clear();

    net.tick(4);

    let to_third = |line: &&String| line.starts_with("MsgHeartbeat ") && line.contains("->3 ");
    let beat = net.sent.iter().find(to_third).expect("a heartbeat");
    assert!(beat.ends_with(&format!("l{committed}")), "{beat}");
    assert!(!beat.contains(&format!("c{committed} ")), "raft-rs says only what the third has: {beat}");
    assert_eq!(net.nodes[&1].group.pulse().map(|pulse| pulse.committed), Some(committed));
}

/// A group that rests says a quarter of what it would say, keeps its leader, and is awake as soon as it is wanted.
#[test]
fn a_group_that_nobody_wants_anything_of_says_little() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    let said = |net: &mut Net| {
        net.sent.clear();
        net.tick(80);
        net.sent.len()
    };
    net.tick(10);
    let term = net.nodes[&2].group.term();

    let (first, resting) = (said(&mut net), said(&mut net));

    assert!(first > 80, "{first} messages while it falls asleep");
    assert_eq!(resting, 80 / 2 / 4 * 4, "two heartbeats and their answers at a quarter of the pace");
    net.write("two");
    net.assert_same(&[1, 2, 3]);
    assert!(said(&mut net) > 80, "it is awake again");
    net.tick(1_000);
    assert_eq!((net.leader(), net.nodes[&2].group.term()), (1, term));
}

/// One that comes back does not know that the others rest, and does not take its leader for lost.
#[test]
fn one_that_is_awake_hears_a_resting_leader_in_time() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.tick(200);
    let term = net.nodes[&1].group.term();

    for life in 0..20 {
        net.restart(2 + life % 2);
        net.tick(37);
    }

    assert_eq!((net.leader(), net.nodes[&1].group.term()), (1, term));
    net.write("two");
    net.assert_same(&[1, 2, 3]);
}

/// Where nobody suspects the node of a leader that says nothing any more, its followers notice by themselves.
#[test]
fn a_resting_group_misses_its_leader() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.tick(200);

    net.cut_off(1);
    net.tick(4 * 20 + 40);

    assert_ne!(net.leader(), 1);
    net.write("two");
    assert_eq!(net.nodes[&2].lines, net.nodes[&3].lines);
}

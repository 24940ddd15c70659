//! Changes of members: learners, joint configurations, leaders that leave, snapshots and restarts in the middle of it.

mod net;

use net::{Net, ids};
use shardine_consensus::{ChangeRefused, MembershipChange, ProgressState, Removed, Role, Step};
use shardine_model::ReplicaId;
use shardine_model::log::{LogEntryKind, Membership};

fn learn(id: u64) -> MembershipChange {
    MembershipChange::Simple(Step::Learn(ReplicaId(id)))
}

fn vote(id: u64) -> Step {
    Step::Vote(ReplicaId(id))
}

fn remove(id: u64) -> Step {
    Step::Remove(ReplicaId(id))
}

/// Proposes a change to the leader without letting it go round.
fn propose(net: &mut Net, change: &MembershipChange) -> u64 {
    let leader = net.leader();
    net.node(leader).group.propose_membership(change).expect("a leader takes it").index
}

fn change(net: &mut Net, change: &MembershipChange) {
    propose(net, change);
    net.settle();
}

/// A group of three with a fourth replica that learns from them.
fn with_learner() -> Net {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    net.begin_empty(4);
    change(&mut net, &learn(4));
    net.tick(3);
    net
}

/// Stops at the moment at which all of these have applied the joint configuration and none has left it.
fn stop_joint(net: &mut Net, members: &[u64]) {
    let is_joint = |net: &Net| members.iter().all(|id| net.nodes[id].group.membership().is_joint());
    assert!(net.settle_until(is_joint), "it came to a joint configuration");
}

/// Learner, catch up, joint consensus, remove; here the leader itself is the one that goes.
#[test]
fn a_replica_takes_the_leaders_place_and_the_leader_goes() {
    let mut net = with_learner();
    net.write("caught up");
    net.assert_same(&[1, 2, 3, 4]);
    let learned = net.progress_of(4);
    assert_eq!((learned.matched, learned.state), (net.nodes[&1].applied, ProgressState::Replicate));
    assert!(net.nodes[&1].group.membership().learners.contains(&ReplicaId(4)));

    change(&mut net, &MembershipChange::Joint(vec![vote(4), remove(1)]));

    let settled = Membership::of(ids(&[2, 3, 4]));
    for id in [1, 2, 3, 4] {
        assert_eq!(*net.nodes[&id].group.membership(), settled, "the joint configuration was left on {id}");
    }
    assert_eq!(net.nodes[&1].group.role(), Role::Follower, "it has no vote, and leads nobody");
    assert!(net.nodes[&1].group.removed().is_some());
    assert_ne!(net.leader(), 1, "an heir was told to stand at once, without waiting for a timeout");
    net.write("two");
    net.assert_same(&[2, 3, 4]);
    net.tick(60);
    assert_eq!(net.nodes[&1].group.role(), Role::Follower, "it never stands for election again");
}

#[test]
fn the_index_of_the_change_goes_with_the_membership() {
    let mut net = Net::of(&[1, 2, 3]);
    assert_eq!(net.nodes[&1].group.conf_index(), 0, "the founders' membership is in no entry");
    net.begin_empty(4);

    let index = propose(&mut net, &learn(4));
    net.settle();
    net.tick(3);

    for id in [1, 2, 3, 4] {
        assert_eq!(net.nodes[&id].group.conf_index(), index, "on {id}");
    }
    assert_eq!(net.nodes[&4].snapshot_on_disk().conf_index, index, "the learner has it from the snapshot that it got");
}

/// A new replica does not know the founders: their membership is in no entry. The log from its beginning would tell it of
/// changes to a membership that it does not have.
#[test]
fn whoever_joins_begins_with_a_snapshot_though_the_log_reaches_back() {
    let mut net = with_learner();

    assert!(net.sent.iter().any(|line| line.starts_with("MsgSnapshot") && line.contains("->4")));
    assert_eq!(net.nodes[&4].group.membership().voters, ids(&[1, 2, 3]));
    // Also after the leader has come back with its whole log.
    net.restart(1);
    net.tick(30);
    net.begin_empty(5);
    change(&mut net, &learn(5));
    net.tick(5);
    net.assert_same(&[1, 2, 3, 4, 5]);
}

/// A snapshot that was cut before somebody joined does not name him, and he would not take it.
#[test]
fn a_snapshot_from_before_is_not_offered_to_one_who_joins() {
    let mut net = with_learner();
    let leader = net.leader();
    net.node(leader).offer_snapshot();
    net.begin_empty(5);

    change(&mut net, &learn(5));
    net.tick(5);

    net.assert_same(&[1, 2, 3, 4, 5]);
}

#[test]
fn a_joint_configuration_needs_both_majorities() {
    let mut net = with_learner();
    propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(2), remove(3)]));
    stop_joint(&mut net, &[1]);
    assert!(!net.nodes[&1].group.is_alone());
    assert_eq!(net.nodes[&1].group.membership().outgoing, ids(&[1, 2, 3]));
    // 1 and 4 are all of the new configuration, and no majority of the old one.
    net.cut_off(2);
    net.cut_off(3);

    net.settle();
    let lines = net.nodes[&1].lines.len();
    net.write("two");

    assert_eq!(net.nodes[&1].lines.len(), lines, "not committed by the new configuration alone");
    assert!(net.nodes[&1].group.membership().is_joint());
    net.join(2);
    net.tick(10);
    assert_eq!(net.nodes[&1].lines.len(), lines + 1);
    assert_eq!(net.nodes[&1].group.membership().voters, ids(&[1, 4]));
    assert!(!net.nodes[&1].group.membership().is_joint());
}

/// issue 10: going from three to one, the last one is alone only when the others' configuration is left.
#[test]
fn nobody_is_alone_while_outgoing_voters_count() {
    let mut net = Net::of(&[1, 2, 3]);
    propose(&mut net, &MembershipChange::Joint(vec![remove(2), remove(3)]));
    stop_joint(&mut net, &[1]);

    assert_eq!(net.nodes[&1].group.membership().voters, ids(&[1]));
    assert!(!net.nodes[&1].group.is_alone());
    net.settle();
    assert!(net.nodes[&1].group.is_alone());
}

/// issue 10: a learner needs the log as a voter does.
#[test]
fn one_with_a_learner_is_not_alone_and_keeps_its_log() {
    let mut net = Net::of(&[1]);
    net.write("one");
    net.begin_empty(2);
    change(&mut net, &learn(2));
    net.tick(3);
    assert!(!net.nodes[&1].group.is_alone());
    net.cut_off(2);
    for number in 0..5 {
        net.write(&format!("line {number}"));
    }
    net.sent.clear();

    net.join(2);
    net.tick(5);

    net.assert_same(&[1, 2]);
    assert!(!net.sent.iter().any(|line| line.starts_with("MsgSnapshot")), "{:?}", net.sent);
}

#[test]
fn a_snapshot_carries_a_joint_configuration() {
    let mut net = with_learner();
    net.keep = 0;
    net.cut_off(3);
    propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(1)]));
    stop_joint(&mut net, &[1, 2]);
    // Nobody leaves it while 2 is silent: the outgoing voters have no majority.
    net.cut_off(2);
    net.settle();
    let leader = &net.nodes[&1].group;
    let (joint, conf_index) = (leader.membership().clone(), leader.conf_index());
    assert!(joint.is_joint());

    // The log no longer reaches back to where 3 stands.
    net.join(3);
    net.tick(5);
    let snapshot = net.nodes[&3].snapshot_on_disk().clone();

    assert_eq!((snapshot.membership, snapshot.conf_index), (joint, conf_index));
    net.join(2);
    net.tick(30);
    assert_eq!(*net.nodes[&2].group.membership(), Membership::of(ids(&[2, 3, 4])));
    net.assert_same(&[2, 3, 4]);
}

/// All of them lose what is not on disk in the middle of a joint configuration; whoever leads then leaves it.
#[test]
fn a_restart_in_the_middle_of_a_joint_configuration_ends_it() {
    let mut net = with_learner();
    propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(1)]));
    stop_joint(&mut net, &[1, 2]);
    net.lose_wire();

    [1, 2, 3, 4].into_iter().for_each(|id| net.restart(id));
    net.tick(60);

    let leader = net.leader();
    assert_ne!(leader, 1);
    assert_eq!(*net.nodes[&leader].group.membership(), Membership::of(ids(&[2, 3, 4])));
    net.write("two");
    net.assert_same(&[2, 3, 4]);
}

/// Cut anywhere between the proposal and the end, with everybody losing what is not on disk, the change is there whole
/// or not at all, and the group goes on.
#[test]
fn a_change_survives_a_restart_at_every_step() {
    for steps in 0..40u32 {
        let mut net = with_learner();
        propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(3)]));
        let left = std::cell::Cell::new(steps);
        net.settle_until(|_| left.replace(left.get().saturating_sub(1)) == 0);
        net.lose_wire();

        [1, 2, 3, 4].into_iter().for_each(|id| net.restart(id));
        net.tick(60);
        net.write("two");
        net.tick(5);

        let leader = net.leader();
        let membership = net.nodes[&leader].group.membership().clone();
        let before = Membership { learners: ids(&[4]), ..Membership::of(ids(&[1, 2, 3])) };
        let after = Membership::of(ids(&[1, 2, 4]));
        assert!([before, after].contains(&membership), "after {steps} steps: {membership:?}");
        net.assert_same(&[1, 2, 4]);
    }
}

/// Real processes: `a_lost_directory_never_comes_back_under_its_old_number` (cli). What a replica applies of its own disk when it starts
/// is applied before anybody writes for it: one that waited for a write then would never speak again.
#[test]
fn a_change_that_the_disk_knows_is_committed_needs_no_write_at_the_next_start() {
    let mut net = with_learner();
    change(&mut net, &MembershipChange::Joint(vec![vote(4), remove(3)]));
    net.write("one");
    net.tick(5);

    net.restart(1);

    let committed = net.nodes[&1].commit_on_disk();
    let ready = net.nodes.get_mut(&1).unwrap().group.ready().unwrap();
    assert!(ready.committed.iter().any(|entry| entry.kind != LogEntryKind::Normal && entry.index <= committed));
    assert_eq!((ready.hard_state, ready.entries.len()), (None, 0));
}

/// Whoever has the next change on disk has with it that the one before was committed. Else it could come back, stand for
/// election under the configuration before both, and be elected by those who were removed.
#[test]
fn a_change_on_disk_says_that_the_one_before_was_committed() {
    let mut net = with_learner();
    let joint = propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(3)]));
    let leave = joint + 1;
    let has_leave = |net: &Net| net.nodes[&3].last_on_disk() >= leave;

    assert!(net.settle_until(has_leave));

    assert!(net.nodes[&3].commit_on_disk() >= joint, "{} of {joint}", net.nodes[&3].commit_on_disk());
    net.settle();
    for id in [1, 2, 4] {
        assert!(net.nodes[&id].commit_on_disk() >= joint, "on {id}");
    }
}

/// reliability F30: those who have left a configuration go for good as soon as it is settled. So whoever stays must not need them any
/// more, whatever it forgets in a crash: here the last one of three, at every moment from there on.
#[test]
fn whoever_stays_goes_on_alone_once_the_configuration_is_settled() {
    let mut net = Net::of(&[1, 2, 3]);
    net.write("one");
    propose(&mut net, &MembershipChange::Joint(vec![remove(2), remove(3)]));
    let is_settled = |net: &Net| {
        let group = &net.nodes[&1].group;
        *group.membership() == Membership::of(ids(&[1])) && group.is_conf_settled()
    };
    assert!(net.settle_until(is_settled));

    [2, 3].into_iter().for_each(|gone| net.cut_off(gone));
    net.lose_wire();
    net.restart(1);
    net.tick(60);

    assert_eq!(net.nodes[&1].group.role(), Role::Leader);
}

/// The same with two others: neither of those that stay may need whoever has left.
#[test]
fn a_configuration_is_settled_when_a_majority_will_remember_it() {
    let mut net = with_learner();
    propose(&mut net, &MembershipChange::Joint(vec![vote(4), remove(3)]));
    let is_settled = |net: &Net| {
        let group = &net.nodes[&1].group;
        *group.membership() == Membership::of(ids(&[1, 2, 4])) && group.is_conf_settled()
    };
    assert!(
        net.settle_until(is_settled) || {
            net.tick(5);
            is_settled(&net)
        }
    );
    let conf_index = net.nodes[&1].group.conf_index();

    let knowing = [1, 2, 4].into_iter().filter(|id| net.nodes[id].commit_on_disk() >= conf_index).count();
    assert!(knowing >= 2, "{knowing} of three know it");
}

/// A replica that was cut off while it was removed hears of it when it calls for votes.
#[test]
fn a_removed_voter_learns_of_it_when_it_calls_for_votes() {
    let mut net = Net::of(&[1, 2, 3]);
    net.cut_off(3);
    change(&mut net, &MembershipChange::Simple(remove(3)));
    let conf_index = net.nodes[&1].group.conf_index();
    assert_eq!(net.nodes[&3].group.removed(), None);

    net.join(3);
    net.tick(40);

    assert_eq!(net.nodes[&3].group.removed(), Some(Removed { conf_index }));
    assert_eq!(net.leader(), 1, "and nobody was disturbed by it");
}

/// One without a vote never calls for votes: it asks.
#[test]
fn a_removed_learner_learns_of_it_by_asking() {
    let mut net = with_learner();
    net.cut_off(4);
    change(&mut net, &MembershipChange::Simple(remove(4)));
    let conf_index = net.nodes[&1].group.conf_index();

    net.join(4);
    net.tick(40);

    assert_eq!(net.nodes[&4].group.removed(), Some(Removed { conf_index }));
}

/// One that is behind does not know of a member that has joined since, and must not turn it away.
#[test]
fn one_that_is_behind_turns_nobody_away() {
    let mut net = Net::of(&[1, 2, 3]);
    change(&mut net, &learn(9));
    net.cut_off(3);
    net.begin_empty(4);
    change(&mut net, &learn(4));
    net.tick(3);
    change(&mut net, &MembershipChange::Simple(vote(4)));
    assert!(!net.nodes[&3].group.membership().contains(ReplicaId(4)));
    net.cut_off(1);
    net.cut_off(2);
    net.join(3);

    net.tick(60);

    assert!(net.sent.iter().any(|line| line.starts_with("MsgRequestPreVote ") && line.contains("4->3")));
    assert!(!net.sent.iter().any(|line| line.starts_with("Excluded")));
    assert_eq!(net.nodes[&4].group.removed(), None);
    assert_eq!(net.nodes[&3].group.removed(), None);
}

#[test]
fn a_change_that_cannot_be_is_refused_and_leaves_nothing_in_the_log() {
    let mut net = Net::of(&[1, 2, 3]);
    let last = net.nodes[&1].group.last_index();
    let mut refusal = |id: u64, change: &MembershipChange| net.node(id).group.propose_membership(change).unwrap_err();

    let all_gone = refusal(1, &MembershipChange::Joint(vec![remove(1), remove(2), remove(3)]));
    let two_at_once = refusal(1, &MembershipChange::Simple(vote(0)));
    let not_joint = refusal(1, &MembershipChange::Leave);
    let no_leader = refusal(2, &learn(4));

    assert!(matches!(all_gone, ChangeRefused::Unfit(_)));
    assert!(matches!(two_at_once, ChangeRefused::Unfit(_)));
    assert!(matches!(not_joint, ChangeRefused::Unfit(_)));
    assert_eq!(no_leader, ChangeRefused::NotLeader);
    assert_eq!(net.nodes[&1].group.last_index(), last);
}

#[test]
fn one_change_at_a_time() {
    let mut net = Net::of(&[1, 2, 3]);
    propose(&mut net, &learn(4));

    let second = net.node(1).group.propose_membership(&learn(5));

    assert_eq!(second, Err(ChangeRefused::UnderWay));
    net.settle();
    change(&mut net, &learn(5));
    assert_eq!(net.nodes[&2].group.membership().learners, ids(&[4, 5]));
}

/// While a snapshot is on its way to a follower, the log behind it is kept: one snapshot is enough under load.
#[test]
fn the_log_behind_a_snapshot_on_its_way_is_kept() {
    let mut net = Net::of(&[1, 2, 3]);
    net.keep = 1;
    net.cut_off(3);
    for number in 0..10 {
        net.write(&format!("before {number}"));
    }
    // The snapshot is sent and takes its time; the others write on.
    net.hold(3);
    net.join(3);
    net.tick(5);
    assert!(net.sent.iter().any(|line| line.starts_with("MsgSnapshot")));
    for number in 0..10 {
        net.write(&format!("during {number}"));
    }

    net.release(3);
    net.tick(5);

    net.assert_same(&[1, 2, 3]);
    assert_eq!(net.sent.iter().filter(|line| line.starts_with("MsgSnapshot")).count(), 1);
}

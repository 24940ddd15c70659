//! Changes of members under replicas with records: who may read without asking, and what a snapshot says of the members.

use shardine_model::{Answer, ErrorCode, ReplicaId};
use shardine_shard::{MembershipChange, Step};

use crate::cluster::Cluster;

/// issue 10: going from three voters to one, the leader applies the joint configuration, in which it is the only new voter, and
/// is cut off. The outgoing voters are a majority of the old configuration: but only together with the new one.
fn joint_leader_reads_alone(mut cluster: Cluster) -> bool {
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    let remove = |id: u64| Step::Remove(ReplicaId(id));
    let change = MembershipChange::Joint(vec![remove(2), remove(3)]);
    cluster.on(1, |replica, actions| replica.change_members(&change, actions).expect("a leader takes it"));
    let is_joint = |cluster: &Cluster| cluster.node(1).group().membership().is_joint();
    assert!(cluster.settle_until(is_joint));
    cluster.cut_off(1);
    let reader = cluster.read(1, "kv:a");
    cluster.settle();
    cluster.answer(reader).is_some_and(|answer| matches!(answer, Answer::One(_)))
}

#[test]
fn a_joint_configuration_does_not_count_as_alone() {
    assert!(!joint_leader_reads_alone(Cluster::new()));
}

#[cfg(feature = "mutants")]
#[test]
fn outgoing_voters_that_are_not_counted_are_caught() {
    let mutant = Some(shardine_shard::Mutant::OutgoingNotCounted);

    assert!(joint_leader_reads_alone(Cluster::with(|options| options.mutant = mutant)));
}

/// When the joint configuration is left, the last one is alone, reads at once, and those that left know it.
#[test]
fn the_last_one_is_alone_when_the_others_have_left() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    let remove = |id: u64| Step::Remove(ReplicaId(id));
    let change = MembershipChange::Joint(vec![remove(2), remove(3)]);

    cluster.on(1, |replica, actions| replica.change_members(&change, actions).unwrap());
    cluster.settle();

    assert!(cluster.node(2).group().removed().is_some() && cluster.node(3).group().removed().is_some());
    cluster.cut_off(1);
    let reader = cluster.read(1, "kv:a");
    assert_eq!(cluster.version(reader), 1, "it needs nobody");
}

/// A leader that takes itself out tells its callers, and whoever leads next goes on.
#[test]
fn a_leader_that_is_removed_answers_those_who_wait() {
    let mut cluster = Cluster::new();
    let change = MembershipChange::Simple(Step::Remove(ReplicaId(1)));
    cluster.keep_busy(1, true);
    let gathered = cluster.submit(1, "set kv:a f=1");

    cluster.on(1, |replica, actions| replica.change_members(&change, actions).unwrap());
    cluster.settle();

    assert_eq!(cluster.answer(gathered), Some(&Answer::Failed(ErrorCode::NotLeader)), "certainly not executed");
    assert!(cluster.node(1).group().removed().is_some());
    assert_ne!(cluster.leader(), 1);
    let next = cluster.leader();
    let write = cluster.submit(next, "set kv:a f=2");
    cluster.settle();
    assert_eq!(cluster.version(write), 1);
}

/// reliability F28, I18: a replica that goes tells everybody who waits for it: what it proposed may yet be executed, what it has gathered
/// or was about to read was certainly not.
#[test]
fn a_replica_that_goes_answers_those_who_wait() {
    let mut cluster = Cluster::new();
    cluster.cut_off(1);
    let proposed = cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    let reader = cluster.read(1, "kv:a");
    cluster.keep_busy(1, true);
    let gathered = cluster.submit(1, "set kv:b f=1");

    cluster.on(1, |replica, actions| replica.retire(actions));

    assert_eq!(cluster.answer(proposed), Some(&Answer::Failed(ErrorCode::InDoubt)));
    assert_eq!(cluster.answer(reader), Some(&Answer::Failed(ErrorCode::NotLeader)));
    assert_eq!(cluster.answer(gathered), Some(&Answer::Failed(ErrorCode::NotLeader)));
}

/// A snapshot of a replica says who its members were when it was cut, and by which entry.
#[test]
fn a_snapshot_names_the_members_and_the_entry_that_made_them() {
    let mut cluster = Cluster::new();
    let change = MembershipChange::Simple(Step::Learn(ReplicaId(9)));
    cluster.on(1, |replica, actions| replica.change_members(&change, actions).unwrap());
    cluster.settle();
    let (membership, conf_index) = {
        let group = cluster.node(1).group();
        (group.membership().clone(), group.conf_index())
    };
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();

    cluster.on(1, |replica, _| replica.snapshot_now());
    cluster.settle();

    let meta = cluster.cut_metas.last().expect("a snapshot");
    assert!(conf_index > 0 && meta.index > conf_index);
    assert_eq!((&meta.membership, meta.conf_index), (&membership, conf_index));
}

//! What the leader of a group, whichever machine it holds, has to do for the operations of the map. A function of the map and of the
//! group as it is: whoever leads next finds the same, so nothing is lost with a leader.

use shardine_consensus::{Group, MembershipChange, Progress, Role, Step};
use shardine_meta::{Command, Map, Node, Operation, OperationId, Todo};
use shardine_model::{ConfVersion, ReplicaId, ShardId, Split};

/// Entries that a replica may be behind and count as up to date: the joint change and what is written meanwhile are no more.
const CAUGHT_UP_ENTRIES: u64 = 64;

/// One thing to do. Doing it twice, or too late, does no harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// To be proposed to the group.
    Change(MembershipChange),
    /// To be told to meta.
    Report(Box<Command>),
    /// The leader is about to lose its vote, or its node should not lead: somebody else should lead first.
    HandOver(ReplicaId),
    /// To be proposed to the group, and reported when it is known what came of it.
    Split(OperationId, Box<Split>),
}

/// What is to be done now for a group that is led here; to be asked at every tick, and when the map has changed.
#[must_use]
pub fn work_of(map: &Map, shard: ShardId, group: &Group) -> Option<Work> {
    let known = map.groups.get(&shard)?;
    if group.role() != Role::Leader || group.membership().is_joint() {
        return None;
    }
    if let Some(stray) = map.strays(shard, group.membership()).first() {
        return Some(Work::Change(MembershipChange::Simple(Step::Remove(*stray))));
    }
    // Those that founded a group are in no entry; the first map calls that version 1.
    let conf = ConfVersion(group.conf_index().max(1));
    let report = || {
        let membership = group.membership();
        let (voters, learners) = (membership.voters.clone(), membership.learners.clone());
        Work::Report(Box::new(Command::ConfChanged { shard, conf, voters, learners }))
    };
    // The map's word is what lets those go who have left.
    if conf > known.epoch.conf {
        return group.is_conf_settled().then(report);
    }
    if let Some(heir) = relief(map, shard, group) {
        return Some(Work::HandOver(heir));
    }
    let (id, replace) = match map.operation_on(shard)? {
        (id, Operation::Replace(replace)) => (id, replace),
        (id, Operation::Split(_, split)) => return Some(Work::Split(id, Box::new(split.clone()))),
    };
    match replace.todo(group.membership(), known) {
        Todo::Learn(replica) => Some(Work::Change(MembershipChange::Simple(Step::Learn(replica)))),
        Todo::Remove(replica) => Some(Work::Change(MembershipChange::Simple(Step::Remove(replica)))),
        Todo::WatchProgress(behind) => caught_up(id, &behind, group),
        Todo::Joint { vote, learn, remove } => Some(joint(group, &vote, &learn, &remove)),
        Todo::Report => Some(report()),
        Todo::Wait => None,
    }
}

/// Who should lead instead, where this replica's node should lead nothing: the best heir on a node that may, which is there and as
/// good as up to date. Where there is none this one goes on.
fn relief(map: &Map, shard: ShardId, group: &Group) -> Option<ReplicaId> {
    let may_lead = |replica: ReplicaId| {
        let node = map.node_of(shard, replica).and_then(|node| map.nodes.get(&node));
        node.is_some_and(Node::may_lead)
    };
    if may_lead(group.id()) {
        return None;
    }
    let followers = group.progress();
    let is_ready = |replica: &ReplicaId| {
        let is_there = |one: &Progress| {
            one.replica == *replica && one.is_active && one.matched + CAUGHT_UP_ENTRIES >= group.last_index()
        };
        may_lead(*replica) && followers.iter().any(is_there)
    };
    group.heirs().into_iter().find(is_ready)
}

/// One that is as good as up to date. What it is known to have on disk says so, whichever way it is being sent the rest: in an idle
/// group one that came by a snapshot is probed for ever.
fn caught_up(operation: OperationId, behind: &[ReplicaId], group: &Group) -> Option<Work> {
    let followers = group.progress();
    let is_close = |replica: &&ReplicaId| {
        let follower = followers.iter().find(|follower| follower.replica == **replica);
        // Not one that has nothing: a young group has few entries, and a snapshot before them.
        follower.is_some_and(|one| one.matched > 0 && one.matched + CAUGHT_UP_ENTRIES >= group.last_index())
    };
    let replica = *behind.iter().find(is_close)?;
    Some(Work::Report(Box::new(Command::CaughtUp { operation, replica })))
}

fn joint(group: &Group, vote: &[ReplicaId], learn: &[ReplicaId], remove: &[ReplicaId]) -> Work {
    let goes = |replica: &ReplicaId| learn.contains(replica) || remove.contains(replica);
    if goes(&group.id())
        && let Some(heir) = group.heirs().into_iter().find(|heir| !goes(heir))
    {
        return Work::HandOver(heir);
    }
    let votes = vote.iter().copied().map(Step::Vote);
    let learns = learn.iter().copied().map(Step::Learn);
    let removals = remove.iter().copied().map(Step::Remove);
    Work::Change(MembershipChange::Joint(votes.chain(learns).chain(removals).collect()))
}

//! How the members of groups change: operations begin, go on by what leaders report, and end.

use std::collections::BTreeSet;

use shardine_model::{ConfVersion, Descriptor, Epoch, ErrorCode, NodeId, Placement, Refusal, ReplicaId, ShardId};

use crate::change::Change;
use crate::limits::VOTERS_MAX;
use crate::operation::{Operation, OperationId, Replace, Stage};
use crate::reply::Reply;
use crate::state::{Meta, refused};

impl Meta {
    pub(super) fn replace(&mut self, shard: ShardId, replica: ReplicaId, node: NodeId) -> Result<Reply, Refusal> {
        let group = self.group(shard)?;
        let is_there = |placement: &Placement| placement.replica == replica;
        if !group.voters.iter().chain(&group.learners).any(is_there) {
            return refused(ErrorCode::NotFound, format!("shard {shard} has no replica {replica}"));
        }
        if group.voters.iter().chain(&group.learners).any(|placement| placement.node == node) {
            return refused(ErrorCode::BadRequest, format!("node {node} has a replica of shard {shard} already"));
        }
        let swapped = |list: &[Placement]| -> Vec<NodeId> {
            list.iter().map(|placement| if is_there(placement) { node } else { placement.node }).collect()
        };
        let (voters, learners, conf) = (swapped(&group.voters), swapped(&group.learners), group.epoch.conf);
        self.reconfigure(shard, conf, &voters, &learners)
    }

    pub(super) fn reconfigure(
        &mut self,
        shard: ShardId,
        conf: ConfVersion,
        voters: &[NodeId],
        learners: &[NodeId],
    ) -> Result<Reply, Refusal> {
        let group = self.group(shard)?.clone();
        match self.map.operation_on(shard) {
            Some((id, Operation::Replace(_))) => {
                return refused(ErrorCode::Busy, format!("operation {id} changes the members of shard {shard}"));
            }
            Some((id, Operation::Split(..))) => {
                return refused(ErrorCode::Busy, format!("operation {id} splits shard {shard}"));
            }
            None => {}
        }
        if group.epoch.conf != conf {
            let message =
                format!("the members of shard {shard} have changed: they are in version {}", group.epoch.conf);
            return refused(ErrorCode::VersionMismatch, message);
        }
        self.check_target(&group, voters, learners)?;
        let replace = Replace::new(&group, voters, learners, || self.next_replica(shard));
        if replace.is_reached(&group) {
            return Ok(Reply::Done);
        }
        let id = self.next_operation();
        self.publish(vec![Change::Operation(id, Operation::Replace(replace))]);
        Ok(Reply::Begun(id))
    }

    /// Whoever is new must be a member of the cluster that holds data; whoever stays may be on its way out.
    fn check_target(&self, group: &Descriptor, voters: &[NodeId], learners: &[NodeId]) -> Result<(), Refusal> {
        let all: BTreeSet<NodeId> = voters.iter().chain(learners).copied().collect();
        if voters.is_empty() || voters.len() > VOTERS_MAX || learners.len() > VOTERS_MAX {
            return refused(ErrorCode::BadRequest, format!("a group has 1 to {VOTERS_MAX} voters"));
        }
        if all.len() != voters.len() + learners.len() {
            return refused(ErrorCode::BadRequest, "a node holds one replica of a group");
        }
        let is_there = |node: NodeId| group.voters.iter().chain(&group.learners).any(|member| member.node == node);
        for node in all.into_iter().filter(|node| !is_there(*node)) {
            if !self.member(node)?.holds_data() {
                return refused(ErrorCode::BadRequest, format!("node {node} is a gateway and holds no data"));
            }
        }
        Ok(())
    }

    /// What the group's own log says is so, whether or not an operation wanted it.
    pub(super) fn conf_changed(
        &mut self,
        shard: ShardId,
        conf: ConfVersion,
        voters: &[ReplicaId],
        learners: &[ReplicaId],
    ) -> Result<Reply, Refusal> {
        let group = self.group(shard)?;
        if conf < group.epoch.conf {
            return Ok(Reply::Done);
        }
        let place = |replicas: &[ReplicaId]| -> Result<Vec<Placement>, Refusal> {
            let place = |&replica: &ReplicaId| match self.map.node_of(shard, replica) {
                Some(node) => Ok(Placement { node, replica }),
                None => refused(ErrorCode::BadRequest, format!("shard {shard} never had a replica {replica}")),
            };
            replicas.iter().map(place).collect()
        };
        let (voters, learners) = (place(voters)?, place(learners)?);
        let all: BTreeSet<ReplicaId> = voters.iter().chain(&learners).map(|member| member.replica).collect();
        if voters.is_empty() || all.len() != voters.len() + learners.len() {
            return refused(ErrorCode::BadRequest, "a group has voters, and nobody in it twice");
        }
        let epoch = Epoch { conf, ..group.epoch };
        let next = Descriptor { epoch, voters, learners, ..group.clone() };
        let mut changes = Vec::new();
        // A report may come again, and an operation may have waited for just that.
        if conf > group.epoch.conf {
            changes.push(Change::Group(next.clone()));
        }
        if let Some((id, Operation::Replace(known))) = self.map.operation_on(shard) {
            let mut replace = known.clone();
            let is_over = replace.note_members(&next);
            if is_over || replace != *known {
                changes.push(progress(id, replace, is_over));
            }
        }
        if !changes.is_empty() {
            self.publish(changes);
        }
        Ok(Reply::Done)
    }

    pub(super) fn caught_up(&mut self, id: OperationId, replica: ReplicaId) -> Result<Reply, Refusal> {
        // It is over, or was never: a report that comes late.
        let Some(Operation::Replace(replace)) = self.map.operations.get(&id) else { return Ok(Reply::Done) };
        if replace.stage != Stage::CatchingUp || !replace.behind.contains(&replica) {
            return Ok(Reply::Done);
        }
        let mut replace = replace.clone();
        let is_over = replace.note_caught_up(replica, &self.map.groups[&replace.shard]);
        self.publish(vec![progress(id, replace, is_over)]);
        Ok(Reply::Done)
    }

    pub(super) fn cancel(&mut self, id: OperationId) -> Result<Reply, Refusal> {
        let replace = match self.map.operations.get(&id) {
            Some(Operation::Replace(replace)) => replace,
            Some(Operation::Split(..)) => {
                return refused(ErrorCode::BadRequest, format!("operation {id} is a split, which ends by itself"));
            }
            None => return refused(ErrorCode::NotFound, format!("there is no operation {id}")),
        };
        if replace.stage == Stage::Joint {
            let message =
                format!("operation {id} is decided and cannot be given up: begin another one when it is over");
            return refused(ErrorCode::BadRequest, message);
        }
        let change = undone(id, replace);
        self.publish(vec![change]);
        Ok(Reply::Done)
    }

    /// Moves away from a node that are not decided yet, taken back.
    pub(super) fn take_back(&self, node: NodeId) -> impl Iterator<Item = Change> {
        let is_on = move |list: &[Placement]| list.iter().any(|placement| placement.node == node);
        let leaves = move |replace: &Replace| {
            let is_there = self.map.groups.get(&replace.shard).is_some_and(|group| is_on(&group.voters));
            is_there && !is_on(&replace.voters) && !is_on(&replace.learners)
        };
        let moves = self.map.operations.iter().filter_map(|(id, operation)| Some((*id, operation.replace()?)));
        let open = moves.filter(move |(_, replace)| replace.is_open() && leaves(replace));
        open.map(|(id, replace)| undone(id, replace))
    }

    pub(super) fn group(&self, shard: ShardId) -> Result<&Descriptor, Refusal> {
        match self.map.groups.get(&shard) {
            Some(group) => Ok(group),
            None => refused(ErrorCode::NotFound, format!("there is no shard {shard}")),
        }
    }
}

/// Also where nobody has been added as far as is known: the group's leader may be about to, and says at last that nobody is there.
fn undone(id: OperationId, replace: &Replace) -> Change {
    let replace = Replace { stage: Stage::Undoing, ..replace.clone() };
    let is_over = replace.new.is_empty();
    progress(id, replace, is_over)
}

fn progress(id: OperationId, replace: Replace, is_over: bool) -> Change {
    if is_over { Change::OperationOver(id) } else { Change::Operation(id, Operation::Replace(replace)) }
}

//! How shards of records are parted: the map gives the numbers, the shard's own log does it, and the map takes note of both halves
//! at once (sharding P-1).

use shardine_model::{
    Bound, Descriptor, Epoch, ErrorCode, GroupKind, Placement, Refusal, ReplicaId, ShardId, ShardState, Split,
    SplitMember,
};

use crate::change::Change;
use crate::limits::SHARDS_MAX;
use crate::operation::{Operation, OperationId};
use crate::reply::Reply;
use crate::state::{Meta, refused};

impl Meta {
    /// Begins a split, unless somebody has decided it by another map.
    pub(super) fn split(&mut self, shard: ShardId, epoch: Epoch, at: Bound) -> Result<Reply, Refusal> {
        let group = self.group(shard)?.clone();
        if shard.kind() != GroupKind::Records {
            return refused(ErrorCode::BadRequest, format!("{} holds no records and is not split", shard.label()));
        }
        match self.map.operation_on(shard) {
            Some((id, Operation::Split(_, known))) if known.at == at => return Ok(Reply::Begun(id)),
            Some((id, _)) => {
                return refused(ErrorCode::Busy, format!("operation {id} is under way on {}", shard.label()));
            }
            None => {}
        }
        if group.epoch != epoch {
            let Epoch { range, conf, .. } = group.epoch;
            let message =
                format!("{} has changed since: range version {range}, members in version {conf}", shard.label());
            return refused(ErrorCode::VersionMismatch, message);
        }
        if !group.bounds.is_parted_by(&at) {
            let message = format!("{} cannot be split there: the place is its edge, or outside of it", shard.label());
            return refused(ErrorCode::BadRequest, message);
        }
        if !at.is_between_positions() {
            return refused(ErrorCode::Unsupported, "a partition is not split inside");
        }
        let shards = self.map.groups.keys().filter(|shard| shard.kind() == GroupKind::Records).count();
        let Some(child) = self.next_shard().filter(|_| shards < SHARDS_MAX) else {
            return refused(ErrorCode::TooLarge, format!("{SHARDS_MAX} shards are the limit"));
        };
        let members = group.members().map(|member| SplitMember {
            node: member.node,
            parent: member.replica,
            child: self.next_replica(child),
        });
        let split = Split { child, at, epoch, members: members.collect() };
        let id = self.next_operation();
        self.publish(vec![Change::Operation(id, Operation::Split(shard, split))]);
        Ok(Reply::Begun(id))
    }

    /// What the shard's own log has made of it. A report that comes again finds nothing.
    pub(super) fn split_over(&mut self, id: OperationId, is_done: bool) -> Result<Reply, Refusal> {
        let Some(Operation::Split(shard, split)) = self.map.operations.get(&id) else { return Ok(Reply::Done) };
        let mut changes = Vec::new();
        if is_done {
            let (parent, child) = halves(self.group(*shard)?, split);
            changes.extend([Change::Group(parent), Change::Group(child)]);
        }
        changes.push(Change::OperationOver(id));
        self.publish(changes);
        Ok(Reply::Done)
    }

    /// A number that no shard has had.
    fn next_shard(&self) -> Option<ShardId> {
        let given = self.last.replicas.keys().chain(self.map.groups.keys());
        let last = given.filter(|shard| shard.kind() == GroupKind::Records).max()?;
        let next = ShardId(last.0 + 1);
        (next.kind() == GroupKind::Records).then_some(next)
    }
}

/// What has become of a shard: its left half, and the new one.
fn halves(whole: &Descriptor, split: &Split) -> (Descriptor, Descriptor) {
    let ((left, right), (parent_epoch, child_epoch)) = (split.halves(&whole.bounds), split.epochs());
    // Members that left meanwhile are no reason to think otherwise of the child, which has all of them.
    let is_learner = |replica: ReplicaId| whole.learners.iter().any(|learner| learner.replica == replica);
    let born = |learns: bool| {
        let members = split.members.iter().filter(move |member| is_learner(member.parent) == learns);
        members.map(|member| Placement { node: member.node, replica: member.child }).collect()
    };
    let epoch = Epoch { conf: whole.epoch.conf, ..parent_epoch };
    let parent = Descriptor { epoch, bounds: left, ..whole.clone() };
    let (voters, learners) = (born(false), born(true));
    let state = ShardState::default();
    (parent, Descriptor { shard: split.child, epoch: child_epoch, state, bounds: right, voters, learners })
}

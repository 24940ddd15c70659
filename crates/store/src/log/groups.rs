//! All groups that the log knows, and whose they are: each belongs to one replica, and a replica that was removed does not come
//! back. The same rules for whoever writes and for whoever reads again. No I/O.

use std::collections::BTreeMap;

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::HardState;

use super::group::Group;
use crate::error::Error;

/// Invariant: a shard is in one of the two maps at most. Replica numbers are never given again, so a live one is a tombstone for
/// all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) live: BTreeMap<ShardId, Group>,
    /// The last replica that was removed, where none has come since.
    pub(super) removed: BTreeMap<ShardId, ReplicaId>,
}

impl Groups {
    pub(super) fn get(&self, shard: ShardId) -> Option<&Group> {
        self.live.get(&shard)
    }

    /// The group, for a replica that writes to it. A new one is made.
    pub(super) fn claim(&mut self, shard: ShardId, replica: ReplicaId) -> Result<&mut Group, Error> {
        if !self.live.contains_key(&shard) {
            self.check_not_removed(shard, replica)?;
            self.removed.remove(&shard);
        }
        let group = self.live.entry(shard).or_insert_with(|| Group::new(replica));
        if group.replica == replica {
            Ok(group)
        } else {
            Err(Error::AnotherReplica { shard, replica, owner: group.replica })
        }
    }

    /// Begins a group anew behind a snapshot. A newer replica may take the place of an older one, which is thereby removed.
    pub(super) fn reset(
        &mut self,
        shard: ShardId,
        replica: ReplicaId,
        hard_state: HardState,
        index: u64,
    ) -> Result<(), Error> {
        match self.live.get(&shard) {
            Some(group) if group.replica > replica => {
                return Err(Error::AnotherReplica { shard, replica, owner: group.replica });
            }
            Some(_) => {}
            None => self.check_not_removed(shard, replica)?,
        }
        self.removed.remove(&shard);
        self.live.insert(shard, Group::behind(replica, hard_state, index));
        Ok(())
    }

    /// Leaves a tombstone. Returns whether anything changed: a newer replica is left alone.
    pub(super) fn remove(&mut self, shard: ShardId, replica: ReplicaId) -> bool {
        let known = self.live.get(&shard).map(|group| group.replica);
        let is_newer = known.is_some_and(|known| known > replica);
        let is_told = known.is_none() && self.removed.get(&shard).is_some_and(|removed| *removed >= replica);
        if is_newer || is_told {
            return false;
        }
        self.live.remove(&shard);
        self.removed.insert(shard, replica);
        true
    }

    /// From here on nothing is known of the group. What is told of its replica is the least that is certain.
    pub(super) fn lose(&mut self, shard: ShardId, replica: ReplicaId) {
        let known = self.live.get(&shard).map_or(replica, |group| group.replica);
        self.removed.remove(&shard);
        self.live.insert(shard, Group::lost(known));
    }

    fn check_not_removed(&self, shard: ShardId, replica: ReplicaId) -> Result<(), Error> {
        // Number 0 is nobody's, so it is removed everywhere.
        let removed = self.removed.get(&shard).copied().unwrap_or_default();
        if replica > removed { Ok(()) } else { Err(Error::ReplicaRemoved { shard, replica, removed }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn with_live(replica: u64) -> Groups {
        let mut groups = Groups::default();
        groups.claim(SHARD, ReplicaId(replica)).unwrap().append(1, 5);
        groups
    }

    /// reliability I8.
    #[test]
    fn a_log_belongs_to_one_replica() {
        let mut groups = with_live(7);

        assert!(groups.claim(SHARD, ReplicaId(7)).is_ok());
        for other in [6, 8] {
            let error = groups.claim(SHARD, ReplicaId(other)).unwrap_err();
            assert!(matches!(error, Error::AnotherReplica { owner: ReplicaId(7), .. }), "{error}");
        }
    }

    #[test]
    fn a_removed_replica_never_comes_back_and_a_later_one_does() {
        let mut groups = with_live(7);
        assert!(groups.remove(SHARD, ReplicaId(7)));
        assert!(!groups.remove(SHARD, ReplicaId(7)), "it is told once");

        for number in [0, 6, 7] {
            let claimed = groups.claim(SHARD, ReplicaId(number)).map(|_| ());
            let reset = groups.reset(SHARD, ReplicaId(number), HardState::default(), 9);
            for refused in [claimed, reset] {
                assert!(matches!(refused, Err(Error::ReplicaRemoved { removed: ReplicaId(7), .. })), "{number}");
            }
        }
        assert_eq!(groups.claim(SHARD, ReplicaId(8)).unwrap(), &Group::new(ReplicaId(8)));
        assert!(groups.removed.is_empty());
    }

    #[test]
    fn a_newer_replica_takes_the_place_of_an_older_one_behind_a_snapshot_only() {
        let mut groups = with_live(7);

        assert!(groups.reset(SHARD, ReplicaId(6), HardState::default(), 9).is_err());
        groups.reset(SHARD, ReplicaId(8), HardState::default(), 9).unwrap();

        assert!(groups.claim(SHARD, ReplicaId(7)).is_err());
        assert!(!groups.remove(SHARD, ReplicaId(7)), "a late removal does not hit it");
        assert_eq!(groups.claim(SHARD, ReplicaId(8)).unwrap().next, 10);
    }

    #[test]
    fn what_was_never_here_can_be_removed() {
        let mut groups = Groups::default();

        assert!(groups.remove(SHARD, ReplicaId(7)));

        assert!(groups.claim(SHARD, ReplicaId(7)).is_err());
    }
}

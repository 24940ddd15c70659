//! Promise: a replica's number belongs to one placement for ever. It lives on one node, and once a configuration is without it, none
//! has it again: whoever was removed has forgotten its vote (reliability I6, F30).

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::log::Membership;
use shardine_model::{NodeId, ReplicaId};

use crate::check::Violation;

pub const NAME: &str = "replica_numbers_are_used_once";

/// Of one group.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    places: BTreeMap<ReplicaId, NodeId>,
    present: BTreeSet<ReplicaId>,
    gone: BTreeSet<ReplicaId>,
}

impl Numbers {
    /// A node makes room for a replica.
    pub fn comes(&mut self, replica: ReplicaId, node: NodeId) -> Result<(), Violation> {
        match self.places.insert(replica, node) {
            Some(other) if other != node => {
                Err(Violation::new(NAME, format!("replica {replica} was on node {other}, and is to be on node {node}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The log has come to these members.
    pub fn members(&mut self, members: &Membership) -> Result<(), Violation> {
        let now: BTreeSet<ReplicaId> = members.members().collect();
        let left = self.present.difference(&now).copied();
        self.gone.extend(left);
        self.present = now;
        match self.present.intersection(&self.gone).next() {
            None => Ok(()),
            Some(replica) => Err(Violation::new(NAME, format!("replica {replica} was removed, and is a member again"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_back_is_seen() {
        let mut numbers = Numbers::default();
        let of = |ids: &[u64]| Membership::of(ids.iter().copied().map(ReplicaId));
        assert_eq!((numbers.members(&of(&[1, 2, 3])), numbers.members(&of(&[1, 2]))), (Ok(()), Ok(())));

        assert!(numbers.members(&of(&[1, 2, 3])).is_err());
    }

    #[test]
    fn a_number_on_two_nodes_is_seen() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.comes(ReplicaId(4), NodeId(7)), Ok(()));

        assert!(numbers.comes(ReplicaId(4), NodeId(8)).is_err());
    }
}

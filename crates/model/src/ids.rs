//! Identities. A number that names a thing has a type of its own, so that a shard is never taken for a table.

use std::fmt;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}
pub(crate) use identity;

identity!(
    /// A process that holds replicas. Zero means nobody.
    NodeId, u64
);
identity!(
    /// One placement of a shard on a node, for ever: a replica that was removed and comes back to the same node has another
    /// number, because it has forgotten its vote. This is what Raft knows its members by. Zero means nobody.
    ReplicaId, u64
);
identity!(
    /// A Raft group: one interval of positions, or one of those that hold coordination or the cluster's map. Its number
    /// tells which ([`ShardId::kind`]).
    ShardId, u32
);
identity!(
    /// A table. Never used again after the table is dropped.
    TableId, u32
);
identity!(
    /// A field of a table, from 1. Never used again after the field is dropped.
    FieldId, u16
);
identity!(
    /// A place in a group's log.
    LogIndex, u64
);
identity!(
    /// A client that numbers its requests, so that a repeated one is executed once.
    ClientId, u64
);

/// What a group's machine is. The ranges of numbers are frozen: they are in logs, snapshots and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    Records,
    Coordination,
    Meta,
}

impl ShardId {
    /// Coordination groups are numbered from here; shards of records stay below.
    pub const FIRST_COORDINATION: Self = Self(1 << 30);
    /// The group with the cluster's map. There is one.
    pub const META: Self = Self(1 << 31);

    #[must_use]
    pub fn kind(self) -> GroupKind {
        match self {
            shard if shard < Self::FIRST_COORDINATION => GroupKind::Records,
            shard if shard < Self::META => GroupKind::Coordination,
            _ => GroupKind::Meta,
        }
    }

    /// What people call the group: `shard 3`, `coordination`, `meta`. Only the first coordination group does without its number.
    #[must_use]
    pub fn label(self) -> String {
        match self.kind() {
            GroupKind::Records => format!("shard {self}"),
            GroupKind::Coordination if self == Self::FIRST_COORDINATION => "coordination".to_owned(),
            GroupKind::Coordination => format!("coordination {self}"),
            GroupKind::Meta => "meta".to_owned(),
        }
    }

    /// The group that somebody means who writes a number, `coordination` or `meta`.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "meta" => Some(Self::META),
            "coordination" => Some(Self::FIRST_COORDINATION),
            number => number.parse().ok().map(Self),
        }
    }
}

impl LogIndex {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A moment of the wall clock in milliseconds since 1970, stamped by a leader. Replicas never look at their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_called_as_they_are_named() {
        for (name, group, label) in [
            ("3", ShardId(3), "shard 3"),
            ("coordination", ShardId::FIRST_COORDINATION, "coordination"),
            ("1073741825", ShardId(ShardId::FIRST_COORDINATION.0 + 1), "coordination 1073741825"),
            ("meta", ShardId::META, "meta"),
        ] {
            assert_eq!(ShardId::named(name), Some(group));
            assert_eq!(group.label(), label);
        }
        assert_eq!(ShardId::named("shard 3"), None);
    }
}

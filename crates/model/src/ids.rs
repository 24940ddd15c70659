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

identity!(
    /// A process that holds replicas. Also the Raft id of each of its replicas. Zero means nobody.
    NodeId, u64
);
identity!(
    /// A shard: one interval of positions, one Raft group.
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

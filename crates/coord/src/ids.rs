//! Identities of coordination. Each is given once and never again, so a late word about a thing can never hit its successor.

use std::fmt;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

identity!(
    /// A coordination node within its group. One made again at the same path has another number.
    NodeNumber
);
identity!(
    /// A session of a node, from 1. Zero in a request means: a new one.
    SessionId
);
identity!(
    /// A semaphore of a node. One made again under the same name has another.
    SemaphoreId
);
identity!(
    /// A resource of a node's rate limiter. One made again under the same path has another.
    ResourceId
);
identity!(
    /// The number of an acquire within its node. Grows for the life of the node: a fencing token.
    OrderId
);

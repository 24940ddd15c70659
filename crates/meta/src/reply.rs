//! What a command is answered with when it was executed. One that was not is answered with a `Refusal`.

use std::sync::Arc;

use shardine_model::{NodeId, Table};

use crate::map::Place;
use crate::operation::OperationId;

/// How the refusal of a start begins that comes from a copy of a node's directory.
pub const OLD_COPY: &str = "old or second copy of this directory";

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    /// The number that was given, now or when the same was asked before.
    Node(NodeId),
    /// The operation that has begun.
    Begun(OperationId),
    /// The definition in force.
    Table(Arc<Table>),
    Place(Place),
}

//! What a command is answered with when it was executed. One that was not is answered with a `Refusal`.

use std::sync::Arc;

use shardine_model::{NodeId, Table};

use crate::map::Place;
use crate::operation::OperationId;

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

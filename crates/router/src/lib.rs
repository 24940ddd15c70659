//! The engine between doors and shards: what every door may ask (`Call`), what it gets (`Response`), and where a key lives.
//!
//! Nothing here knows how a thing is done. A door on a lane uses [`LocalEngine`], which answers reads on the spot; a door on
//! another thread uses [`RemoteEngine`], which carries owned calls to the right lane and brings the response back.

// In the order in which a newcomer should read them.
mod engine;
mod call;
mod coord;
mod shard_map;

mod cluster_map;
mod formation;

pub use call::{
    Bound, Call, DeadLetterLine, Difference, DifferenceKind, EngineStatus, Explanation, FieldSpec, FlushScope,
    Residence, Response, ScanCall, ScanPage, ScannedRow, ShardStatus, SortRange, SqlError, Switch, TableSpec,
    TableWriteback, VerifiedPage, VerifyCall, WritebackReport, WritebackStatus,
};
pub use cluster_map::{BadMap, ClusterMap, DoorAddresses, NodeEntry};
pub use coord::{
    CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordStatus, CoordView, SemaphoreRange,
};
pub use engine::{LocalEngine, Read, RemoteEngine, Ticket};
pub use formation::{Applicant, Formation, Joined, Plan, WaitingRoom};
pub use shard_map::{ShardMap, ShardPlace};

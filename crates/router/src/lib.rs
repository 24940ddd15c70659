//! The engine between doors and shards: what every door may ask (`Call`, which says where it goes), what it gets (`Response`),
//! where a key lives ([`Routes`]), and how a request reaches the node that leads it ([`Forwards`]).
//!
//! Nothing here knows how a thing is done. A door on a lane uses [`LocalEngine`], which answers reads on the spot; a door on
//! another thread uses [`RemoteEngine`], which carries owned calls to the right lane and brings the response back.

// In the order in which a newcomer should read them.
mod engine;
mod program;
mod call;
mod response;
mod histogram;
mod coord;
mod cluster_status;
mod shard_map;

mod formation;
mod routes;
mod choice;
pub mod forward;
mod gate;
mod wire;
mod balance;

pub use balance::{BalanceLook, BalanceView, BalancerReport, EventLine, MoveLine, NodeFill};
pub use call::{
    Bound, Call, FieldSpec, LibraryCall, NodeCall, Operate, RowCall, ScanCall, ShardsCall, SortRange, Switch,
    TableCall, TableSpec, VerifyCall, one_position, scattered,
};
pub use choice::{Candidate, Draws, choose};
pub use cluster_status::{
    DrainLeft, DrainReport, Heard, NodeState, NodeStatus, ReplicaStatus, join, join_writeback, newest,
};
pub use coord::{
    CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordStatus, CoordView, SemaphoreRange,
};
pub use engine::{LocalEngine, Names, Read, RemoteEngine, Ticket};
pub use formation::{Applicant, COORD_GROUPS_MAX, First, Formation, Joined, Made, Plan, WaitingRoom, Whereabouts};
pub use forward::{Forwards, Nature, Refused};
pub use gate::{Admission, Arrival, Gate, REFUSED_STREAMS_MAX};
pub use histogram::{HISTOGRAM_BOUNDS_US, Histogram};
pub use program::{Program, Step};
pub use response::{
    DeadLetterLine, Difference, DifferenceKind, EngineStatus, Explanation, HistogramStatus, Residence, Response,
    RouteList, ScanPage, ScannedRow, ShardRoute, ShardStatus, SqlError, TableWriteback, VerifiedPage, WritebackReport,
    WritebackStatus,
};
pub use routes::{Moved, Route, Routes, ShardWay};
pub use shard_map::{ShardMap, ShardPlace};
pub use shardine_model::{BadMap, ClusterMap, DoorAddresses, NodeEntry};
pub use wire::{RemoteCall, ShardAsk};

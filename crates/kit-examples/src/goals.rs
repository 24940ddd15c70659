//! A matcher of goals: hits of counters in, the goals that they reach out. Counters are neighbours by number, so that a
//! server reads the goals of its shard from SQL in one go.

// In the order in which a newcomer should read them.
pub mod data;
pub mod request;
pub mod server;
// To run it.
pub mod claims;
pub mod fleet;
pub mod load;
pub mod lines;

tonic::include_proto!("goals.v1");

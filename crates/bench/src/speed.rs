//! The rows of the speed table, each measured on the reference (redis-server, etcd, a database) and on the subject in turns, so that whatever
//! else the machine does falls on both. Reports medians and their ratio, and the spread of the ratios of single rounds.

mod args;
mod behind;
mod cluster;
mod coord;
mod etcd;
mod kit;
mod machine;
mod memory;
mod procfs;
mod records;
mod report;
mod restart;
mod row;
mod server;
mod sql;
mod throughput;
mod together;
mod workplace;

pub use args::{Options, Work};
pub use report::Report;

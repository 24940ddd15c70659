//! The whole door against an engine of one shard: golden replies, order, transactions, limits. No server is started.

mod engine;
mod talk;

mod company;
mod functions;
mod hashes;
mod keys;
mod limits;
mod order;
mod nulls;
mod own;
mod records;
mod scans;
mod scripts;
mod strings;
mod transactions;

//! The whole door against a engine made of a map: golden replies, order, transactions, limits. No server is started.

mod engine;
mod state;
mod talk;

mod hashes;
mod keys;
mod limits;
mod order;
mod own;
mod records;
mod scans;
mod strings;
mod transactions;

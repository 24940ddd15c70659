//! The whole door against a hall made of a map: golden replies, order, transactions, limits. No server is started.

mod hall;
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

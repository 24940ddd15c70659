//! The only crate that names raft-rs: a Raft group as a pure step function.

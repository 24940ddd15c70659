//! What lies on disk: the log of all groups, snapshots, the node's identity. The only crate that names the log engine.

//! The accept loop.

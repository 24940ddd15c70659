//! Groups of three replicas in one thread, with a network that can be cut: what one replica alone cannot show.

mod checksums;
mod cluster;
mod definitions;
mod handover;
mod in_doubt;
mod leadership;
mod loads;
mod membership;
mod reads;
mod snapshots;
mod writeback;
#[path = "../support/files.rs"]
mod files;

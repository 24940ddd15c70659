//! The protobuf messages and stubs of `shardine.v1` and of the part of YDB's API that coordination needs, generated from
//! `proto/` without protoc.
//!
//! Nothing but the doors and clients of gRPC sees these types: protocols end at the door (`ARCHITECTURE.md`).

pub mod v1 {
    #![allow(clippy::all, reason = "generated code is not ours to polish")]

    tonic::include_proto!("shardine.v1");
}

/// YDB's packages, each a module.
#[allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated code is not ours to polish")]
mod packages {
    include!(concat!(env!("OUT_DIR"), "/ydb_packages.rs"));
}

pub use packages::ydb;

/// The compiled `.proto` files with their comments, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shardine.v1.bin"));

/// The same of YDB's services.
pub const YDB_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ydb.bin"));

/// Bytes of one message in either direction: the largest value (32 MiB) with its address and its neighbours.
pub const MESSAGE_BYTES_MAX: usize = 40 << 20;

/// The metadata entry that carries the stable name of an error.
pub const CODE_METADATA: &str = "shardine-code";

/// The metadata entry by which a client says that it keeps the map itself: what another node leads is refused with the way there.
pub const DIRECT_METADATA: &str = "shardine-direct";

/// The metadata entry that YDB's clients carry their token in.
pub const YDB_TICKET_METADATA: &str = "x-ydb-auth-ticket";

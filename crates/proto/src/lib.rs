//! The protobuf messages and stubs of `shardine.v1`, generated from `proto/` without protoc.
//!
//! Nothing but the doors and clients of gRPC sees these types: protocols end at the door (DESIGN 1).

pub mod v1 {
    #![allow(clippy::all, reason = "generated code is not ours to polish")]

    tonic::include_proto!("shardine.v1");
}

/// The compiled `.proto` files with their comments, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shardine.v1.bin"));

/// Bytes of one message in either direction: the largest value (32 MiB) with its address and its neighbours.
pub const MESSAGE_BYTES_MAX: usize = 40 << 20;

/// The metadata entry that carries the stable name of an error.
pub const CODE_METADATA: &str = "shardine-code";

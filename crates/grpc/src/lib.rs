//! The gRPC door: shardine.v1 records, tables and cluster, health and reflection.

//! The protobuf messages and stubs of shardine.v1, built without protoc.

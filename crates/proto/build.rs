//! Compiles `proto/` in pure Rust and keeps the descriptor sets for reflection.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo by stdout")]

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

const OURS: [&str; 5] = [
    "shardine/v1/value.proto",
    "shardine/v1/records.proto",
    "shardine/v1/tables.proto",
    "shardine/v1/cluster.proto",
    "shardine/v1/formation.proto",
];

const YDBS: [&str; 3] = ["ydb/coordination_v1.proto", "ydb/discovery_v1.proto", "ydb/rate_limiter_v1.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let out = PathBuf::from(std::env::var("OUT_DIR")?);

    let ours = protox::compile(OURS, [root])?;
    std::fs::write(out.join("shardine.v1.bin"), ours.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(ours)?;

    // Nine packages that name each other: one file puts them together.
    let ydbs = protox::compile(YDBS, [root])?;
    std::fs::write(out.join("ydb.bin"), ydbs.encode_to_vec())?;
    tonic_prost_build::configure().include_file("ydb_packages.rs").compile_fds(ydbs)?;
    Ok(())
}

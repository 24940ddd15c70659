//! Compiles `proto/` in pure Rust and keeps the descriptor set for reflection.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo by stdout")]

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

const FILES: [&str; 4] =
    ["shardine/v1/value.proto", "shardine/v1/records.proto", "shardine/v1/tables.proto", "shardine/v1/cluster.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());

    let descriptors = protox::compile(FILES, [root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("shardine.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}

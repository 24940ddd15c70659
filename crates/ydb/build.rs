//! Compiles `proto/ydb` in pure Rust.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo by stdout")]

use std::error::Error;
use std::path::Path;

const FILES: [&str; 2] = ["ydb/coordination_v1.proto", "ydb/discovery_v1.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("../../proto");
    println!("cargo:rerun-if-changed={}", root.join("ydb").display());

    let descriptors = protox::compile(FILES, [root])?;
    tonic_prost_build::configure().include_file("messages.rs").compile_fds(descriptors)?;
    Ok(())
}

//! Compiles the benchmark's part of etcd's interface in pure Rust.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo by stdout")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(descriptors)?;
    Ok(())
}

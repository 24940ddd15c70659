//! Compiles the services' interfaces in pure Rust; the kit's message is the kit's own type.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo by stdout")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["goals.proto", "names.proto"], ["proto", "../kit/proto"])?;
    tonic_prost_build::configure().extern_path(".shardine.kit.v1", "::shardine_kit::wire").compile_fds(descriptors)?;
    Ok(())
}

//! What every client of a sharded service promises (`docs/kit.md`, "Without the crate"), in whatever language it is written:
//! each run is made with the kit's own client and with `examples/kit_client.py`. A run has hosts that answer as it likes, and
//! looks at what they were asked and at the line that the client answered.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod hosts;
mod runs;
mod subject;

//! Feeds the reader of snapshots of the state machine with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::state_chunk(data));

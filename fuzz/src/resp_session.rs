//! Feeds a connection of the Redis door with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::resp_session(data));

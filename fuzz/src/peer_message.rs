//! Feeds the reader of peers' messages, and groups behind it, with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::peer_message(data));

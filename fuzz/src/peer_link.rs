//! Feeds the readers of greetings and frames with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::peer_link(data));

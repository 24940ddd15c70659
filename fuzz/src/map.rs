//! Feeds the readers of the map, its log and its snapshots with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::map(data));

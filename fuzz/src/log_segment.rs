//! Feeds the reader of segments of the log on disk with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::log_segment(data));

//! Feeds the reader of entries of a shard's log with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::log_entry(data));

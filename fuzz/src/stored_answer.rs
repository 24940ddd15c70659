//! Feeds the reader of answers kept for repeated requests with whatever libFuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shardine_fuzz_targets::stored_answer(data));

//! A short run of what `cargo xtask chaos --kit` does for as long as one likes.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use shardine_kit_examples::chaos::{self, Kind, Options};

/// kit: whatever is done to servers, store, clocks, list and cuts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_little_chaos_brings_no_wrong_value_no_overlap_and_no_outage() {
    let seconds = Duration::from_secs(15);
    let options = Options {
        seed: 17,
        lasts: seconds,
        episode: seconds,
        kinds: vec![Kind::Sqlite],
        program: env!("CARGO_BIN_EXE_goals").into(),
    };

    chaos::run(&options, &|line| eprintln!("{line}")).await.unwrap();
}

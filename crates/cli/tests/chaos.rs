//! A short form of `cargo xtask chaos`: three processes that are killed, stopped and paused under clients at all doors.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![allow(clippy::print_stdout, reason = "what was done is told if it fails")]

use std::time::Duration;

use shardine_testkit::chaos::{self, Options};

/// reliability F1, F2: whatever is killed or paused, what was answered stays and no read is stale.
#[test]
fn a_cluster_that_is_treated_badly_keeps_its_promises() {
    let options = Options { seed: 7, lasts: Duration::from_secs(15), nodes: 3 };
    let tally = chaos::run(&options, &|line| println!("{line}")).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tally}");
    assert!(tally.faults > 0 && tally.writes_answered > 0 && tally.reads > 0, "{tally}");
}

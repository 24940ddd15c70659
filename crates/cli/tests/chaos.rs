//! A short form of `cargo xtask chaos`: three processes that are killed, stopped and paused under clients at all doors, and, where
//! namespaces may be made, cut off from each other, from their disks and from SQL.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![allow(clippy::print_stdout, reason = "what was done is told if it fails")]

use std::time::Duration;

use shardine_testkit::chaos::{self, Options};
use shardine_testkit::namespace::{self, Entered};

/// reliability F1, F2, F3, F12, F34, F45: whatever is killed or paused, what was answered stays and no read is stale.
#[test]
fn a_cluster_that_is_treated_badly_keeps_its_promises() {
    treat(&Options { seed: 7, lasts: Duration::from_secs(10), nodes: 3, is_namespaced: false });
}

/// reliability F6, F8, F9, F10, F11, F14, F15, F16, F17, F21, F28, F30: nor whatever becomes of network, disks and SQL.
#[test]
fn what_nodes_stand_on_may_go() {
    match namespace::enter_test("what_nodes_stand_on_may_go").unwrap() {
        Entered::Inside => treat(&Options { seed: 11, lasts: Duration::from_secs(20), nodes: 3, is_namespaced: true }),
        Entered::Ended(_) => {}
        Entered::Impossible(why) => println!("not tried, because there are no namespaces here: {why}"),
    }
}

fn treat(options: &Options) {
    let tally = chaos::run(options, &|line| println!("{line}")).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tally}");
    assert!(tally.faults > 0 && tally.writes_answered > 0 && tally.reads > 0, "{tally}");
}

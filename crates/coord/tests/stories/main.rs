//! The stories of coordination, one script each. Every outcome is made by a leader and two followers: one that
//! applies the same entries, and one that is made from a snapshot at the end. All three must be the same.

mod teller;
mod words;

use std::path::{Path, PathBuf};

use shardine_story::{script, stories};

use teller::Stage;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn run(name: &str) {
    let mut stage = Stage::open();
    script::tell(&folder().join(format!("{name}.script")), &mut stage);
    stage.close();
}

// In the order in which a newcomer should read them.
stories! {
    run:
    nodes
    places
    node_names
    sessions
    session_limits
    restoring
    stealing
    expiry
    stop
    create
    update
    delete
    describe
    acquire
    acquire_refused
    acquire_again
    fairness
    release
    ephemeral
    watches
    watches_and_owners
    watches_are_lost
    leader_change
    relaxed_and_strict
    self_check
    stood_still
    order_of_requests
    resources
    units
    units_of_a_tree
}

//! The stories of the map, one script each. Every entry is applied by two replicas, a node follows the map by deltas alone, and at
//! the end a third replica is made from a snapshot. All of them must be the same.

mod teller;
mod words;

use std::path::{Path, PathBuf};

use shardine_story::{script, stories};

use teller::Stage;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn run(name: &str) {
    let mut stage = Stage::default();
    script::tell(&folder().join(format!("{name}.script")), &mut stage);
    stage.close();
}

// In the order in which a newcomer should read them.
stories! {
    run:
    init
    join
    founders
    a_name_comes_back
    announce
    modes_and_weights
    remove
    replace
    replace_given_up
    replace_told_late
    from_one_to_five
    a_removed_node_is_replaced
    drain
    split
    gateway
    tables
    paths
    settings
    libraries
}

//! The stories of the state machine, one script each. A name that begins with `w` and a number retells a
//! mistake that an earlier cache made and that must not come back.

#[allow(dead_code, reason = "stories cut step by step")]
#[path = "../support/snapshots.rs"]
mod snapshots;
mod teller;

use std::path::{Path, PathBuf};

use shardine_story::{script, stories};

use teller::Shard;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn run(name: &str) {
    script::tell(&folder().join(format!("{name}.script")), &mut Shard::default());
}

// In the order in which a newcomer should read them.
stories! {
    run:
    versions
    no_version_returns
    nothing_leaves_no_tombstone
    versions_end
    get
    set
    insert_and_replace
    cas
    increments
    delete
    update
    nulls
    sql_types
    dynamic_records
    sorted_rows
    addresses_that_do_not_fit
    changed_counts
    batches
    sessions
    numbered_requests
    time_to_live
    merging
    load
    evaluated_when_applied
    kick
    rows_of_others
    lease
    late_confirmation
    dead_letters
    quarrels_with_sql
    definitions
    stale_routes
    strings_and_hashes
    unknown_entries
    snapshot_replaces
    cut_while_writes_go_on
    w1_merged_sets_keep_every_field
    w27_checked_and_versioned
    w2_merged_increments_create_once
    w5_a_snapshot_leaves_nothing_behind
    w7_a_retry_counts_once
}

//! The stories of the replica core, one script each: a group of one, a disk that confirms when the story says
//! so, and an SQL database that answers when the story says so.

mod database;
mod teller;

use std::path::{Path, PathBuf};

use shardine_story::{script, stories};

use teller::Stage;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn run(name: &str) {
    script::tell(&folder().join(format!("{name}.script")), &mut Stage::open());
}

// In the order in which a newcomer should read them.
stories! {
    run:
    group_commit
    reads_do_not_overtake
    early_requests
    load_on_miss
    joined_loads
    a_request_gets_all_its_rows
    reads_beside_what_cannot_leave
    load_fails
    too_many_jobs
    load_answers_too_late
    outage
    a_table_that_sql_refuses
    write_modes
    written_through
    parents_first
    dead_letters
    discarded_letters
    conflicts
    guest
    guest_deletes
    dirty_limits
    absent_rows
    eviction
    a_request_above_the_limit_of_bytes
    sql_purge
    kick
    kick_of_a_known_absent_row
    kick_of_a_record_with_a_time_to_live
    kick_and_a_failure
    commands_behind_a_kick
    a_kick_does_not_turn_commands_round
    a_kick_goes_at_once
    parked_batches_keep_their_rows
    two_queues_become_one
    flush
    wait_tokens
    lease
    one_write_at_a_time
    suspend
    expiry
    stamps
    purge
    snapshot_when_due
    w3_a_failed_write_is_written_whole
}

//! Deleting tombstones that are old enough (write-back 102).

use std::sync::Arc;

use shardine_model::{RowImage, RowKeyBuf, Table, Version};
use shardine_writeback::{Job, JobOutcome, PurgeJob};

use crate::rig::{Rig, aged, at, message, messages, user, users};

fn purge(rig: &Rig, table: &Arc<Table>, rows: Vec<(RowKeyBuf, Version)>) {
    let done =
        rig.perform(Job::Purge(PurgeJob { ticket: rig.ticket(), table: Arc::clone(table), rows, begin_by: None }));
    assert!(matches!(done, JobOutcome::Purged { .. }), "{done:?}");
}

#[test]
fn write_back_102_a_purge_deletes_tombstones_at_their_version_and_nothing_else() {
    for rig in Rig::each() {
        rig.create(&users());
        let none = RowImage::default;
        let rows = [("old", -5), ("newer", -7), ("'; DROP", -2)];
        rig.flush(&users(), rows.iter().map(|(key, version)| at(user(key), *version, none())).collect());
        rig.flush(&users(), vec![at(user("lives"), 6, aged(60))]);

        let wanted = [("old", -5), ("newer", -5), ("lives", -5), ("lives", 6), ("nobody", -1), ("'; DROP", -2)];
        let wanted: Vec<_> = wanted.iter().map(|(key, version)| (user(key), Version(*version))).collect();
        purge(&rig, &users(), wanted.clone());
        purge(&rig, &users(), wanted);

        let held = |key: &str| rig.load_one(&users(), &user(key)).version.0;
        assert_eq!(["old", "newer", "lives", "'; DROP"].map(held), [0, -7, 6, 0]);
    }
}

#[test]
fn write_back_102_a_purge_tells_rows_of_one_partition_apart() {
    for rig in Rig::each() {
        rig.create(&messages());
        let rows = [message("room", 1, "a"), message("room", 2, "a")];
        rig.flush(&messages(), rows.iter().map(|row| at(row.clone(), -3, RowImage::default())).collect());

        purge(&rig, &messages(), vec![(rows[0].clone(), Version(-3))]);

        assert_eq!(rows.map(|row| rig.load_one(&messages(), &row).version.0), [0, -3]);
    }
}

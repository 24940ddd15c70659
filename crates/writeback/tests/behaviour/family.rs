//! Tables whose rows refer to rows of other tables (write-back 107).

use std::sync::Arc;

use shardine_model::sql::FlushResult;
use shardine_model::{Deletes, FieldType, RowImage, RowKeyBuf, Table, Version};
use shardine_writeback::{Drift, Job, JobOutcome, PurgeJob};

use crate::mapped::{fields, make, mapped};
use crate::rig::{Rig, at, user, users};
use crate::schema::drift;

/// Customers whose age names a row of `ages`: `customers` comes after it, or does not say so.
fn children(after: &[&str]) -> Arc<Table> {
    let mut table = (*mapped(FieldType::Int64, Some("rev"))).clone();
    table.sql.after = after.iter().map(|name| (*name).to_owned()).collect();
    Arc::new(table)
}

fn with_tombstones(table: &Table) -> Arc<Table> {
    let mut table = table.clone();
    table.sql.mapping.as_mut().expect("it is mapped").deletes = Deletes::Tombstone;
    Arc::new(table)
}

fn make_family(rig: &Rig, action: &str) {
    rig.sql("CREATE TABLE ages (id INTEGER NOT NULL PRIMARY KEY)");
    make(rig, "BIGINT", &format!(", CONSTRAINT of_age FOREIGN KEY (years) REFERENCES ages (id){action}"));
}

#[test]
fn write_back_107_foreign_keys_may_lead_to_tables_that_come_first() {
    for mut rig in Rig::each() {
        make_family(&rig, "");
        assert_eq!(drift(&rig, &children(&[])), [], "the parents are written by others");
        rig.mapped = vec!["ages".to_owned()];

        let unordered = drift(&rig, &children(&[]));

        assert!(matches!(&unordered[..], [Drift::ForeignKey { parent, .. }] if parent == "ages"), "{unordered:?}");
        assert!(matches!(&drift(&rig, &children(&["cities"]))[..], [Drift::ForeignKey { .. }]));
        assert_eq!(drift(&rig, &children(&["ages"])), []);
    }
}

/// Rows that SQL changes by itself keep their version: nobody would notice, where tombstones stay and versions count. To a guest
/// it is one of the others.
#[test]
fn write_back_107_a_foreign_key_that_changes_rows_is_refused() {
    for action in [" ON DELETE CASCADE", " ON UPDATE CASCADE"] {
        for rig in Rig::each() {
            make_family(&rig, action);

            let found = drift(&rig, &with_tombstones(&children(&["ages"])));

            assert!(matches!(&found[..], [Drift::Cascade { .. }]), "{found:?}");
            assert_eq!(drift(&rig, &children(&["ages"])), []);
        }
    }
}

#[test]
fn write_back_107_a_row_without_its_parent_waits_and_is_not_refused() {
    for rig in Rig::each() {
        make_family(&rig, "");
        rig.sql("INSERT INTO ages VALUES (1)");
        let rows = || (1..=5).map(|id| at(user(id.to_string()), 1, fields(id % 2, "Lili"))).collect();

        let results = rig.flush(&children(&["ages"]), rows());
        let refused = rig.flush(&children(&[]), rows());
        rig.sql("INSERT INTO ages VALUES (0)");
        let again = rig.flush(&children(&["ages"]), rows());

        let is_orphan = |result: &FlushResult| matches!(result, FlushResult::Orphan(why) if !why.is_empty());
        let orphans: Vec<bool> = results.iter().map(is_orphan).collect();
        assert_eq!(orphans, [false, true, false, true, false], "{results:?}");
        assert!(matches!(&refused[1], FlushResult::Refused(_)), "without an order nothing is to be waited for");
        assert_eq!(again, vec![FlushResult::Written; 5]);
        assert_eq!(rig.handle.status().rows_orphaned, 2);
    }
}

/// Its defaults might refer to nothing. Where a deleted row is deleted, there are none.
#[test]
fn write_back_107_a_tombstone_keeps_what_the_row_referred_to() {
    for rig in Rig::each() {
        make_family(&rig, "");
        rig.sql("INSERT INTO ages VALUES (1)");
        let table = with_tombstones(&children(&["ages"]));
        rig.flush(&table, vec![at(user("1"), 1, fields(1, "Lili"))]);

        let deleted = rig.flush(&table, vec![at(user("1"), -2, RowImage::default())]);
        let unborn = rig.flush(&table, vec![at(user("2"), -2, RowImage::default())]);
        let late = rig.flush(&table, vec![at(user("1"), 1, fields(1, "late"))]);

        assert_eq!(deleted, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT years FROM customers WHERE id = 1 AND rev = -2 AND full_name = 'Lili'"), "1");
        assert_eq!(rig.load_one(&table, &user("1")).version, Version(-2));
        assert!(matches!(&unborn[..], [FlushResult::Orphan(_)]), "{unborn:?}");
        assert_eq!(late, [FlushResult::Newer(Version(-2))]);

        let alive = rig.flush(&table, vec![at(user("1"), 3, fields(1, "again"))]);

        assert_eq!(alive, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT full_name FROM customers WHERE id = 1 AND rev = 3"), "again");
    }
}

#[test]
fn write_back_107_a_purge_leaves_tombstones_that_others_refer_to() {
    for rig in Rig::each() {
        rig.create(&users());
        let key = rig.say("BLOB", "BYTEA", "VARBINARY(1024)");
        rig.sql(&format!(
            "CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY, owner {key}, FOREIGN KEY (owner) REFERENCES users (__key__))"
        ));
        let rows: Vec<RowKeyBuf> = ["a", "b", "c", "d", "e"].map(user).into();
        rig.flush(&users(), rows.iter().map(|row| at(row.clone(), -3, RowImage::default())).collect());
        rig.sql(rig.say(
            "INSERT INTO notes VALUES (1, CAST('b' AS BLOB)), (2, CAST('e' AS BLOB))",
            "INSERT INTO notes VALUES (1, 'b'), (2, 'e')",
            "INSERT INTO notes VALUES (1, 'b'), (2, 'e')",
        ));

        let rows: Vec<_> = rows.into_iter().map(|row| (row, Version(-3))).collect();
        let job = PurgeJob { ticket: rig.ticket(), table: users(), rows, begin_by: None };
        let done = rig.perform(Job::Purge(job));

        assert!(matches!(&done, JobOutcome::Purged { kept, .. } if kept[..] == [user("b"), user("e")]), "{done:?}");
        let held = |key: &str| rig.load_one(&users(), &user(key)).version.0;
        assert_eq!(["a", "b", "c", "d", "e"].map(held), [0, -3, 0, 0, -3]);
    }
}

//! Writing as a guest: rows of a table that others use too, who know nothing of Shardine.

use std::sync::Arc;

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{ChangedFields, Conflict, FieldId, FieldType, RowImage, Table, Version};

use crate::mapped::{fields, make, mapped};
use crate::rig::{Rig, at, user};

const AGE: FieldId = FieldId(1);
const NAME: FieldId = FieldId(4);

fn customers(rig: &Rig) -> Arc<Table> {
    make(rig, "BIGINT", "");
    mapped(FieldType::Int64, Some("rev"))
}

/// A change of some fields of a row that SQL has.
fn change(key: &str, version: i64, fields: RowImage, changed: &[FieldId]) -> FlushRow {
    let changed = changed.iter().fold(ChangedFields::NONE, |changed, field| changed.with(*field));
    FlushRow { changed, ..at(user(key), version, fields) }
}

fn deleted(key: &str, magnitude: i64) -> FlushRow {
    at(user(key), -magnitude, RowImage::default())
}

#[test]
fn what_nobody_touched_keeps_its_bytes_and_null_and_what_others_wrote() {
    for rig in Rig::each() {
        let table = customers(&rig);
        rig.sql("INSERT INTO customers (id, years, full_name) VALUES (1, 10, NULL), (2, 20, 'Bob'), (3, 30, 'Eve')");
        // Another program, after the rows were loaded; it knows of no versions.
        rig.sql("UPDATE customers SET full_name = 'Robert', note = 'called' WHERE id = 2");

        let results = rig.flush(
            &table,
            vec![
                change("1", 2, fields(11, ""), &[AGE]),
                change("2", 2, fields(21, "Bob"), &[AGE]),
                change("3", 2, fields(30, "Eva"), &[NAME]),
            ],
        );

        assert_eq!(results, [FlushResult::Written, FlushResult::Written, FlushResult::Written]);
        assert_eq!(rig.ask("SELECT count(*) FROM customers WHERE id = 1 AND years = 11 AND full_name IS NULL"), "1");
        assert_eq!(
            rig.ask("SELECT full_name FROM customers WHERE id = 2 AND years = 21 AND note = 'called'"),
            "Robert"
        );
        assert_eq!(rig.ask("SELECT full_name FROM customers WHERE id = 3 AND years = 30 AND rev = 2"), "Eva");
    }
}

#[test]
fn a_change_of_no_field_raises_the_version_and_a_late_one_changes_nothing() {
    for rig in Rig::each() {
        let table = customers(&rig);
        rig.sql("INSERT INTO customers (id, rev, years) VALUES (1, 4, 10)");

        let raised = rig.flush(&table, vec![change("1", 5, fields(10, ""), &[])]);
        let late = rig.flush(&table, vec![change("1", 4, fields(99, ""), &[AGE])]);
        let again = rig.flush(&table, vec![change("1", 5, fields(10, ""), &[])]);

        assert_eq!((raised, late), (vec![FlushResult::Written], vec![FlushResult::Newer(Version(5))]));
        assert_eq!(again, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT years FROM customers WHERE rev = 5"), "10");
    }
}

#[test]
fn a_deleted_row_is_gone_unless_sql_holds_a_newer_one() {
    for rig in Rig::each() {
        let table = customers(&rig);
        rig.sql("INSERT INTO customers (id, rev, years) VALUES (1, 1, 10), (2, 9, 20), (3, 1, 30)");

        let results = rig.flush(&table, vec![deleted("1", 2), deleted("2", 3), deleted("7", 2)]);
        let again = rig.flush(&table, vec![deleted("1", 2)]);

        assert_eq!(results, [FlushResult::Written, FlushResult::Newer(Version(9)), FlushResult::Written]);
        assert_eq!(again, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT sum(id) FROM customers"), "5");
    }
}

/// A deleted row makes room for the unique name of another, whatever the order in which they come.
#[test]
fn deletions_go_before_changes_and_changes_before_new_rows() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", ", UNIQUE (years)");
        let table = mapped(FieldType::Int64, Some("rev"));
        rig.sql("INSERT INTO customers (id, years) VALUES (1, 10), (2, 20)");

        let results = rig.flush(
            &table,
            vec![at(user("3"), 1, fields(20, "")), change("2", 2, fields(10, ""), &[AGE]), deleted("1", 2)],
        );

        assert_eq!(results, [FlushResult::Written, FlushResult::Written, FlushResult::Written]);
        assert_eq!(rig.ask("SELECT id FROM customers WHERE years = 10"), "2");
        assert_eq!(rig.ask("SELECT id FROM customers WHERE years = 20"), "3");
    }
}

#[test]
fn a_row_that_sql_refuses_is_told_and_the_others_are_written() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", ", UNIQUE (years)");
        let table = mapped(FieldType::Int64, Some("rev"));
        rig.sql("INSERT INTO customers (id, years) VALUES (1, 10), (2, 20), (3, 30)");

        let results = rig.flush(
            &table,
            vec![
                change("1", 2, fields(11, ""), &[AGE]),
                change("2", 2, fields(30, ""), &[AGE]),
                change("3", 2, fields(30, "x"), &[NAME]),
            ],
        );

        assert!(
            matches!(&results[..], [FlushResult::Written, FlushResult::Refused(_), FlushResult::Written]),
            "{results:?}"
        );
        assert_eq!(rig.ask("SELECT years FROM customers WHERE id = 2 AND rev = 1"), "20");
        assert_eq!(rig.ask("SELECT years FROM customers WHERE id = 1"), "11");
    }
}

#[test]
fn a_row_that_others_have_deleted_is_there_again_only_where_memory_wins() {
    for rig in Rig::each() {
        let memory_wins = customers(&rig);
        let mut sql_wins = (*memory_wins).clone();
        sql_wins.sql.conflict = Conflict::SqlWins;

        let lost = rig.flush(&Arc::new(sql_wins), vec![change("1", 5, fields(11, "Lili"), &[AGE])]);
        let count = rig.ask("SELECT count(*) FROM customers");
        let won = rig.flush(&memory_wins, vec![change("1", 5, fields(11, "Lili"), &[AGE])]);

        assert_eq!((lost, count.as_str()), (vec![FlushResult::Newer(Version::NEVER)], "0"));
        assert_eq!(won, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT full_name FROM customers WHERE id = 1 AND years = 11 AND rev = 5"), "Lili");
    }
}

/// A row that refers to another of its table: neither order of the two would do alone.
#[test]
fn rows_that_others_refer_to_are_deleted_after_those_or_told_to_come_again() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", ", chief BIGINT, FOREIGN KEY (chief) REFERENCES customers (id)");
        rig.sql("INSERT INTO customers (id, years, chief) VALUES (1, 10, NULL), (2, 20, 1), (3, 30, NULL), (4, 40, 3)");
        let table = mapped(FieldType::Int64, Some("rev"));

        let results = rig.flush(&table, vec![deleted("1", 2), deleted("2", 2), deleted("3", 2)]);

        assert!(
            matches!(&results[..], [FlushResult::Written, FlushResult::Written, FlushResult::Orphan(_)]),
            "{results:?}"
        );
        assert_eq!(rig.ask("SELECT sum(id) FROM customers"), "7");
    }
}

//! The fence under random orders: late, repeated and interleaved writes, also from two writers (write-back 93).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

use proptest::prelude::*;
use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{RowImage, Version};
use shardine_writeback::{Backend, FlushJob, Job, JobId, JobOutcome, Options};

use crate::rig::{PATIENCE, PROGRESS, Rig, aged, at, user, users};

const KEYS: [&str; 3] = ["lili", "bob", "eve"];

/// The one content that a version of a key ever had: every third change deletes.
fn state(key: &str, magnitude: i64) -> FlushRow {
    if magnitude % 3 == 0 {
        at(user(key), -magnitude, RowImage::default())
    } else {
        at(user(key), magnitude, aged(1_000 + magnitude))
    }
}

/// Batches of rows, no row twice in one batch, in any order.
fn batches() -> impl Strategy<Value = Vec<Vec<FlushRow>>> {
    let batch = proptest::collection::btree_map(0..KEYS.len(), 1i64..12, 1..=KEYS.len());
    let rows = |batch: BTreeMap<usize, i64>| {
        batch.into_iter().map(|(key, magnitude)| state(KEYS[key], magnitude)).collect::<Vec<_>>()
    };
    proptest::collection::vec(batch.prop_map(rows), 1..24)
}

thread_local! {
    /// Made once for all cases.
    static DATABASES: Rc<Vec<Rig>> = Rc::new(Rig::each().collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn write_back_93_the_highest_version_wins_in_any_order(batches in batches()) {
        for rig in DATABASES.with(Rc::clone).iter() {
            rig.create(&users());
            rig.sql("DELETE FROM users");
            let mut highest: BTreeMap<Vec<u8>, Version> = BTreeMap::new();
            for batch in &batches {
                let results = rig.flush(&users(), batch.clone());

                for (flush, result) in batch.iter().zip(results) {
                    let held = highest.entry(flush.row.key.to_vec()).or_default();
                    if flush.version.magnitude() >= held.magnitude() {
                        *held = flush.version;
                        prop_assert_eq!(result, FlushResult::Written);
                    } else {
                        prop_assert_eq!(result, FlushResult::Newer(*held));
                    }
                }
            }
            for (key, version) in highest {
                let loaded = rig.load_one(&users(), &user(&key));
                let expected = state(std::str::from_utf8(&key).unwrap(), version.magnitude() as i64);

                prop_assert_eq!(loaded.version, version);
                prop_assert_eq!(loaded.fields, expected.fields);
            }
        }
    }
}

/// An old leader that does not know yet and a new one write the same rows at once.
/// reliability F19.
#[test]
fn write_back_93_two_writers_never_take_a_row_backwards() {
    const CHANGES: i64 = 200;
    // However long a disk takes to sync four hundred batches: here nobody repeats one that has waited too long for the other's lock.
    let patient = |options: &mut Options| {
        (options.busy_timeout, options.statement_timeout) = (PATIENCE, PATIENCE);
    };
    for mut rig in Rig::each() {
        rig.restart_with(patient);
        rig.create(&users());
        rig.sql("CREATE TABLE seen (was BIGINT, became BIGINT)");
        rig.sql(rig.say(
            "CREATE TRIGGER history AFTER UPDATE ON users \
             BEGIN INSERT INTO seen VALUES (old.__version__, new.__version__); END",
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO seen VALUES (old.__version__, new.__version__); RETURN NULL; END $$; \
             CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW EXECUTE FUNCTION note()",
            // Here an update that changes nothing fires it too.
            "CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW IF old.__version__ <> new.__version__ THEN \
             INSERT INTO seen VALUES (old.__version__, new.__version__); END IF",
        ));
        let (sender, outcomes) = channel();
        let mut options = Options::new(rig.url.clone());
        patient(&mut options);
        let other = Backend::start(&options, move |done| drop(sender.send(done))).unwrap();
        for magnitude in 1..=CHANGES {
            for handle in [&rig.handle, &other] {
                let rows = KEYS.iter().map(|key| state(key, magnitude)).collect();
                handle
                    .submit(Job::Flush(FlushJob {
                        ticket: JobId(0),
                        table: Arc::clone(&users()),
                        rows,
                        begin_by: None,
                        is_awaited: false,
                        progress: PROGRESS,
                    }))
                    .unwrap();
            }
        }
        for _ in 1..=CHANGES {
            for done in [rig.outcome(), outcomes.recv().unwrap()] {
                assert!(matches!(done, JobOutcome::Flushed { .. }), "{done:?}");
            }
        }
        other.stop();

        let backwards = "SELECT count(*) FROM seen WHERE abs(became) <= abs(was)";
        assert_eq!(rig.ask(backwards), "0");
        let last = state("lili", CHANGES);
        assert_eq!(rig.load_one(&users(), &user("lili")).version, last.version);
    }
}

//! Whose database it is: one cluster's, the newest start of a node's, and never of a log that is shorter than what was
//! written from it.

use std::io;
use std::sync::mpsc::channel;

use shardine_model::ShardId;
use shardine_model::sql::{Class, FlushResult};
use shardine_testkit::sql_server::{Kind, Shared};
use shardine_writeback::{
    Backend, Error, FlushJob, Handle, Job, JobOutcome, LogProgress, OnClaim, Options, Owner, Trace,
};

use crate::rig::{Rig, aged, at, next_owner, user, users};

/// Whether a process that says to be this one may use the rig's database.
fn enter(rig: &Rig, owner: Owner) -> Result<Handle, Error> {
    let options = Options { owner: Some(owner), ..Options::new(rig.url.clone()) };
    Backend::start(&options, |_| {})
}

fn refused(rig: &Rig, owner: Owner) -> String {
    let error = enter(rig, owner).err().expect("it is refused");
    assert_eq!(error.class, Class::Foreign, "{error}");
    error.message
}

fn let_in(rig: &Rig, owner: Owner) {
    enter(rig, owner).unwrap().stop();
}

#[test]
fn write_back_133_a_database_has_one_cluster() {
    for mut rig in Rig::each() {
        let other = Owner { cluster: 0xc2, ..next_owner() };
        let told = refused(&rig, other.clone());
        assert!(told.contains("belongs to cluster 000000000000000000000000000000c1"), "{told}");
        assert!(told.contains("--adopt-sql"), "{told}");

        let_in(&rig, Owner { adopts: true, ..other.clone() });

        let_in(&rig, Owner { incarnation: other.incarnation + 1, start: -1, ..other });
        assert!(refused(&rig, next_owner()).contains("belongs to cluster 000000000000000000000000000000c2"));
        rig.restart_with(|options| options.owner = Some(Owner { adopts: true, ..next_owner() }));
        rig.create(&users());
    }
}

#[test]
fn write_back_134_a_start_that_is_not_the_newest_is_refused() {
    for rig in Rig::each() {
        let (first, second) = (next_owner(), next_owner());

        let_in(&rig, second.clone());

        let_in(&rig, second.clone());
        assert!(refused(&rig, first).contains("an older copy of the node's"));
        assert!(refused(&rig, Owner { start: 0, ..second }).contains("another copy of it is running"));
        let_in(&rig, next_owner());
    }
}

fn write(rig: &Rig, version: i64, applied: u64, inherited: u64) -> Result<FlushResult, Error> {
    let progress = LogProgress { shard: ShardId(3), applied, inherited };
    let rows = vec![at(user("lili"), version, aged(version)), at(user("bob"), 1, aged(1))];
    let job = FlushJob { ticket: rig.ticket(), table: users(), rows, begin_by: None, is_awaited: false, progress };
    match rig.perform(Job::Flush(job)) {
        JobOutcome::Flushed { rows, .. } => Ok(rows[0].1.clone()),
        JobOutcome::Failed { error, .. } => Err(error),
        other => panic!("{other:?}"),
    }
}

/// The old copy of a directory: its log ends before what SQL has seen of it.
#[test]
fn write_back_135_nothing_is_written_from_a_log_that_has_lost_entries() {
    for mut rig in Rig::each() {
        rig.create(&users());
        assert_eq!(write(&rig, 5, 20, 0).unwrap(), FlushResult::Written);
        assert_eq!(write(&rig, 6, 21, 0).unwrap(), FlushResult::Written, "its own log grows");

        let (tell, told) = channel();
        rig.restart_with(move |options| {
            let tell = tell.clone();
            options.on_claim = OnClaim::new(move |traces| tell.send(traces.to_vec()).map_err(io::Error::other));
        });
        let traces: Vec<Trace> = told.iter().next().unwrap();
        assert_eq!(traces, [Trace { shard: ShardId(3), table: users().id, applied: 21 }]);
        // Above, at and below what SQL holds of the row: what the log says counts, not the row.
        for version in [9, 6, 2] {
            let error = write(&rig, version, 30, 20).unwrap_err();
            assert_eq!(error.class, Class::Foreign, "{error}");
            assert!(error.message.contains("from entry 21 of the log (shard 3 table 2)"), "{error}");
            assert!(error.message.contains("began with entry 20"), "{error}");
        }
        assert_eq!(rig.load_one(&users(), &user("lili")).version.0, 6);
        assert_eq!(write(&rig, 9, 30, 21).unwrap(), FlushResult::Written, "with all entries it is another matter");
    }
}

#[test]
fn write_back_134_a_process_whose_directory_was_copied_and_started_again_writes_no_more() {
    for rig in Rig::each() {
        rig.create(&users());
        write(&rig, 5, 20, 0).unwrap();
        let second = Rig::beside(&rig, next_owner());

        write(&second, 6, 25, 22).unwrap();

        assert_eq!(write(&rig, 7, 30, 0).unwrap_err().class, Class::Foreign);
        assert_eq!(rig.load_one(&users(), &user("lili")).version.0, 6);
    }
}

#[test]
fn the_table_is_made_again_if_somebody_drops_it() {
    for rig in Rig::each() {
        rig.create(&users());
        write(&rig, 5, 20, 0).unwrap();

        rig.sql("DROP TABLE __shardine__");

        // Each of the connections that write has to find out.
        let mut tries = (0..3).map(|_| write(&rig, 6, 21, 0));
        assert_eq!(tries.next().unwrap().unwrap_err().class, Class::Retryable);
        assert_eq!(tries.find_map(Result::ok), Some(FlushResult::Written));
        assert_eq!(rig.ask("SELECT number FROM __shardine__ WHERE what = 'shard 3 table 2'"), "21");
    }
}

/// Whoever may only read is not kept from reading; whoever writes is told what is missing.
#[test]
fn a_user_who_may_not_make_the_table_can_read() {
    let shared = Shared::database(Kind::Postgres).unwrap();
    let reader = format!("reader_{}", shared.database.name);
    {
        let rig = Rig::of(&shared.database.url(), |options| options.owner = None);
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
    }
    shared
        .database
        .sql(&format!(
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE USER {reader}; GRANT SELECT, INSERT, UPDATE ON users TO {reader}"
        ))
        .unwrap();
    let url = shared.database.url().replace("shardine@", &format!("{reader}@"));

    let rig = Rig::of(&url, |_| {});

    assert_eq!(rig.load_one(&users(), &user("lili")).version.0, 1);
    let error = write(&rig, 2, 20, 0).unwrap_err();
    assert_eq!(error.class, Class::Fatal, "{error}");
    assert!(error.message.contains("the table __shardine__"), "{error}");
    drop(rig);
    shared.database.sql(&format!("DROP OWNED BY {reader}; DROP USER {reader}")).unwrap();
}

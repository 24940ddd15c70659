//! The handle: limits, refusals, stopping, what it tells of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use shardine_model::key::Interval;
use shardine_model::limits;
use shardine_model::sql::Class;
use shardine_testkit::sql_server::Kind;
use shardine_writeback::{Backend, FlushJob, Job, JobId, JobOutcome, LoadJob, Options, ScanJob, Scope, Url, Why};

use crate::rig::{PROGRESS, Rig, aged, at, messages, user, users};

fn load(rig: &Rig) -> Job {
    Job::Load(LoadJob { ticket: rig.ticket(), table: users(), rows: vec![user("lili")] })
}

fn flush(rig: &Rig) -> Job {
    let rows = vec![at(user("lili"), 1, aged(1))];
    Job::Flush(FlushJob {
        ticket: rig.ticket(),
        table: users(),
        rows,
        begin_by: None,
        is_awaited: false,
        progress: PROGRESS,
    })
}

/// reliability I76.
#[test]
fn a_full_queue_gives_the_job_back() {
    let rig = Rig::sqlite(|options| options.queue_jobs_max = 2);
    rig.create(&users());
    let blocker = rig.direct();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();

    let mut accepted = 0;
    let rejected = loop {
        match rig.handle.submit(flush(&rig)) {
            Ok(()) => accepted += 1,
            Err(rejected) => break rejected,
        }
    };
    blocker.execute_batch("ROLLBACK").unwrap();

    assert_eq!(rejected.why, Why::Full);
    assert!(matches!(*rejected.job, Job::Flush(_)));
    for _ in 0..accepted {
        assert!(matches!(rig.outcome(), JobOutcome::Flushed { .. }));
    }
}

/// However long lanes are busy, and with whatever rows: each batch comes in the end.
#[test]
fn batches_that_nobody_waits_for_are_written_while_lanes_are_busy() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());

    for version in 1..=5 {
        let rows = vec![at(user("lili"), version, aged(1))];
        let job = FlushJob {
            ticket: rig.ticket(),
            table: users(),
            rows,
            begin_by: None,
            is_awaited: false,
            progress: PROGRESS,
        };
        rig.handle.note_busy();
        rig.handle.submit(Job::Flush(job)).unwrap();
    }

    for _ in 0..5 {
        rig.handle.note_busy();
        assert!(matches!(rig.outcome(), JobOutcome::Flushed { .. }));
    }
}

/// Outcomes are told on the thread that brings them.
#[cfg(target_os = "linux")]
#[test]
fn who_writes_stands_back_for_those_who_answer_and_who_loads_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let url: Url = format!("sqlite:{}", dir.path().join("rows.db").display()).parse().unwrap();
    let (give, take) = channel();
    let usual = rustix::process::getpriority_process(None).unwrap();
    let notify = move |done: JobOutcome| {
        let _ = give.send((done.ticket(), rustix::process::getpriority_process(None).unwrap()));
    };
    let handle = Backend::start(&Options::new(url), notify).unwrap();
    let rows = vec![user("lili")];
    let (write, read) = (JobId(1), JobId(2));

    let flush = FlushJob {
        ticket: write,
        table: users(),
        rows: vec![at(user("lili"), 1, aged(1))],
        begin_by: None,
        is_awaited: true,
        progress: PROGRESS,
    };
    handle.submit(Job::Flush(flush)).unwrap();
    handle.submit(Job::Load(LoadJob { ticket: read, table: users(), rows })).unwrap();

    let told: BTreeMap<JobId, i32> = take.iter().take(2).collect();
    assert!(told[&write] > usual, "{told:?}");
    assert_eq!(told[&read], usual);
    handle.stop();
}

#[test]
fn loads_do_not_wait_behind_flushes() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    let blocker = rig.direct();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    rig.handle.submit(flush(&rig)).unwrap();

    let loaded = load(&rig);
    let ticket = loaded.ticket();
    rig.handle.submit(loaded).unwrap();

    assert_eq!(rig.outcome().ticket(), ticket);
    blocker.execute_batch("ROLLBACK").unwrap();
    assert!(matches!(rig.outcome(), JobOutcome::Flushed { .. }));
}

#[test]
fn every_accepted_job_is_answered_also_by_a_stop() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows: Vec<_> = (0..limits::FLUSH_ROWS_MAX).map(|number| at(user(number.to_string()), 1, aged(1))).collect();
        for _ in 0..20 {
            let job = FlushJob {
                ticket: rig.ticket(),
                table: users(),
                rows: rows.clone(),
                begin_by: None,
                is_awaited: false,
                progress: PROGRESS,
            };
            rig.handle.submit(Job::Flush(job)).unwrap();
        }

        rig.handle.stop();

        for _ in 0..20 {
            match rig.outcome() {
                JobOutcome::Flushed { .. } => {}
                JobOutcome::Failed { error, .. } => assert_eq!(error.class, Class::Retryable),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(rig.handle.submit(flush(&rig)).unwrap_err().why, Why::Stopped);
        rig.handle.stop();
    }
}

#[test]
fn a_stop_does_not_wait_for_what_has_not_begun() {
    let rig = Rig::sqlite(|options| options.busy_timeout = Duration::from_millis(200));
    rig.create(&users());
    let blocker = rig.direct();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        rig.handle.submit(flush(&rig)).unwrap();
    }

    rig.handle.stop();

    let said = [rig.outcome(), rig.outcome(), rig.outcome()].map(|done| match done {
        JobOutcome::Failed { error, .. } => error.message,
        other => panic!("{other:?}"),
    });
    assert!(said[1..].iter().all(|message| message.contains("stopping")), "{said:?}");
}

#[test]
fn without_a_database_every_job_says_so() {
    let (sender, outcomes) = channel();
    let handle = Backend::start(&Options::new(Url::None), move |done| drop(sender.send(done))).unwrap();
    let job = LoadJob { ticket: shardine_writeback::JobId(7), table: users(), rows: vec![user("lili")] };

    handle.submit(Job::Load(job)).unwrap();

    let JobOutcome::Failed { error, .. } = outcomes.recv().unwrap() else { panic!("nothing can be loaded") };
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.contains("--sql"), "{error}");
    assert!(!handle.status().connected);
    handle.stop();
}

#[test]
fn a_panic_in_notify_of_one_worker_leaves_the_other_alone() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    let (sender, outcomes) = channel();
    let notify = move |done: JobOutcome| match done {
        JobOutcome::Flushed { .. } => panic!("as the test wants it"),
        done => drop(sender.send(done)),
    };
    let handle = Backend::start(&Options::new(rig.url.clone()), notify).unwrap();

    handle.submit(flush(&rig)).unwrap();
    handle.submit(load(&rig)).unwrap();

    assert!(matches!(outcomes.recv().unwrap(), JobOutcome::Loaded { .. }));
    handle.stop();
}

#[test]
fn status_counts_what_went_by() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1)), at(user("bob"), 1, aged(1))]);
        rig.load(&users(), &[user("lili"), user("nobody"), user("bob")]);
        let missing = Arc::new(shardine_model::Table { name: "missing".into(), ..(*users()).clone() });
        rig.try_load(&missing, vec![user("lili")]);

        let status = rig.handle.status();

        assert!(status.connected);
        assert_eq!((status.rows_written, status.rows_read, status.jobs_failed), (2, 3, 1));
        assert!(status.last_error.unwrap().0.message.contains("missing"));
    }
}

/// A scan that takes its time, as one of a large table does, must not hold up a load, for which a client waits.
#[test]
fn loads_do_not_wait_behind_scans() {
    let rig = Rig::server(Kind::Postgres, |options| options.statement_timeout = Duration::from_secs(60));
    rig.create(&users());
    rig.create(&messages());
    rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
    // Nobody else may even read the table until this connection ends, which holds the scan where it is.
    let blocker = rig.hold("BEGIN; LOCK TABLE messages IN ACCESS EXCLUSIVE MODE");
    let scan = ScanJob {
        ticket: rig.ticket(),
        table: messages(),
        scope: Scope::Positions(Interval::ALL),
        after: None,
        rows_max: 10,
    };
    let scanned = scan.ticket;
    rig.handle.submit(Job::Scan(Box::new(scan))).unwrap();

    let loaded = rig.submit_load(&users(), vec![user("lili")]);

    assert_eq!(rig.outcome().ticket(), loaded, "the load came first");
    drop(blocker);
    assert_eq!(rig.outcome().ticket(), scanned);
}

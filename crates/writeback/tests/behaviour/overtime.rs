//! Statements that take too long, or would begin too late (record-cache 78, 81). Two limits end the first: the server's own, so
//! that nothing runs on there that was given up on here, and ours, for a server that does not even say that it is late.

use std::time::{Duration, Instant};

use shardine_testkit::sql_server::{Kind, SqlServer, Sync};
use shardine_writeback::{Class, Done, FlushJob, Job, Options};

use crate::rig::{Rig, aged, at, user, users};

fn in_a_hurry(options: &mut Options) {
    options.statement_timeout = Duration::from_secs(1);
}

/// record-cache 81: the trigger would sleep for minutes; when the job has failed, nobody sleeps there any longer.
#[test]
fn record_cache_81_a_statement_that_takes_too_long_ends_on_the_server() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let rig = Rig::server(kind, in_a_hurry);
        rig.create(&users());
        rig.sql(rig.say(
            "",
            "CREATE FUNCTION doze() RETURNS trigger AS 'BEGIN PERFORM pg_sleep(300); RETURN new; END' LANGUAGE plpgsql; \
             CREATE TRIGGER doze BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION doze()",
            "CREATE TRIGGER doze BEFORE INSERT ON users FOR EACH ROW SET new.age = new.age + SLEEP(300)",
        ));

        let done = rig.try_flush(&users(), vec![at(user("lili"), 1, aged(1))]);

        assert!(matches!(&done, Done::Failed { error, .. } if error.class == Class::Retryable), "{done:?}");
        let running = rig.say(
            "",
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
             AND query LIKE 'INSERT%'",
            "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND info LIKE 'INSERT%'",
        );
        assert_eq!(rig.ask(running), "0");
        assert_eq!(rig.ask("SELECT count(*) FROM users"), "0");
    }
}

/// record-cache 81: a server that hangs is given up on, for writing, for reading and for making a connection.
#[test]
fn record_cache_81_a_server_that_does_not_answer_is_given_up_on() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = SqlServer::start(kind, Sync::Off, &[]).unwrap();
        let rig = Rig::on(&server, in_a_hurry);
        rig.create(&users());
        server.pause().unwrap();

        let jobs = [
            rig.try_flush(&users(), vec![at(user("lili"), 1, aged(1))]),
            rig.try_load(&users(), vec![user("lili")]),
            rig.try_flush(&users(), vec![at(user("lili"), 2, aged(2))]),
        ];

        for done in jobs {
            assert!(matches!(&done, Done::Failed { error, .. } if error.class == Class::Retryable), "{done:?}");
        }
        server.resume().unwrap();
        rig.flush(&users(), vec![at(user("lili"), 3, aged(3))]);
    }
}

/// record-cache 78, 81: a batch that waited in the queue until the lease may be another's is not begun, and that is no outage.
#[test]
fn record_cache_78_81_a_write_whose_time_is_over_is_not_begun() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = vec![at(user("lili"), 1, aged(1))];
        let job = FlushJob { ticket: rig.ticket(), table: users(), rows, begin_by: Some(Instant::now()) };

        let done = rig.perform(Job::Flush(job));

        assert!(matches!(&done, Done::Failed { error, .. } if error.class == Class::Busy), "{done:?}");
        assert_eq!(rig.ask("SELECT count(*) FROM users"), "0");
        let status = rig.handle.status();
        assert_eq!((status.connected, status.jobs_failed), (true, 0));
    }
}

//! Statements that take too long, or would begin too late (write-back 78, 81). Two limits end the first: the server's own, so
//! that nothing runs on there that was given up on here, and ours, for a server that does not even say that it is late.

use std::time::{Duration, Instant};

use shardine_model::Version;
use shardine_model::sql::Class;
use shardine_testkit::sql_server::{Kind, SqlServer, Sync};
use shardine_writeback::{FlushJob, Job, JobOutcome, Options, PurgeJob};

use crate::rig::{PROGRESS, Rig, aged, at, user, users};

fn in_a_hurry(options: &mut Options) {
    options.statement_timeout = Duration::from_secs(1);
}

/// write-back 81: the trigger would sleep for minutes; when the job has failed, nobody sleeps there any longer.
#[test]
fn write_back_81_a_statement_that_takes_too_long_ends_on_the_server() {
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

        assert!(matches!(&done, JobOutcome::Failed { error, .. } if error.class == Class::Retryable), "{done:?}");
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

/// A server that does nothing until this is dropped: also where the test fails, else its end would be waited for in vain.
struct Hung<'a>(&'a SqlServer);

impl<'a> Hung<'a> {
    fn make(server: &'a SqlServer) -> Self {
        server.pause().unwrap();
        Self(server)
    }
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        let _ = self.0.resume();
    }
}

/// write-back 81: a server that hangs is given up on, for writing, for reading and for making a connection.
#[test]
fn write_back_81_a_server_that_does_not_answer_is_given_up_on() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = SqlServer::start(kind, Sync::Off, &[]).unwrap();
        let rig = Rig::on(&server, in_a_hurry);
        rig.create(&users());
        let hung = Hung::make(&server);

        let jobs = [
            rig.try_flush(&users(), vec![at(user("lili"), 1, aged(1))]),
            rig.try_load(&users(), vec![user("lili")]),
            rig.try_flush(&users(), vec![at(user("lili"), 2, aged(2))]),
        ];

        for done in jobs {
            assert!(matches!(&done, JobOutcome::Failed { error, .. } if error.class == Class::Retryable), "{done:?}");
        }
        drop(hung);
        rig.flush(&users(), vec![at(user("lili"), 3, aged(3))]);
    }
}

/// write-back 78, 81: what waited in the queue until the lease may be another's is not begun, and that is no outage.
#[test]
fn write_back_78_81_a_change_whose_time_is_over_is_not_begun() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("dead"), -1, aged(1))]);
        let (rows, begin_by) = (vec![at(user("lili"), 1, aged(1))], Some(Instant::now()));
        let write =
            FlushJob { ticket: rig.ticket(), table: users(), rows, begin_by, is_awaited: false, progress: PROGRESS };
        let rows = vec![(user("dead"), Version(-1))];
        let purge = PurgeJob { ticket: rig.ticket(), table: users(), rows, begin_by };

        let done = [rig.perform(Job::Flush(write)), rig.perform(Job::Purge(purge))];

        for done in done {
            assert!(matches!(&done, JobOutcome::Failed { error, .. } if error.class == Class::Busy), "{done:?}");
        }
        assert_eq!(rig.ask("SELECT __version__ FROM users"), "-1");
        let status = rig.handle.status();
        assert_eq!((status.connected, status.jobs_failed), (true, 0));
    }
}

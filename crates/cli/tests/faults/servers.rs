//! Troubles of PostgreSQL and MariaDB.

use shardine_testkit::Dir;
use shardine_testkit::sql_server::{Database, Kind, SqlServer, Sync};

use crate::behind::Behind;
use crate::disk::SmallDisk;
use crate::trial::Trial;

fn start(kind: Kind) -> (SqlServer, Trial) {
    behind(SqlServer::start(kind, Sync::Off, &[]).unwrap())
}

fn behind(sql: SqlServer) -> (SqlServer, Trial) {
    let trial = Trial::start(Behind::Server(sql.database().unwrap()));
    (sql, trial)
}

fn stopped_and_killed(kind: Kind) {
    let (mut sql, mut trial) = start(kind);
    sql.stop().unwrap();
    trial.writers.wait_for_more(300);
    // A start without SQL: what is in the log is served.
    trial.crash();
    trial.writers.wait_for_more(300);
    sql.start_again().unwrap();
    trial.writers.wait_for_more(300);

    sql.kill9().unwrap();
    trial.writers.wait_for_more(300);
    sql.start_again().unwrap();
    trial.crash();
    trial.finish();
}

#[test]
fn write_back_109_postgres_is_stopped_and_killed() {
    stopped_and_killed(Kind::Postgres);
}

#[test]
fn write_back_109_mariadb_is_stopped_and_killed() {
    stopped_and_killed(Kind::MariaDb);
}

/// Hung in the middle of whatever it was doing: its connections stay open, its statements may be done later.
fn hung_and_slowed(kind: Kind) {
    let (sql, mut trial) = start(kind);
    sql.pause().unwrap();
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    sql.resume().unwrap();
    for _ in 0..20 {
        sql.pause().unwrap();
        trial.writers.wait_for_more(50);
        sql.resume().unwrap();
        trial.writers.wait_for_more(50);
    }
    // Statements of the first life may still be running in the second.
    sql.pause().unwrap();
    trial.writers.wait_for_more(300);
    trial.crash();
    sql.resume().unwrap();
    trial.finish();
}

#[test]
fn write_back_93_postgres_hangs_and_goes_on_later() {
    hung_and_slowed(Kind::Postgres);
}

#[test]
fn write_back_93_mariadb_hangs_and_goes_on_later() {
    hung_and_slowed(Kind::MariaDb);
}

/// Says something as the server's operator.
fn operate(sql: &SqlServer, statement: &str) -> anyhow::Result<()> {
    let name = if sql.kind() == Kind::Postgres { "postgres" } else { "mysql" };
    Database { kind: sql.kind(), port: sql.port(), name: name.into() }.sql(statement).map(drop)
}

fn make_read_only(sql: &SqlServer, is_read_only: bool) {
    match sql.kind() {
        Kind::Postgres => {
            let value = if is_read_only { "on" } else { "off" };
            operate(sql, &format!("ALTER SYSTEM SET default_transaction_read_only = {value}")).unwrap();
            operate(sql, "SELECT pg_reload_conf()").unwrap();
        }
        Kind::MariaDb => operate(sql, &format!("SET GLOBAL read_only = {}", u8::from(is_read_only))).unwrap(),
    }
}

fn read_only(kind: Kind) {
    let (sql, mut trial) = start(kind);
    make_read_only(&sql, true);
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.writers.wait_for_more(300);
    make_read_only(&sql, false);
    trial.finish();
}

#[test]
fn write_back_112_postgres_is_made_read_only() {
    read_only(Kind::Postgres);
}

#[test]
fn write_back_112_mariadb_is_made_read_only() {
    read_only(Kind::MariaDb);
}

fn cut_off(kind: Kind) {
    let cut = match kind {
        Kind::Postgres => {
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'shardine'"
        }
        Kind::MariaDb => "KILL HARD USER app",
    };
    let (sql, mut trial) = start(kind);
    for round in 0..30 {
        // Between two cuts the connections may not be back: then there is nobody to cut.
        let _ = operate(&sql, cut);
        trial.writers.wait_for_more(20);
        if round % 15 == 7 {
            trial.crash();
        }
    }
    trial.finish();
}

#[test]
fn write_back_112_postgres_is_cut_off() {
    cut_off(Kind::Postgres);
}

#[test]
fn write_back_112_mariadb_is_cut_off() {
    cut_off(Kind::MariaDb);
}

fn full_disk(kind: Kind, settings: &[&str]) {
    let Some(disk) = SmallDisk::mount(400) else {
        eprintln!("not run: mounting a small disk is not allowed here");
        return;
    };
    let dir = Dir::within(disk.dir.path()).unwrap();
    let (mut sql, mut trial) = behind(SqlServer::start_in(dir, kind, Sync::Off, settings).unwrap());
    disk.fill();
    // What is left in files that were allocated before is used up first.
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.writers.wait_for_more(300);
    disk.free();
    // Some give up and end, some wait.
    if !sql.process().is_running() {
        sql.start_again().unwrap();
    }
    trial.finish();
}

#[test]
fn write_back_112_the_disk_of_postgres_is_full() {
    full_disk(Kind::Postgres, &["max_wal_size=32MB", "min_wal_size=32MB", "wal_recycle=off", "wal_init_zero=off"]);
}

#[test]
fn write_back_112_the_disk_of_mariadb_is_full() {
    full_disk(Kind::MariaDb, &["innodb-log-file-size=8M"]);
}

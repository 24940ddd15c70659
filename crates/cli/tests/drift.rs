//! An SQL table that was changed while Shardine was away.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_testkit::sql_server::{Kind, Shared};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

/// record-cache 112: it is told at start, with what to do about it. Until that is done memory is served and keeps what SQL
/// cannot take.
#[test]
fn record_cache_112_a_changed_table_is_told_at_start_with_its_remedy() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = Shared::database(kind).unwrap();
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let options = Options { sql: Sql::Url(shared.database.url()), binary, ..Options::default() };
        let mut server = Shardine::start_with(options).unwrap();
        let words = ["table", "create", "users", "--field", "age:int64", "--field", "city:string"];
        assert!(server.command(&words).output().unwrap().status.success());
        assert_eq!(call(&mut server.client().unwrap(), "HSET users:lili age 1 city Rome"), Reply::Int(2));
        server.stop().unwrap();
        shared.database.sql("ALTER TABLE users DROP COLUMN city").unwrap();

        server.restart().unwrap();
        let told = server.process().wait_for_line("SQL and the definition do not agree", PATIENCE).unwrap();
        let mut client = server.client().unwrap();
        assert_eq!(call(&mut client, "HSET users:lili age 2"), Reply::Int(0));
        assert_eq!(call(&mut client, "HGET users:lili city"), Reply::bulk("Rome"));

        assert!(told.contains("table users has no column city: add it with "), "{told}");
        let (_, remedy) = told.split_once("add it with ").unwrap();
        // Behind it stands the name of the table, coloured or not.
        let remedy = remedy.split('\u{1b}').next().unwrap().trim_end_matches(" table=\"users\"");
        shared.database.sql(remedy).unwrap_or_else(|error| panic!("{remedy}: {error}"));
        let look = || Ok((shared.database.sql("SELECT age, city FROM users")? == "2\tRome\n").then_some(()));
        wait_for("the row in SQL", PATIENCE, look).unwrap();
    }
}

//! Shardine with clients in front of it and a database behind it that will have a hard time.

use std::process::Command;

use shardine_testkit::{Options, PATIENCE, Reply, Shardine, Sql, wait_for};

use crate::behind::Behind;
use crate::writers::{Expected, KEYS, WRITERS, Writers};

pub struct Trial {
    pub behind: Behind,
    pub server: Shardine,
    pub writers: Writers,
}

impl Trial {
    pub fn start(behind: Behind) -> Trial {
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let options = Options { sql: Sql::Url(behind.url()), binary, ..Options::default() };
        let server = Shardine::start_with(options).unwrap();
        let words = ["table", "create", "users", "--field", "name:string", "--field", "age:int64"];
        let made = server.command(&words).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        behind.write_history();
        let writers = Writers::start(server.redis().number());
        writers.wait_for_more(WRITERS as u64 * KEYS as u64);
        Trial { behind, server, writers }
    }

    /// Kills Shardine and starts it again, whatever SQL is doing at the moment.
    pub fn crash(&mut self) {
        self.server.kill9().unwrap();
        self.server.restart().unwrap();
    }

    fn failed_jobs(&self) -> u64 {
        metric(&self.server, "shardine_sql_jobs_failed_total")
    }

    /// Waits until Shardine has noticed that something is wrong with SQL.
    pub fn wait_for_trouble(&self) {
        let before = self.failed_jobs();
        wait_for("SQL to fail", PATIENCE, || Ok((self.failed_jobs() > before).then_some(()))).unwrap();
    }

    /// Everything healed: SQL must come to where memory is, and the past must be in order.
    pub fn finish(mut self) {
        self.writers.wait_for_more(100);
        wait_for("rows to be changed in SQL", PATIENCE, || Ok((self.behind.history()?.0 > 0).then_some(()))).unwrap();
        let expected = self.writers.stop();
        let mut client = self.server.client().unwrap();
        wait_for("everything in SQL", PATIENCE, || {
            Ok((client.call(&["REC.FLUSH", "users"])? == Reply::ok()).then_some(()))
        })
        .unwrap();

        let mut rows = self.behind.rows();
        for (key, expected) in &expected {
            let Reply::Array(record) = client.call(&["REC.GET", &format!("users:{key}")]).unwrap() else {
                panic!("{key} cannot be read")
            };
            let Some((version, age, name)) = rows.remove(key) else {
                assert!(!expected.was_answered(), "{key} is not in SQL, and {} was answered", expected.acknowledged);
                assert_eq!(record, [Reply::Int(0), Reply::Int(0), Reply::Nil], "{key} is not in SQL");
                continue;
            };
            let Expected { acknowledged, asked } = expected;
            assert!([*acknowledged, *asked].contains(&age), "{key}: SQL has {age}, expected {acknowledged} or {asked}");
            assert_eq!(record[..2], [Reply::Int(version), Reply::Int(version)], "{key}: versions in memory and SQL");
            let fields = Reply::bulks(&["name", &name, "age", &age.to_string()]);
            assert_eq!(record[2], fields, "{key}: contents in memory and SQL");
        }
        assert!(rows.is_empty(), "in SQL, and nobody wrote them: {rows:?}");
        assert_eq!(self.behind.history().unwrap().1, 0, "a row went backwards");
    }
}

/// The number of `name` in `/metrics`.
fn metric(server: &Shardine, name: &str) -> u64 {
    let address = format!("http://{}/metrics", server.http().address());
    let page = Command::new("curl").args(["--silent", "--fail", &address]).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
}

//! Real SQL servers in trouble while clients write and Shardine is killed: stopped, killed, hung, slowed, made read-only,
//! cut off, filled up. At the end SQL equals memory, row for row and version for version; nothing that was acknowledged
//! is lost; and a trigger that wrote down every version of every row never saw one go down (record-cache 86, 87, 93, 109).

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use shardine_testkit::sql_server::{Database, Kind, Sync};
use shardine_testkit::{Client, Dir, Options, PATIENCE, Reply, Shardine, Sql, SqlServer, wait_for};

const WRITERS: usize = 4;
const KEYS: usize = 40;

/// What one key must hold at the end: what was answered last, or, if the answer was lost, what was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expected {
    acknowledged: i64,
    asked: i64,
}

struct Trial {
    sql: SqlServer,
    database: Database,
    server: Shardine,
    writers: Writers,
}

/// Clients that each own their keys and count them up, whatever happens to the server.
struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    expected: Arc<Mutex<BTreeMap<String, Expected>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(port: u16) -> Writers {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let expected = Arc::new(Mutex::new(BTreeMap::new()));
        let threads = (0..WRITERS).map(|writer| {
            let (stop, acknowledged, expected) = (Arc::clone(&stop), Arc::clone(&acknowledged), Arc::clone(&expected));
            std::thread::spawn(move || {
                let mut client = None;
                for turn in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("u{writer}_{}", turn % KEYS as u64);
                    if let Some(answered) = write_once(&mut client, port, &key, turn, &expected) {
                        acknowledged.fetch_add(u64::from(answered), Ordering::Relaxed);
                    }
                }
            })
        });
        Writers { threads: threads.collect(), stop, acknowledged, expected }
    }

    /// Waits until this many more writes were answered.
    fn wait_for_more(&self, count: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + count;
        wait_for("answered writes", PATIENCE, || Ok((self.acknowledged.load(Ordering::Relaxed) >= goal).then_some(())))
            .unwrap();
    }

    fn stop(&mut self) -> BTreeMap<String, Expected> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.expected.lock().unwrap().clone()
    }
}

/// One step of a key: up by one, every seventh time as a new record. Tells whether it was answered.
fn write_once(
    client: &mut Option<Client>,
    port: u16,
    key: &str,
    turn: u64,
    expected: &Mutex<BTreeMap<String, Expected>>,
) -> Option<bool> {
    if client.is_none() {
        *client = Client::connect(([127, 0, 0, 1], port).into()).ok();
    }
    let connected = client.as_mut()?;
    let name = format!("users:{key}");
    let before = expected.lock().unwrap().get(key).copied().unwrap_or_default();
    // After an answer that was lost nobody knows the value; it is read again first.
    if before.asked != before.acknowledged {
        let Ok(Reply::Bulk(found)) = connected.call(&["HGET", &name, "age"]) else {
            *client = None;
            return None;
        };
        let found: i64 = String::from_utf8_lossy(&found).parse().unwrap();
        assert!([before.acknowledged, before.asked].contains(&found), "{key}: {found}, expected {before:?}");
        expected.lock().unwrap().insert(key.into(), Expected { acknowledged: found, asked: found });
        return None;
    }
    let next = before.acknowledged + 1;
    expected.lock().unwrap().insert(key.into(), Expected { asked: next, ..before });
    let (age, title) = (next.to_string(), format!("n{turn}"));
    let set = ["HSET", &name, "age", &age, "name", &title];
    let reply = if turn % 7 == 6 { replace(connected, &name, &set) } else { connected.call(&set) };
    let mut expected = expected.lock().unwrap();
    match reply {
        Ok(Reply::Int(_)) => {
            expected.insert(key.into(), Expected { acknowledged: next, asked: next });
            Some(true)
        }
        // Refused and not executed: the row is not in memory and SQL is away.
        Ok(Reply::Error(text)) if text.contains("backend_unavailable") => {
            if before.asked == 0 {
                // Never written: there is no row to be found in the end.
                expected.remove(key);
            } else {
                expected.insert(key.into(), before);
            }
            Some(false)
        }
        Ok(other) => panic!("{key}: {other:?}"),
        Err(_) => {
            *client = None;
            None
        }
    }
}

/// Deletes and makes anew in one batch: the row passes through a tombstone's version on its way.
fn replace(client: &mut Client, name: &str, set: &[&str]) -> anyhow::Result<Reply> {
    client.call(&["MULTI"])?;
    client.call(&["DEL", name])?;
    client.call(set)?;
    match client.call(&["EXEC"])? {
        Reply::Array(mut replies) if replies.len() == 2 => Ok(replies.remove(1)),
        other => Ok(other),
    }
}

impl Trial {
    fn start(sql: SqlServer) -> Trial {
        let database = sql.database().unwrap();
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let options = Options { sql: Sql::Url(database.url()), binary, ..Options::default() };
        let server = Shardine::start_with(options).unwrap();
        let words = ["table", "create", "users", "--field", "name:string", "--field", "age:int64"];
        let made = server.command(&words).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        write_history(&database);
        let writers = Writers::start(server.redis().number());
        writers.wait_for_more(WRITERS as u64 * KEYS as u64);
        Trial { sql, database, server, writers }
    }

    /// Kills Shardine and starts it again, whatever SQL is doing at the moment.
    fn crash(&mut self) {
        self.server.kill9().unwrap();
        self.server.restart().unwrap();
    }

    fn failed_jobs(&self) -> u64 {
        metric(&self.server, "shardine_sql_jobs_failed_total")
    }

    /// Waits until Shardine has noticed that something is wrong with SQL.
    fn wait_for_trouble(&self) {
        let before = self.failed_jobs();
        wait_for("SQL to fail", PATIENCE, || Ok((self.failed_jobs() > before).then_some(()))).unwrap();
    }

    /// Everything healed: SQL must come to where memory is, and the past must be in order.
    fn finish(mut self) {
        self.writers.wait_for_more(100);
        wait_for("rows to be changed in SQL", PATIENCE, || {
            Ok((self.database.sql("SELECT count(*) FROM seen")?.trim() != "0").then_some(()))
        })
        .unwrap();
        let expected = self.writers.stop();
        let mut client = self.server.client().unwrap();
        wait_for("everything in SQL", PATIENCE, || {
            Ok((client.call(&["REC.FLUSH", "users"])? == Reply::ok()).then_some(()))
        })
        .unwrap();

        let mut rows = self.rows_in_sql();
        assert_eq!(rows.len(), expected.len(), "every key has its row");
        for (key, Expected { acknowledged, asked }) in &expected {
            let (version, age, name) = rows.remove(key).unwrap();
            assert!([*acknowledged, *asked].contains(&age), "{key}: SQL has {age}, expected {acknowledged} or {asked}");
            let Reply::Array(record) = client.call(&["REC.GET", &format!("users:{key}")]).unwrap() else {
                panic!("{key} is not in memory")
            };
            assert_eq!(record[..2], [Reply::Int(version), Reply::Int(version)], "{key}: versions in memory and SQL");
            let fields = Reply::bulks(&["name", &name, "age", &age.to_string()]);
            assert_eq!(record[2], fields, "{key}: contents in memory and SQL");
        }
        let backwards = self.database.sql("SELECT count(*) FROM seen WHERE abs(became) <= abs(was)").unwrap();
        assert_eq!(backwards.trim(), "0", "a row went backwards");
    }

    fn rows_in_sql(&self) -> BTreeMap<String, (i64, i64, String)> {
        let select = match self.database.kind {
            Kind::Postgres => "SELECT convert_from(__key__, 'UTF8'), __version__, age, name FROM users",
            Kind::MariaDb => "SELECT __key__, __version__, age, name FROM users",
        };
        let text = self.database.sql(select).unwrap();
        let row = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            (parts[0].to_owned(), (parts[1].parse().unwrap(), parts[2].parse().unwrap(), parts[3].to_owned()))
        };
        text.lines().map(row).collect()
    }
}

fn write_history(database: &Database) {
    database.sql("CREATE TABLE seen (was BIGINT, became BIGINT)").unwrap();
    let trigger = match database.kind {
        Kind::Postgres => {
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO seen VALUES (old.__version__, new.__version__); RETURN NULL; END $$; \
             CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW EXECUTE FUNCTION note()"
        }
        Kind::MariaDb => {
            "CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW IF old.__version__ <> new.__version__ THEN \
             INSERT INTO seen VALUES (old.__version__, new.__version__); END IF"
        }
    };
    database.sql(trigger).unwrap();
}

/// The number of `name` in `/metrics`.
fn metric(server: &Shardine, name: &str) -> u64 {
    let address = format!("http://{}/metrics", server.http().address());
    let page = Command::new("curl").args(["--silent", "--fail", &address]).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
}

fn start(kind: Kind) -> Trial {
    Trial::start(SqlServer::start(kind, Sync::Off, &[]).unwrap())
}

fn stopped_and_killed(kind: Kind) {
    let mut trial = start(kind);
    trial.sql.stop().unwrap();
    trial.writers.wait_for_more(300);
    // A start without SQL: what is in the log is served.
    trial.crash();
    trial.writers.wait_for_more(300);
    trial.sql.start_again().unwrap();
    trial.writers.wait_for_more(300);

    trial.sql.kill9().unwrap();
    trial.writers.wait_for_more(300);
    trial.sql.start_again().unwrap();
    trial.crash();
    trial.finish();
}

#[test]
fn record_cache_109_postgres_is_stopped_and_killed() {
    stopped_and_killed(Kind::Postgres);
}

#[test]
fn record_cache_109_mariadb_is_stopped_and_killed() {
    stopped_and_killed(Kind::MariaDb);
}

/// Hung in the middle of whatever it was doing: its connections stay open, its statements may be done later.
fn hung_and_slowed(kind: Kind) {
    let mut trial = start(kind);
    trial.sql.pause().unwrap();
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.sql.resume().unwrap();
    for _ in 0..20 {
        trial.sql.pause().unwrap();
        trial.writers.wait_for_more(50);
        trial.sql.resume().unwrap();
        trial.writers.wait_for_more(50);
    }
    // Statements of the first life may still be running in the second.
    trial.sql.pause().unwrap();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.sql.resume().unwrap();
    trial.finish();
}

#[test]
fn record_cache_93_postgres_hangs_and_goes_on_later() {
    hung_and_slowed(Kind::Postgres);
}

#[test]
fn record_cache_93_mariadb_hangs_and_goes_on_later() {
    hung_and_slowed(Kind::MariaDb);
}

fn read_only_and_cut_off(kind: Kind) {
    let (read_only, read_write, cut) = match kind {
        Kind::Postgres => (
            "ALTER SYSTEM SET default_transaction_read_only = on",
            "ALTER SYSTEM SET default_transaction_read_only = off",
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'shardine'",
        ),
        Kind::MariaDb => ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "KILL HARD USER app"),
    };
    let trial = start(kind);
    let admin =
        Database { name: if kind == Kind::Postgres { "postgres" } else { "mysql" }.into(), ..trial.database.clone() };
    let set = |statement: &str| {
        admin.sql(statement).unwrap();
        if kind == Kind::Postgres {
            admin.sql("SELECT pg_reload_conf()").unwrap();
        }
    };
    set(read_only);
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    set(read_write);
    for _ in 0..30 {
        // Between two cuts the connections may not be back: then there is nobody to cut.
        let _ = admin.sql(cut);
        trial.writers.wait_for_more(20);
    }
    trial.finish();
}

#[test]
fn record_cache_112_postgres_is_made_read_only_and_cut_off() {
    read_only_and_cut_off(Kind::Postgres);
}

#[test]
fn record_cache_112_mariadb_is_made_read_only_and_cut_off() {
    read_only_and_cut_off(Kind::MariaDb);
}

/// A disk of its own, in memory, that can be filled.
struct SmallDisk {
    dir: Dir,
}

impl SmallDisk {
    /// None where this machine does not let a test mount anything.
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let dir = Dir::new().unwrap();
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        done.is_ok_and(|status| status.success()).then_some(SmallDisk { dir })
    }

    fn fill(&self) {
        // Ends with an error when there is no room left, which is the point.
        let to = format!("of={}", self.dir.join("filler").display());
        let _ = Command::new("dd").args(["if=/dev/zero", &to, "bs=1M", "status=none"]).output();
    }

    fn free(&self) {
        std::fs::remove_file(self.dir.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(self.dir.path()).status();
    }
}

fn full_disk(kind: Kind, settings: &[&str]) {
    let Some(disk) = SmallDisk::mount(400) else {
        eprintln!("not run: mounting a small disk is not allowed here");
        return;
    };
    let mut trial =
        Trial::start(SqlServer::start_in(Dir::within(disk.dir.path()).unwrap(), kind, Sync::Off, settings).unwrap());
    disk.fill();
    // What is left in files that were allocated before is used up first.
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.writers.wait_for_more(300);
    disk.free();
    // Some give up and end, some wait.
    if !trial.sql.process().is_running() {
        trial.sql.start_again().unwrap();
    }
    trial.finish();
}

#[test]
fn record_cache_112_the_disk_of_postgres_is_full() {
    full_disk(Kind::Postgres, &["max_wal_size=32MB", "min_wal_size=32MB", "wal_recycle=off", "wal_init_zero=off"]);
}

#[test]
fn record_cache_112_the_disk_of_mariadb_is_full() {
    full_disk(Kind::MariaDb, &["innodb-log-file-size=8M"]);
}

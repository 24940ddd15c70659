//! Real PostgreSQL and MariaDB servers on free ports, each with its data in a folder of its own, run as a user without
//! rights where the test itself runs as root (PostgreSQL refuses to start otherwise).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::certificate::Certificate;
use crate::{Dir, PATIENCE, Port, Process};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MariaDb,
}

/// Whether a commit waits for the disk. Tests kill servers, never machines, and need not wait; measurements do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Off,
    On,
}

pub struct SqlServer {
    kind: Kind,
    process: Process,
    port: Port,
    settings: Vec<String>,
    dir: Dir,
}

/// A database of its own on some server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub kind: Kind,
    pub port: u16,
    pub name: String,
}

/// Who looks behind Shardine's back and may do everything.
const USER: &str = "shardine";
/// Who Shardine itself is on MariaDB.
const APP: &str = "app";

/// An empty database on the server that the whole test run shares, or, where nobody started one, on a server of its own.
pub struct Shared {
    pub database: Database,
    _server: Option<SqlServer>,
}

impl Shared {
    pub fn database(kind: Kind) -> Result<Shared> {
        match std::env::var(kind.shared_port()) {
            Ok(port) => {
                let port = port.parse().with_context(|| format!("{} is no port", kind.shared_port()))?;
                Ok(Shared { database: Database::make(kind, port)?, _server: None })
            }
            Err(_) => {
                let server = SqlServer::start(kind, Sync::Off, &[])?;
                Ok(Shared { database: server.database()?, _server: Some(server) })
            }
        }
    }
}

impl Kind {
    /// The variable that names the port of the shared server to the tests.
    #[must_use]
    pub fn shared_port(self) -> &'static str {
        match self {
            Kind::Postgres => "SHARDINE_TEST_POSTGRES_PORT",
            Kind::MariaDb => "SHARDINE_TEST_MARIADB_PORT",
        }
    }
}

impl SqlServer {
    /// Makes a server with nothing in it and waits until it answers. `extra` are settings as `name=value`.
    pub fn start(kind: Kind, sync: Sync, extra: &[&str]) -> Result<SqlServer> {
        Self::start_in(Dir::new()?, kind, sync, extra)
    }

    /// The same with its data inside of `dir`, such as a small disk of its own.
    pub fn start_in(dir: Dir, kind: Kind, sync: Sync, extra: &[&str]) -> Result<SqlServer> {
        let account = Account::find()?;
        account.own(dir.path())?;
        make_data(kind, &dir, &account)?;
        let port = Port::free()?;
        let settings: Vec<String> = settings(kind, sync).iter().chain(extra).map(ToString::to_string).collect();
        let process = spawn(kind, &dir, &port, &settings, &account)?;
        let mut server = SqlServer { kind, process, port, settings, dir };
        server.wait_until_serving()?;
        if kind == Kind::MariaDb {
            // The application's user has no rights over the server, so that `read_only` holds for it.
            let grant = format!(
                "CREATE USER {USER}@'127.0.0.1'; GRANT ALL ON *.* TO {USER}@'127.0.0.1'; \
                 CREATE USER {APP}@'127.0.0.1'; GRANT ALL ON `t%`.* TO {APP}@'127.0.0.1'"
            );
            let socket = server.dir.join("socket");
            run(Command::new("mariadb").args(["--no-defaults", "-uroot"]).arg("-S").arg(socket).args(["-e", &grant]))?;
        }
        Ok(server)
    }

    /// A server that offers TLS with a certificate for 127.0.0.1.
    pub fn start_secure(kind: Kind) -> Result<SqlServer> {
        let (dir, account) = (Dir::new()?, Account::find()?);
        let made = Certificate::make(dir.path())?;
        [&made.certificate, &made.key].into_iter().try_for_each(|path| account.own(path))?;
        let (certificate, key) = (made.certificate.display(), made.key.display());
        let extra = match kind {
            Kind::Postgres => ["ssl=on".into(), format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")],
            Kind::MariaDb => ["ssl=on".into(), format!("ssl-cert={certificate}"), format!("ssl-key={key}")],
        };
        Self::start_in(dir, kind, Sync::Off, &extra.each_ref().map(String::as_str))
    }

    /// The certificate of the authority behind `start_secure`.
    pub fn authority(&self) -> PathBuf {
        self.dir.join("authority.pem")
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The signals and the end of the server's first process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Starts again on the same port and data after a stop or a kill.
    pub fn start_again(&mut self) -> Result<()> {
        // Backends of a killed server go when they notice; until then PostgreSQL will not start over them.
        let (kind, dir, port, settings) = (self.kind, &self.dir, &self.port, &self.settings);
        let account = Account::find()?;
        for _ in 0..50 {
            self.process = spawn(kind, dir, port, settings, &account)?;
            if let Ok(()) = wait_until_serving(kind, &mut self.process, port, dir) {
                return Ok(());
            }
        }
        bail!("{kind:?} does not start again")
    }

    pub fn wait_until_serving(&mut self) -> Result<()> {
        wait_until_serving(self.kind, &mut self.process, &self.port, &self.dir)
    }

    /// Stops at once, cutting its connections, as a restart by an operator in a hurry would.
    pub fn stop(&mut self) -> Result<()> {
        let signal = if self.kind == Kind::Postgres { Signal::INT } else { Signal::TERM };
        self.process.signal(signal)?;
        self.process.wait(PATIENCE).map(drop)
    }

    /// Kills the server and everything it started.
    pub fn kill9(&mut self) -> Result<()> {
        let pid = self.process.pid().to_string();
        // Ends with 1 if there are no children.
        let _ = Command::new("pkill").args(["-KILL", "-P", &pid]).status();
        self.process.kill9()
    }

    /// Lets nothing move in the server, as a hung machine would; connections stay open.
    pub fn pause(&self) -> Result<()> {
        self.signal_all("-STOP")
    }

    pub fn resume(&self) -> Result<()> {
        self.signal_all("-CONT")
    }

    fn signal_all(&self, signal: &str) -> Result<()> {
        let pid = self.process.pid().to_string();
        let _ = Command::new("pkill").args([signal, "-P", &pid]).status();
        run(Command::new("kill").args([signal, &pid])).map(drop)
    }

    /// Makes an empty database.
    pub fn database(&self) -> Result<Database> {
        Database::make(self.kind, self.port.number())
    }

    /// What `--sql` takes from whoever shares files with the server, and no network. PostgreSQL only.
    #[must_use]
    pub fn url_by_file(&self, database: &Database) -> String {
        let folder = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://{USER}@{folder}:{}/{}", self.port(), database.name)
    }

    /// The folder with its files.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }
}

impl Drop for SqlServer {
    fn drop(&mut self) {
        let _ = self.resume();
        // PostgreSQL's immediate stop ends its children too; a plain kill would leave them to find out.
        let _ = self.process.signal(if self.kind == Kind::Postgres { Signal::QUIT } else { Signal::KILL });
        let _ = self.process.wait(PATIENCE);
    }
}

impl Database {
    /// An empty database on a server that listens on this port.
    pub fn make(kind: Kind, port: u16) -> Result<Database> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Process ids come again within the life of a shared server.
        let moment = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
        let name = format!("t{}_{number}_{moment}", std::process::id());
        let first = if kind == Kind::Postgres { "postgres" } else { "mysql" };
        let home = Database { kind, port, name: first.into() };
        home.sql(&format!("CREATE DATABASE {name}"))?;
        Ok(Database { kind, port, name })
    }

    /// What `--sql` takes.
    #[must_use]
    pub fn url(&self) -> String {
        let (scheme, user) = if self.kind == Kind::Postgres { ("postgres", USER) } else { ("mysql", APP) };
        format!("{scheme}://{user}@127.0.0.1:{}/{}", self.port, self.name)
    }

    /// Runs statements through the database's own client and returns what they print: a line per row, columns separated
    /// by tabs.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let port = self.port.to_string();
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut psql = Command::new("psql");
                // Also when the server was made read-only for everybody else.
                psql.env("PGOPTIONS", "-c default_transaction_read_only=off");
                psql.args([
                    "-X",
                    "-q",
                    "-A",
                    "-t",
                    "-F",
                    "\t",
                    "-v",
                    "ON_ERROR_STOP=1",
                    "-h",
                    "127.0.0.1",
                    "-p",
                    &port,
                ]);
                psql.args(["-U", USER, "-d", &self.name, "-c", statements]);
                psql
            }
            Kind::MariaDb => {
                let mut mariadb = Command::new("mariadb");
                // Another delimiter than the one inside of triggers.
                mariadb.args([
                    "--no-defaults",
                    "--batch",
                    "--skip-column-names",
                    "--delimiter=//",
                    "-h",
                    "127.0.0.1",
                    "-P",
                    &port,
                ]);
                mariadb.args(["-u", USER, &self.name, "-e", statements]);
                mariadb
            }
        };
        run(&mut command)
    }
}

/// A session of PostgreSQL's client that has done something and does not end, so that its locks stay until it is dropped.
pub struct HeldLocks {
    client: Child,
}

impl Database {
    /// Runs statements on a connection that stays open with what they locked. PostgreSQL only.
    pub fn hold(&self, statements: &str) -> Result<HeldLocks> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-h", "127.0.0.1", "-U", USER, "-d", &self.name, "-p", &self.port.to_string()]);
        let mut client = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start psql")?;
        let input = client.stdin.as_mut().context("its input")?;
        writeln!(input, "{statements};\n\\echo held")?;
        let mut line = String::new();
        BufReader::new(client.stdout.as_mut().context("its output")?).read_line(&mut line)?;
        if line.trim() != "held" {
            bail!("psql said {line:?}");
        }
        Ok(HeldLocks { client })
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        // The end of its input is the end of the session.
        drop(self.client.stdin.take());
        let _ = self.client.wait();
    }
}

/// Who runs the server: the caller, or, if that is root, a user without rights.
struct Account {
    ids: Option<(u32, u32)>,
}

impl Account {
    fn find() -> Result<Account> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Account { ids: None });
        }
        let number = |option: &str| run(Command::new("id").args([option, "nobody"]))?.trim().parse().context("an id");
        Ok(Account { ids: Some((number("-u")?, number("-g")?)) })
    }

    fn own(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.ids else { return Ok(()) };
        chown(path, Some(user), Some(group)).with_context(|| format!("give {} away", path.display()))
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

fn make_data(kind: Kind, dir: &Dir, account: &Account) -> Result<()> {
    let data = dir.join("data");
    let mut command = match kind {
        Kind::Postgres => {
            let mut command = account.command(postgres_program("initdb")?);
            command.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", USER, "-D"]).arg(&data);
            command
        }
        Kind::MariaDb => {
            let mut command = account.command("mariadb-install-db");
            command.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
            command.arg(format!("--datadir={}", data.display()));
            command.arg(own_tmpdir(dir));
            command
        }
    };
    run(command.current_dir(dir.path())).map(drop)
}

fn settings(kind: Kind, sync: Sync) -> &'static [&'static str] {
    match (kind, sync) {
        (Kind::Postgres, Sync::Off) => &["fsync=off", "full_page_writes=off", "max_connections=200"],
        (Kind::Postgres, Sync::On) => &["max_connections=200"],
        (Kind::MariaDb, Sync::Off) => {
            &["innodb-flush-log-at-trx-commit=2", "innodb-flush-method=nosync", "innodb-buffer-pool-size=64M"]
        }
        (Kind::MariaDb, Sync::On) => &["innodb-buffer-pool-size=256M"],
    }
}

fn spawn(kind: Kind, dir: &Dir, port: &Port, settings: &[String], account: &Account) -> Result<Process> {
    let (data, port) = (dir.join("data"), port.number().to_string());
    let mut command = match kind {
        Kind::Postgres => {
            let mut command = account.command(postgres_program("postgres")?);
            command.args(["-h", "127.0.0.1", "-p", &port, "-k"]).arg(dir.path()).arg("-D").arg(data);
            for setting in settings {
                command.args(["-c", setting]);
            }
            command
        }
        Kind::MariaDb => {
            let mut command = account.command(if Path::new("/usr/sbin/mariadbd").exists() {
                "/usr/sbin/mariadbd"
            } else {
                "mariadbd"
            });
            command.args(["--no-defaults", "--bind-address=127.0.0.1", "--port", &port]);
            command.arg(format!("--datadir={}", data.display()));
            command.arg(format!("--socket={}", dir.join("socket").display()));
            command.arg(format!("--pid-file={}", dir.join("pid").display()));
            command.arg(own_tmpdir(dir));
            command.args(settings.iter().map(|setting| format!("--{setting}")));
            command
        }
    };
    Process::spawn(&format!("{kind:?}"), command.current_dir(dir.path()), &dir.join("server.log"))
}

/// Two servers that share a folder for temporary tables delete each other's, also while they make their first tables.
fn own_tmpdir(dir: &Dir) -> String {
    format!("--tmpdir={}", dir.path().display())
}

fn wait_until_serving(kind: Kind, process: &mut Process, port: &Port, dir: &Dir) -> Result<()> {
    let number = port.number().to_string();
    process.wait_until("answer", PATIENCE, || {
        let mut probe = match kind {
            Kind::Postgres => {
                let mut probe = Command::new("pg_isready");
                probe.args(["-q", "-h", "127.0.0.1", "-p", &number]);
                probe
            }
            Kind::MariaDb => {
                let mut probe = Command::new("mariadb-admin");
                probe.args(["--no-defaults", "-uroot", "ping", "-S"]).arg(dir.join("socket"));
                probe
            }
        };
        Ok(run(&mut probe).ok().map(drop))
    })
}

/// Debian keeps the server's programs away from the path, by version.
fn postgres_program(name: &str) -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .context("PostgreSQL is not installed: cargo xtask setup")?
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .filter(|program| program.exists())
        .collect();
    found.sort();
    found.pop().with_context(|| format!("PostgreSQL has no {name}: cargo xtask setup"))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_outlive_a_kill() {
        for kind in [Kind::Postgres, Kind::MariaDb] {
            let mut server = SqlServer::start(kind, Sync::Off, &[]).unwrap();
            let database = server.database().unwrap();
            database.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)").unwrap();

            server.kill9().unwrap();
            server.start_again().unwrap();

            assert_eq!(database.sql("SELECT a, a + 1 FROM t").unwrap(), "7\t8\n");
        }
    }
}

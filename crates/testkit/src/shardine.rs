//! The shardine binary under test, started as a user starts it: `shardine up`.

use std::{env, path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::{Client, Dir, PATIENCE, Port, Process};

/// Which SQL database stands behind the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sql {
    None,
    /// SQLite in the file [`Shardine::sqlite_path`].
    Sqlite,
    /// A server, such as [`crate::sql_server::Shared`] has a database on.
    Url(String),
}

/// Which doors have to be open before a server counts as started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doors {
    All,
    /// For measurements, which use no other.
    Redis,
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Options {
    pub sql: Sql,
    pub doors: Doors,
    /// Further arguments of `up`, as typed.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// The binary; found by [`find_binary`] when absent.
    pub binary: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { sql: Sql::None, doors: Doors::All, args: Vec::new(), env: Vec::new(), binary: None }
    }
}

/// A running `shardine up` on free ports with its data in a folder of its own. Both survive [`Shardine::kill9`] and
/// [`Shardine::restart`]; the process does not survive this value.
pub struct Shardine {
    process: Process,
    redis: Port,
    grpc: Port,
    http: Port,
    options: Options,
    binary: PathBuf,
    dir: Dir,
}

impl Shardine {
    /// Starts an empty server without SQL and waits until all its doors are open.
    pub fn start() -> Result<Shardine> {
        Shardine::start_with(Options::default())
    }

    /// Starts an empty server and waits until all its doors are open.
    pub fn start_with(options: Options) -> Result<Shardine> {
        Shardine::start_in(Dir::new()?, options)
    }

    /// Starts a server with its data inside `dir` and waits until all its doors are open.
    pub fn start_in(dir: Dir, options: Options) -> Result<Shardine> {
        let (redis, grpc, http) = (Port::free()?, Port::free()?, Port::free()?);
        let binary = match &options.binary {
            Some(path) => path.clone(),
            None => find_binary()?,
        };
        let mut up = up_command(&binary, &dir, [&redis, &grpc, &http], &options);
        let process = Process::spawn("shardine", &mut up, &dir.join("shardine.log"))?;
        let mut server = Shardine { process, redis, grpc, http, options, binary, dir };
        server.wait_until_serving()?;
        Ok(server)
    }

    /// Starts the server again on the same ports and data, without waiting for it to serve.
    pub fn start_again(&mut self) -> Result<()> {
        let ports = [&self.redis, &self.grpc, &self.http];
        let mut up = up_command(&self.binary, &self.dir, ports, &self.options);
        self.process = Process::spawn("shardine", &mut up, &self.dir.join("shardine.log"))?;
        Ok(())
    }

    /// Waits until the Redis door answers and the two others, if asked for, accept connections.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        let redis = self.redis.address();
        self.process.wait_until("answer PING", PATIENCE, || {
            Ok(Client::connect(redis).and_then(|mut client| client.knock()).ok())
        })?;
        if self.options.doors == Doors::Redis {
            return Ok(());
        }
        self.process.wait_for_port(self.grpc.address(), PATIENCE)?;
        self.process.wait_for_port(self.http.address(), PATIENCE)
    }

    /// Kills the process without a warning.
    pub fn kill9(&mut self) -> Result<()> {
        self.process.kill9()
    }

    /// Stops the process cleanly (SIGTERM).
    pub fn stop(&mut self) -> Result<()> {
        let status = self.process.terminate(PATIENCE)?;
        if !status.success() {
            bail!("shardine ended with {status} after SIGTERM:\n{}", self.process.output());
        }
        Ok(())
    }

    /// Starts the server on the same ports and data, after stopping it cleanly if it still runs.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_running() {
            self.stop()?;
        }
        self.start_again()?;
        self.wait_until_serving()
    }

    /// A new connection to the Redis door.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.redis.address())
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub fn redis(&self) -> &Port {
        &self.redis
    }

    pub fn grpc(&self) -> &Port {
        &self.grpc
    }

    pub fn http(&self) -> &Port {
        &self.http
    }

    /// The folder given as `--data`.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The database file of [`Sql::Sqlite`].
    pub fn sqlite_path(&self) -> PathBuf {
        sqlite_path(&self.dir)
    }

    /// The binary that is being run, for commands such as `shardine status`.
    pub fn binary(&self) -> &std::path::Path {
        &self.binary
    }

    /// A command of the same binary that talks to this server.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).env("SHARDINE_SERVER", self.grpc.address().to_string());
        command
    }
}

/// Finds the built binary: where `SHARDINE_BIN` or the test runner says, else beside the running program.
///
/// A test of another package than `shardine` is not told by cargo where the binary is, nor is it built first: `cargo xtask
/// test` builds the workspace before it runs tests.
pub fn find_binary() -> Result<PathBuf> {
    for name in ["SHARDINE_BIN", "CARGO_BIN_EXE_shardine", "NEXTEST_BIN_EXE_shardine"] {
        if let Some(path) = env::var_os(name) {
            return Ok(PathBuf::from(path));
        }
    }
    // Tests run as `target/<profile>/deps/name-hash`, binaries as `target/<profile>/name`.
    let program = env::current_exe()?;
    let beside = program.ancestors().skip(1).take(2).map(|dir| dir.join("shardine"));
    match beside.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "no shardine binary near {}: run `cargo build -p shardine` with the same profile first",
            program.display()
        ),
    }
}

/// Finds a built example of any package: beside the programs, in a folder of its own.
pub fn find_example(name: &str) -> Result<PathBuf> {
    let program = env::current_exe()?;
    let dirs = program.ancestors().skip(1).take(2).map(|dir| dir.join("examples"));
    match dirs.map(|dir| dir.join(name)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            bail!("no example {name} near {}: run `cargo build --workspace --all-targets` first", program.display())
        }
    }
}

fn up_command(binary: &PathBuf, dir: &Dir, [redis, grpc, http]: [&Port; 3], options: &Options) -> Command {
    let sql = match &options.sql {
        Sql::None => "none".to_owned(),
        Sql::Sqlite => format!("sqlite:{}", sqlite_path(dir).display()),
        Sql::Url(url) => url.clone(),
    };
    let mut command = Command::new(binary);
    command.arg("up").arg("--data").arg(dir.join("data")).args(["--sql", &sql]);
    for (flag, port) in [("--redis", redis), ("--grpc", grpc), ("--http", http)] {
        command.arg(flag).arg(port.address().to_string());
    }
    command.args(&options.args).envs(options.env.iter().map(|(name, value)| (name, value)));
    command
}

fn sqlite_path(dir: &Dir) -> PathBuf {
    dir.join("rows.sqlite")
}

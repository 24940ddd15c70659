//! Servers of goals as processes, on free ports: three data centres of some shards each. For the demonstration, the tests and
//! the measurements.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use shardine_kit::provider::Fixed;
use shardine_testkit::{Dir, PATIENCE, Port, Process};

use super::data;

pub const DCS: [&str; 3] = ["iva", "sas", "vla"];
/// Counters that have goals.
pub const COUNTERS: u32 = 3_000;

/// How a fleet is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `goals`.
    pub program: PathBuf,
    /// Where claims are kept; in a file of the fleet's own if nothing is said.
    pub claims: Option<String>,
    pub bounds: Vec<u64>,
    pub ping_ms: u64,
}

pub struct Fleet {
    plan: Plan,
    /// Words for every server's command line.
    words: Vec<String>,
    pub servers: Vec<Server>,
    dir: Dir,
}

/// A place for a server; its process comes and goes.
pub struct Server {
    pub dc: &'static str,
    pub port: Port,
    pub process: Process,
}

impl Fleet {
    /// Starts as many servers per data centre as there are shards, and waits until all serve.
    pub fn start(plan: Plan) -> Result<Fleet> {
        Self::start_with(plan, &[])
    }

    /// The same with further words for the servers' command line.
    pub fn start_with(plan: Plan, words: &[&str]) -> Result<Fleet> {
        let words = words.iter().map(ToString::to_string).collect();
        let dir = Dir::new()?;
        data::make(&dir.join("goals.sqlite"), COUNTERS)?;
        let mut fleet = Fleet { plan, words, servers: Vec::new(), dir };
        for dc in DCS {
            for _ in 0..=fleet.plan.bounds.len() {
                fleet.add(dc)?;
            }
        }
        for server in &mut fleet.servers {
            server.wait_until_serving()?;
        }
        Ok(fleet)
    }

    /// One more server, which may find a shard or not.
    pub fn add(&mut self, dc: &'static str) -> Result<()> {
        let port = Port::free()?;
        let process = self.spawn(dc, &port, &self.plan.bounds, &[])?;
        self.servers.push(Server { dc, port, process });
        Ok(())
    }

    /// Stops all servers of a data centre and starts them with other bounds, as a release of new bounds does.
    pub fn restart(&mut self, dc: &str, bounds: &[u64]) -> Result<()> {
        for server in self.servers.iter_mut().filter(|server| server.dc == dc) {
            server.process.kill9()?;
        }
        for number in 0..self.servers.len() {
            if self.servers[number].dc == dc {
                self.start_again_with(number, bounds, &[])?;
            }
        }
        self.servers.iter_mut().filter(|server| server.dc == dc).try_for_each(Server::wait_until_serving)
    }

    /// Starts one server again, where it was.
    pub fn start_again(&mut self, number: usize) -> Result<()> {
        self.start_again_with(number, &self.plan.bounds.clone(), &[])
    }

    /// The same with other bounds, and further words for its command line.
    pub fn start_again_with(&mut self, number: usize, bounds: &[u64], words: &[String]) -> Result<()> {
        let server = &self.servers[number];
        let process = self.spawn(server.dc, &server.port, bounds, words)?;
        self.servers[number].process = process;
        Ok(())
    }

    fn spawn(&self, dc: &str, port: &Port, bounds: &[u64], words: &[String]) -> Result<Process> {
        let claims = self.plan.claims.clone();
        let claims = claims.unwrap_or_else(|| format!("sqlite:{}", self.dir.join("claims.sqlite").display()));
        let bounds: Vec<String> = bounds.iter().map(u64::to_string).collect();
        let mut command = Command::new(&self.plan.program);
        command.args(["server", "--dc", dc, "--claims", &claims, "--listen", &port.address().to_string()]);
        command.args(["--ping-ms", &self.plan.ping_ms.to_string()]);
        command.args(&self.words).args(words);
        if !bounds.is_empty() {
            command.args(["--bounds", &bounds.join(",")]);
        }
        command.arg("--goals").arg(self.dir.join("goals.sqlite"));
        let log = self.dir.join(format!("{dc}-{}.log", port.number()));
        Process::spawn(&format!("{dc} {}", port.number()), &mut command, &log).context("start a server of goals")
    }

    /// All of them, as a client is told.
    pub fn hosts(&self) -> Fixed {
        Fixed::new(self.servers.iter().map(|server| server.port.address().to_string()))
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Server {
    pub fn wait_until_serving(&mut self) -> Result<()> {
        self.process.wait_for_line("serving", PATIENCE).map(drop)
    }

    /// The line that tells shard and generation.
    pub fn serving(&mut self) -> Result<String> {
        self.process.wait_for_line("serving", PATIENCE)
    }

    pub fn address(&self) -> String {
        self.port.address().to_string()
    }
}

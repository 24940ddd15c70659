//! The real redis-server, to compare with: the same commands, the same disk, another engine.

use std::{path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::{Client, Dir, PATIENCE, Port, Process};

/// What Redis writes to its append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appendonly {
    /// Nothing: memory only.
    Off,
    /// Every write, synced before the answer.
    Always,
}

/// A redis-server on a free port with its data in a folder of its own.
pub struct RedisServer {
    process: Process,
    port: Port,
    args: Vec<String>,
    dir: Dir,
}

impl RedisServer {
    /// Starts an empty server in `dir`. `extra` are further settings, as on the command line (`--name value`).
    pub fn start(dir: Dir, appendonly: Appendonly, extra: &[&str]) -> Result<RedisServer> {
        let port = Port::free()?;
        let mut args = args(&port, &dir, appendonly);
        args.extend(extra.iter().map(ToString::to_string));
        let process = spawn(&args, &dir)?;
        let mut server = RedisServer { process, port, args, dir };
        server.wait_until_serving()?;
        Ok(server)
    }

    /// Starts the server again on the same port and data, without waiting for it to serve.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = spawn(&self.args, &self.dir)?;
        Ok(())
    }

    /// Waits until the server answers, that is until it has loaded its data.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        let address = self.port.address();
        self.process.wait_until("answer PING", PATIENCE, || {
            Ok(Client::connect(address).and_then(|mut client| client.ping()).ok())
        })
    }

    /// Stops the server cleanly (SIGTERM).
    pub fn stop(&mut self) -> Result<()> {
        let status = self.process.terminate(PATIENCE)?;
        if !status.success() {
            bail!("redis-server ended with {status}");
        }
        Ok(())
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub fn port(&self) -> &Port {
        &self.port
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port.address())
    }

    /// The folder that holds its files.
    pub fn data(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }
}

fn spawn(args: &[String], dir: &Dir) -> Result<Process> {
    Process::spawn("redis-server", Command::new("redis-server").args(args), &dir.join("redis.log"))
}

fn args(port: &Port, dir: &Dir, appendonly: Appendonly) -> Vec<String> {
    let appendonly = match appendonly {
        Appendonly::Off => vec!["--appendonly", "no"],
        Appendonly::Always => vec!["--appendonly", "yes", "--appendfsync", "always"],
    };
    let port = port.number().to_string();
    let dir = dir.path().to_string_lossy();
    let common = ["--bind", "127.0.0.1", "--port", &port, "--dir", &dir, "--save", ""];
    common.into_iter().chain(appendonly).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reply;

    #[test]
    fn what_redis_wrote_is_there_after_a_kill_and_a_start() {
        let mut server = RedisServer::start(Dir::new().unwrap(), Appendonly::Always, &[]).unwrap();
        let written = server.client().unwrap().call(&["HSET", "user:1", "name", "bob"]).unwrap();
        assert_eq!(written, Reply::Int(1));

        server.process().kill9().unwrap();
        server.start_again().unwrap();
        server.wait_until_serving().unwrap();

        let read = server.client().unwrap().call(&["HGET", "user:1", "name"]).unwrap();
        assert_eq!(read, Reply::bulk("bob"));
    }
}

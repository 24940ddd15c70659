//! Several nodes of the binary under test that form a cluster, each a process of its own: `shardine start` and `shardine init`, as
//! a user types them.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{Client, Dir, PATIENCE, Port, Process, find_binary, wait_for};

/// How much of a node's output tells what went wrong.
const TAIL_LINES: usize = 30;

/// A node: its process, if it runs, and its ports and data, which stay.
pub struct ClusterNode {
    pub name: String,
    /// What its process finds in its environment from its next start on.
    pub env: Vec<(String, String)>,
    process: Option<Process>,
    redis: Port,
    grpc: Port,
    http: Port,
    peer: Port,
}

impl ClusterNode {
    fn new(place: usize) -> Result<ClusterNode> {
        let name = format!("n{}", place + 1);
        let (redis, grpc, http, peer) = (Port::free()?, Port::free()?, Port::free()?, Port::free()?);
        Ok(ClusterNode { name, env: Vec::new(), process: None, redis, grpc, http, peer })
    }
}

/// A cluster of nodes on this machine. The processes do not outlive this value.
pub struct Cluster {
    pub nodes: Vec<ClusterNode>,
    binary: PathBuf,
    args: Vec<String>,
    dir: Dir,
}

impl Cluster {
    /// Starts so many nodes, makes a cluster of them and waits until every one of them serves. `init` are further arguments of
    /// `init`, `start` those of every node.
    pub fn form(count: usize, init: &[&str], start: &[&str]) -> Result<Cluster> {
        Cluster::form_in(Dir::new()?, find_binary()?, count, init, start)
    }

    /// The same of another binary and in another folder, for measurements that care about the disk below them.
    pub fn form_in(dir: Dir, binary: PathBuf, count: usize, init: &[&str], start: &[&str]) -> Result<Cluster> {
        let nodes = (0..count).map(ClusterNode::new).collect::<Result<_>>()?;
        let args = start.iter().map(|arg| (*arg).to_owned()).collect();
        let mut cluster = Cluster { nodes, binary, args, dir };
        for place in 0..count {
            cluster.start(place)?;
        }
        let nodes = count.to_string();
        let made = wait_for("the cluster to be made", PATIENCE, || {
            let mut command = cluster.command(0, &["init", "--nodes", &nodes]);
            let output = command.args(init).output()?;
            Ok(output.status.success().then_some(()))
        });
        made.with_context(|| cluster.output())?;
        cluster.wait_until_serving()?;
        Ok(cluster)
    }

    /// Starts one more node, which asks the others to let it in.
    pub fn add(&mut self) -> Result<usize> {
        let place = self.nodes.len();
        self.nodes.push(ClusterNode::new(place)?);
        self.start(place)?;
        Ok(place)
    }

    /// A node that does not run loses its disk.
    pub fn lose_data(&self, place: usize) -> Result<()> {
        Ok(fs::remove_dir_all(self.dir.join(&self.nodes[place].name))?)
    }

    /// Starts a node, for the first time or again, without waiting for it to serve.
    pub fn start(&mut self, place: usize) -> Result<()> {
        let join: Vec<String> = self.nodes.iter().map(|node| node.grpc.address().to_string()).collect();
        let node = &self.nodes[place];
        let mut command = Command::new(&self.binary);
        command.args(["start", "--name", &node.name, "--join", &join.join(",")]);
        command.arg("--data").arg(self.dir.join(&node.name));
        let doors = [("--redis", &node.redis), ("--grpc", &node.grpc), ("--http", &node.http), ("--peer", &node.peer)];
        for (flag, port) in doors {
            command.arg(flag).arg(port.address().to_string());
        }
        command.args(&self.args).envs(node.env.iter().map(|(name, value)| (name, value)));
        let output = self.dir.join(format!("{}.log", node.name));
        self.nodes[place].process = Some(Process::spawn(&node.name.clone(), &mut command, &output)?);
        Ok(())
    }

    /// Waits until every node that runs says that it is ready: every shard has a leader that it knows.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        let ready = wait_for("every node to be ready", PATIENCE, || {
            let mut running = self.nodes.iter().filter(|node| node.process.is_some());
            Ok(running.all(|node| is_ready(node.http.address())).then_some(()))
        });
        ready.with_context(|| self.output())
    }

    pub fn kill9(&mut self, place: usize) -> Result<()> {
        let mut process = self.nodes[place].process.take().context("the node does not run")?;
        process.kill9()
    }

    /// Stops a node cleanly (SIGTERM).
    pub fn stop(&mut self, place: usize) -> Result<()> {
        let mut process = self.nodes[place].process.take().context("the node does not run")?;
        let status = process.terminate(PATIENCE)?;
        if !status.success() {
            bail!("{} ended with {status} after SIGTERM:\n{}", self.nodes[place].name, process.output());
        }
        Ok(())
    }

    pub fn process(&mut self, place: usize) -> Result<&mut Process> {
        self.nodes[place].process.as_mut().context("the node does not run")
    }

    /// A new connection to a node's Redis door.
    pub fn client(&self, place: usize) -> Result<Client> {
        Client::connect(self.nodes[place].redis.address())
    }

    pub fn redis(&self, place: usize) -> SocketAddr {
        self.nodes[place].redis.address()
    }

    pub fn grpc(&self, place: usize) -> SocketAddr {
        self.nodes[place].grpc.address()
    }

    /// The process of a node, if it runs.
    pub fn pid(&self, place: usize) -> Option<u32> {
        self.nodes[place].process.as_ref().map(Process::pid)
    }

    /// The folder of everything that the cluster has on disk.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// A command of the same binary that talks to a node.
    pub fn command(&self, place: usize, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).env("SHARDINE_SERVER", self.nodes[place].grpc.address().to_string());
        command
    }

    /// Fails if a node has ended that nobody ended.
    pub fn ensure_running(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            if node.process.as_mut().is_some_and(|process| !process.is_running()) {
                bail!("{} has ended by itself", node.name);
            }
        }
        Ok(())
    }

    /// What the nodes have printed last, in all their runs.
    pub fn tails(&self) -> String {
        let tail = |node: &ClusterNode| {
            let text = fs::read_to_string(self.dir.join(format!("{}.log", node.name))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", node.name, lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
        };
        self.nodes.iter().map(tail).collect()
    }

    /// What the nodes have printed, for an error message.
    pub fn output(&self) -> String {
        let running = self.nodes.iter().filter_map(|node| Some((&node.name, node.process.as_ref()?)));
        running.map(|(name, process)| format!("--- {name}\n{}", process.output())).collect()
    }
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).ok()?;
        Some(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

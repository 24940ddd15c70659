//! Several nodes of the binary under test that form a cluster, each a process of its own: `shardine start` and `shardine init`, as
//! a user types them.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{Client, Dir, PATIENCE, Port, Process, find_binary, wait_for};

/// How much of a node's output tells what went wrong.
const TAIL_LINES: usize = 30;

/// Where a node lives.
pub struct Home {
    /// Its own address; all its doors are there.
    pub host: IpAddr,
    /// What stands before its command line.
    pub enter: Vec<String>,
    /// Where its data directory is.
    pub folder: PathBuf,
}

/// A node: its process, if it runs, and its ports and data, which stay.
pub struct ClusterNode {
    pub name: String,
    /// What its process finds in its environment from its next start on.
    pub env: Vec<(String, String)>,
    /// The only one that its `--join` names, if not all.
    pub join: Option<usize>,
    /// What is added to its line from its next start on.
    pub args: Vec<String>,
    /// Beside all others, unless something else is said before its first start.
    pub home: Home,
    process: Option<Process>,
    redis: Port,
    grpc: Port,
    http: Port,
    peer: Port,
}

impl ClusterNode {
    fn new(place: usize, dir: &Dir) -> Result<ClusterNode> {
        let name = format!("n{}", place + 1);
        let (redis, grpc, http, peer) = (Port::free()?, Port::free()?, Port::free()?, Port::free()?);
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let home = Home { host, enter: Vec::new(), folder: dir.path().to_path_buf() };
        let (env, args) = (Vec::new(), Vec::new());
        Ok(ClusterNode { name, env, join: None, args, home, process: None, redis, grpc, http, peer })
    }

    fn address(&self, port: &Port) -> SocketAddr {
        SocketAddr::new(self.home.host, port.number())
    }

    fn data(&self) -> PathBuf {
        self.home.folder.join(&self.name)
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
        let mut cluster = Cluster::prepare(dir, binary, count, start)?;
        cluster.found(count, init)?;
        Ok(cluster)
    }

    /// Nodes that have not been started yet: what is different about one of them is said before [`Cluster::found`].
    pub fn prepare(dir: Dir, binary: PathBuf, count: usize, start: &[&str]) -> Result<Cluster> {
        let nodes = (0..count).map(|place| ClusterNode::new(place, &dir)).collect::<Result<_>>()?;
        let args = start.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(Cluster { nodes, binary, args, dir })
    }

    /// Starts them and makes a cluster of so many, by way of the first.
    pub fn found(&mut self, count: usize, init: &[&str]) -> Result<()> {
        for place in 0..self.nodes.len() {
            self.start(place)?;
        }
        let nodes = count.to_string();
        let made = wait_for("the cluster to be made", PATIENCE, || {
            let mut command = self.command(0, &["init", "--nodes", &nodes]);
            let output = command.args(init).output()?;
            Ok(output.status.success().then_some(()))
        });
        made.with_context(|| self.output())?;
        self.wait_until_serving()
    }

    /// Starts one more node, which asks the others to let it in.
    pub fn add(&mut self) -> Result<usize> {
        self.add_with(&[])
    }

    /// The same with something added to its line.
    pub fn add_with(&mut self, args: &[&str]) -> Result<usize> {
        let place = self.nodes.len();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.nodes.push(ClusterNode { args, ..ClusterNode::new(place, &self.dir)? });
        self.start(place)?;
        Ok(place)
    }

    /// A node that does not run is at other addresses from its next start on.
    pub fn relocate(&mut self, place: usize) -> Result<()> {
        let ClusterNode { redis, grpc, http, peer, .. } = ClusterNode::new(place, &self.dir)?;
        let node = &mut self.nodes[place];
        (node.redis, node.grpc, node.http, node.peer) = (redis, grpc, http, peer);
        Ok(())
    }

    /// A node that does not run loses its disk.
    pub fn lose_data(&self, place: usize) -> Result<()> {
        Ok(fs::remove_dir_all(self.nodes[place].data())?)
    }

    /// Starts a node, for the first time or again, without waiting for it to serve.
    pub fn start(&mut self, place: usize) -> Result<()> {
        let process = self.spawn(place, &format!("{}.log", self.nodes[place].name))?;
        self.nodes[place].process = Some(process);
        Ok(())
    }

    /// The same command line once more beside the node that runs, as by somebody who forgot that it does.
    pub fn start_twin(&self, place: usize) -> Result<Process> {
        self.spawn(place, &format!("{}-twin.log", self.nodes[place].name))
    }

    fn spawn(&self, place: usize, output: &str) -> Result<Process> {
        let all: Vec<String> = self.nodes.iter().map(|node| node.address(&node.grpc).to_string()).collect();
        let node = &self.nodes[place];
        let join = node.join.map_or_else(|| all.join(","), |only| all[only].clone());
        let mut line = node.home.enter.iter().map(PathBuf::from).chain([self.binary.clone()]);
        let mut command = Command::new(line.next().expect("the binary, if nothing stands before it"));
        command.args(line);
        command.args(["start", "--name", &node.name, "--join", &join]);
        command.arg("--data").arg(node.data());
        let doors = [("--redis", &node.redis), ("--grpc", &node.grpc), ("--http", &node.http), ("--peer", &node.peer)];
        for (flag, port) in doors {
            command.arg(flag).arg(node.address(port).to_string());
        }
        command.args(&self.args).args(&node.args).envs(node.env.iter().map(|(name, value)| (name, value)));
        Process::spawn(&node.name, &mut command, &self.dir.join(output))
    }

    /// Waits until every node that runs says that it is ready: every shard has a leader that it knows.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        let ready = wait_for("every node to be ready", PATIENCE, || {
            let mut running = self.nodes.iter().filter(|node| node.process.is_some());
            Ok(running.all(|node| is_ready(node.address(&node.http))).then_some(()))
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
        Client::connect(self.redis(place))
    }

    pub fn redis(&self, place: usize) -> SocketAddr {
        self.nodes[place].address(&self.nodes[place].redis)
    }

    pub fn http(&self, place: usize) -> SocketAddr {
        self.nodes[place].address(&self.nodes[place].http)
    }

    pub fn grpc(&self, place: usize) -> SocketAddr {
        self.nodes[place].address(&self.nodes[place].grpc)
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
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
        command.args(args).env("SHARDINE_SERVER", self.grpc(place).to_string());
        command
    }

    /// A node that may have ended by itself, which then is no fault: whether it has.
    pub fn has_ended(&mut self, place: usize) -> bool {
        let process = &mut self.nodes[place].process;
        let has_ended = process.as_mut().is_some_and(|process| !process.is_running());
        if has_ended {
            *process = None;
        }
        has_ended
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

//! The third kind of clients: by every node they take turns at two locks, which are in different groups if there are several. Whoever
//! has one runs a command, as `coord sem acquire -- COMMAND` does; two commands at a time, or a token that does not grow, are faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{Cluster, Dir};

/// Where the locks are.
const PATHS: [&str; 2] = ["/chaos/one", "/chaos/other"];
/// Between two turns of a client: each is a process.
const PACE: Duration = Duration::from_millis(400);
/// How long a turn is waited for, so that nobody is in the way at the end. A client that was lost keeps its lock for longer.
const WAIT_S: &str = "15";
/// How long a lock is certain without its server. Its last tenth is what a busy machine may be late with killing the command.
const SESSION_S: &str = "30";

/// The kernel lets go of the file when the command dies, however that is.
const TURN: &str = "flock -n \"$0.file\" sh -c 'echo $SHARDINE_FENCE >> \"$0.turns\"; sleep 0.02' \"$0\" || echo twice >> \"$0.faults\"";

pub struct Locks {
    dir: Dir,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Locks {
    pub fn start(cluster: &Cluster) -> Result<Locks> {
        for path in PATHS {
            super::command(cluster, 0, &["coord", "node", "create", path])?;
        }
        let (dir, stop) = (Dir::new()?, Arc::new(AtomicBool::new(false)));
        let mut clients = Vec::new();
        for place in 0..cluster.nodes.len() {
            let (binary, server) = (cluster.binary().to_path_buf(), cluster.grpc(place).to_string());
            let (files, stop) = (PATHS.map(|path| file(&dir, path)), Arc::clone(&stop));
            clients.push(thread::spawn(move || {
                for number in (place..).take_while(|_| !stop.load(SeqCst)) {
                    let lock = number % PATHS.len();
                    // Whoever gets none is not answered, and tries the other one.
                    let _ = turn(&binary, &server, PATHS[lock], &files[lock]);
                    thread::sleep(PACE);
                }
            }));
        }
        Ok(Locks { dir, stop, clients })
    }

    /// What is known so far. How many turns there were.
    pub fn verdict(&self) -> Result<usize> {
        PATHS.iter().map(|path| check(path, &file(&self.dir, path))).sum()
    }

    pub fn finish(self) -> Result<usize> {
        self.stop.store(true, SeqCst);
        for path in PATHS {
            ensure!(check(path, &file(&self.dir, path))? > 0, "nobody ever had the lock in {path}");
        }
        let Locks { dir, clients, .. } = self;
        clients.into_iter().for_each(|client| client.join().expect("clients do not panic"));
        PATHS.iter().map(|path| check(path, &file(&dir, path))).sum()
    }
}

fn file(dir: &Dir, path: &str) -> PathBuf {
    dir.join(path.trim_start_matches("/chaos/"))
}

fn turn(binary: &Path, server: &str, path: &str, file: &Path) -> Result<()> {
    let mut command = Command::new(binary);
    command.args(["coord", "sem", "acquire", "turn", "--ephemeral", "--node", path, "--wait", WAIT_S]);
    command.args(["--session-timeout", SESSION_S, "--", "sh", "-c", TURN]).arg(file);
    command.env("SHARDINE_SERVER", server).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().context("run the lock's client").map(drop)
}

fn check(path: &str, file: &Path) -> Result<usize> {
    let read = |ending: &str| fs::read_to_string(file.with_extension(ending)).unwrap_or_default();
    ensure!(read("faults").is_empty(), "two had the lock in {path} at a time");
    let turns = read("turns");
    let tokens: Vec<u64> = turns.lines().map(str::parse).collect::<Result<_, _>>().context(turns.clone())?;
    ensure!(tokens.is_sorted_by(|one, next| one < next), "the tokens of the lock in {path} do not grow: {tokens:?}");
    Ok(tokens.len())
}

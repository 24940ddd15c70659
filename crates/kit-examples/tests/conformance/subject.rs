//! A client under test: a process that is told calls as lines, and a file with the list of hosts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use shardine_testkit::{Dir, python, workspace_root};

/// In which language.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    Rust,
    Python,
}

/// How often it asks around; a call waits for these, so they are short.
pub const PING_MS: u64 = 200;
/// Never, in a run that has to do without.
pub const NEVER_MS: u64 = 600_000;

pub struct Subject {
    process: Child,
    calls: ChildStdin,
    answers: BufReader<ChildStdout>,
    dir: Dir,
}

impl Subject {
    pub fn start(language: Language, hosts: &[&str], ping_ms: u64) -> Subject {
        let dir = Dir::new().unwrap();
        let mut command = match language {
            Language::Rust => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_goals"));
                command.arg("lines");
                command
            }
            Language::Python => {
                let mut command = Command::new(python::interpreter().unwrap());
                command.arg(workspace_root().join("examples/kit_client.py")).env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
        };
        // A host that lives may be slow on a machine with other things to do; one that does not is known to be silent.
        let times = [ping_ms, PING_MS / 2, 1_000].map(|time| time.to_string());
        command.arg(dir.join("hosts")).args(times).stdin(Stdio::piped()).stdout(Stdio::piped());
        write_hosts(&dir, hosts);
        let mut process = command.spawn().unwrap();
        let (calls, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Subject { process, calls, answers, dir }
    }

    /// Gives it another list.
    pub fn list(&self, hosts: &[&str]) {
        write_hosts(&self.dir, hosts);
    }

    /// Begins a call.
    pub fn begin(&mut self, deadline_ms: u64, hits: &str) {
        writeln!(self.calls, "{deadline_ms} {hits}").unwrap();
    }

    /// The answer to the call that was begun.
    pub fn end(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A call that has all the time it needs.
    pub fn get(&mut self, hits: &str) -> String {
        self.get_within(30_000, hits)
    }

    pub fn get_within(&mut self, deadline_ms: u64, hits: &str) -> String {
        self.begin(deadline_ms, hits);
        self.end()
    }
}

/// In the place of the one before, whole.
fn write_hosts(dir: &Dir, hosts: &[&str]) {
    std::fs::write(dir.join("new"), hosts.join("\n")).unwrap();
    std::fs::rename(dir.join("new"), dir.join("hosts")).unwrap();
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

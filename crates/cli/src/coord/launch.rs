//! How a command under a lock begins: as a process that waits at a gate until its guard knows of it, and only then becomes the
//! command. If whoever opens the gate dies before, nothing has been run.

use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getpid, getppid};
use shardine_model::ErrorCode;

use crate::complaint::Complaint;

/// A gate, as the process that opens it has it.
pub struct Gate {
    key: PipeWriter,
    /// Whoever waits finds it by our number and its own; it must be there until then.
    gate: PipeReader,
}

impl Gate {
    pub fn new() -> std::io::Result<Self> {
        let (gate, key) = std::io::pipe()?;
        Ok(Self { key, gate })
    }

    /// The command, behind the gate.
    pub fn command(&self, command: &[OsString]) -> Command {
        let mut waiting = Command::new("/proc/self/exe");
        waiting.arg0("shardine").args(["coord", "launch"]);
        waiting.arg(getpid().to_string()).arg(self.gate.as_raw_fd().to_string()).arg("--").args(command);
        waiting
    }

    pub fn open(&mut self) -> std::io::Result<()> {
        self.key.write_all(b"\n")
    }
}

/// Waits until the parent opens the gate, and becomes the command. Comes back only if that is not to be.
pub fn run(parent: i32, gate: i32, command: &[OsString]) -> Result<ExitCode, Complaint> {
    let is_open = File::open(format!("/proc/{parent}/fd/{gate}")).is_ok_and(|mut gate| {
        // Asked after it was opened: until then the number was not somebody else's.
        getppid() == Pid::from_raw(parent) && gate.read_exact(&mut [0]).is_ok()
    });
    let Some((program, words)) = command.split_first().filter(|_| is_open) else { return Ok(ExitCode::FAILURE) };
    let error = Command::new(program).args(words).exec();
    let what = format!("{} cannot be run", program.to_string_lossy());
    Err(Complaint::failed(what, error.to_string(), "the name and path of the command").coded(ErrorCode::BadRequest))
}

//! Runs a command while a session holds a semaphore, and not a moment longer than that is known.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use shardine_client::Session;
use shardine_model::ErrorCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::guard::{Deputy, Guard};
use super::launch::Gate;
use crate::complaint::Complaint;

/// Where the command finds the order of the acquire.
const FENCE: &str = "SHARDINE_FENCE";

/// What a shell adds to the number of the signal that ended a command.
const SIGNAL_BASE: i32 = 128;

pub async fn run(session: Session, command: &[OsString], fence: u64) -> Result<ExitCode, Complaint> {
    match guarded(&session, command, fence).await {
        Err(Ending::Expired) => Err(expired()),
        ended => {
            // If that fails, the session has ended by itself.
            let _ = session.stop().await;
            ended.map_err(|ending| match ending {
                Ending::Failed(complaint) => complaint,
                Ending::Expired => expired(),
            })
        }
    }
}

/// Why a command has no exit code.
enum Ending {
    Expired,
    Failed(Complaint),
}

impl From<std::io::Error> for Ending {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(Complaint::from_io(error))
    }
}

async fn guarded(session: &Session, command: &[OsString], fence: u64) -> Result<ExitCode, Ending> {
    // Caught before there is a command that they could miss.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut guard = Guard::start()?;
    let mut deadlines = session.deadlines();
    let mut gate = Gate::new()?;
    let (mut child, deputy) = spawn(gate.command(command), fence)?;
    guard.watch(deputy, *deadlines.borrow_and_update());
    gate.open()?;
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    let status = loop {
        tokio::select! {
            ended = &mut ended => break ended.map_err(std::io::Error::from)?,
            _ = session.over() => {
                deputy.send(Signal::KILL);
                let _ = ended.await;
                return Err(Ending::Expired);
            }
            Ok(()) = deadlines.changed() => guard.extend(*deadlines.borrow_and_update()),
            // What it makes of them is its own affair; the semaphore is held until it has ended.
            _ = interrupts.recv() => deputy.interrupt(),
            _ = terminations.recv() => deputy.send(Signal::TERM),
        }
    }?;
    // Killed by the guard, which was quicker, or while we stood still.
    if Instant::now() >= guard.strikes_at() && status.signal() == Some(Signal::KILL.as_raw()) {
        deputy.send(Signal::KILL);
        return Err(Ending::Expired);
    }
    Ok(exit_code(status))
}

fn expired() -> Complaint {
    let cause = "the server was not reached for its timeout; somebody else may hold it by now";
    let remedy = "a longer --session-timeout; make the command safe to run again";
    Complaint::failed("the session expired, so the command was killed", cause, remedy).coded(ErrorCode::InDoubt)
}

/// Waits for a signal that asks this program to end.
pub async fn interrupted() {
    let caught = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupts), Ok(mut terminations)) = caught else { return std::future::pending().await };
    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
}

impl Deputy {
    /// A terminal has sent it to everybody in its group already.
    fn interrupt(&self) {
        match self {
            Self::Group(_) => self.send(Signal::INT),
            Self::Process(_) => {}
        }
    }

    /// It may be gone already.
    fn send(&self, signal: Signal) {
        let _ = match self {
            Self::Group(pid) => kill_process_group(*pid, signal),
            Self::Process(pid) => kill_process(*pid, signal),
        };
    }
}

fn spawn(mut command: Command, fence: u64) -> std::io::Result<(std::process::Child, Deputy)> {
    let at_terminal = std::io::stdin().is_terminal();
    command.env(FENCE, fence.to_string());
    if !at_terminal {
        command.process_group(0);
    }
    let child = command.spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a number");
    Ok((child, if at_terminal { Deputy::Process(pid) } else { Deputy::Group(pid) }))
}

/// As a shell passes it on.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| SIGNAL_BASE + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

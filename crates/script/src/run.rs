//! Runs a program: its commands and scripts, one after the other, on rows that nobody else changes meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shardine_model::{RowKeyBuf, Timestamp};
use shardine_resp::{Deed, Inside, Options, Protocol, digest, wire};
use shardine_router::{Program, Step};

use crate::functions;
use crate::limits::Limits;
use crate::rehearsal::{Rehearsal, Rows, Seen, Writes};
use crate::sandbox::{Ended, Host, Sandbox, Script};

/// What a program came to. Nothing of it counts before its writes are applied, or, if it has none, what it saw is known to hold.
#[derive(Debug)]
pub struct Performance {
    pub reply: Vec<u8>,
    pub seen: Seen,
    pub writes: Writes,
}

/// Why a program came to nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// This row must be at hand.
    Missing(RowKeyBuf),
    /// This row is not of the partition at which it was executed.
    Elsewhere(RowKeyBuf),
    /// It takes more than it may.
    TooLong,
    Killed,
    /// It changes more than one entry may hold.
    TooMuch,
}

/// Where programs are run, one at a time: a sandbox, and whoever says commands in it.
pub struct Stage {
    sandbox: Sandbox,
    inside: Inside,
}

impl Stage {
    /// It fails only if there is no memory.
    pub fn new(options: Arc<Options>) -> Result<Self, String> {
        let sandbox = Sandbox::new().map_err(|error| error.to_string())?;
        Ok(Self { sandbox, inside: Inside::new(options) })
    }

    pub fn perform(
        &mut self,
        program: &Program,
        rows: &mut dyn Rows,
        now: Timestamp,
        limits: Limits,
        kill: Option<&Arc<AtomicBool>>,
    ) -> Result<Performance, Stopped> {
        let protocol = if program.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let home = program.home.as_ref().position();
        let mut rehearsal = Rehearsal::new(rows, home, now);
        let mut reply = Vec::new();
        if !watched_hold(program, &mut rehearsal)? {
            wire::null_array(&mut reply, protocol);
        } else {
            if program.is_transaction {
                wire::array(&mut reply, program.steps.len());
            }
            for step in &program.steps {
                self.step(step, program, protocol, &mut rehearsal, limits, kill, &mut reply)?;
            }
        }
        let (seen, writes) = rehearsal.finish();
        Ok(Performance { reply, seen, writes })
    }

    #[allow(clippy::too_many_arguments, reason = "what one step of a run needs, in one place")]
    fn step(
        &mut self,
        step: &Step,
        program: &Program,
        protocol: Protocol,
        rehearsal: &mut Rehearsal<'_>,
        limits: Limits,
        kill: Option<&Arc<AtomicBool>>,
        reply: &mut Vec<u8>,
    ) -> Result<(), Stopped> {
        match step {
            Step::Said { reply: said } => reply.extend_from_slice(said),
            Step::Command { words } => {
                let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
                let deed = Deed { protocol, from_script: false, reads_only: program.reads_only };
                let next = Rehearsal::next_response;
                let is_done = self.inside.execute(&words, deed, rehearsal, next, reply).is_some();
                if let Some(stopped) = rehearsal.stopped.take() {
                    return Err(stopped);
                }
                if !is_done {
                    return Err(Stopped::TooLong);
                }
            }
            Step::Script { text, keys, args, reads_only } => {
                let script = Script { text, sum: digest(text), keys, args, protocol };
                let mut speaker = Speaker { inside: &mut self.inside, rehearsal, reads_only: *reads_only };
                let ran = self.sandbox.run(script, limits, kill.cloned(), &mut speaker, reply);
                return ended(speaker, ran);
            }
            Step::Function { library, name, keys, args, reads_only } => {
                let call = functions::Call { library, name, keys, args, protocol };
                let mut speaker = Speaker { inside: &mut self.inside, rehearsal, reads_only: *reads_only };
                let ran = self.sandbox.call(call, limits, kill.cloned(), &mut speaker, reply);
                return ended(speaker, ran);
            }
        }
        Ok(())
    }
}

/// How a script has ended: its own end, or that of what it said.
fn ended(speaker: Speaker<'_, '_>, ran: Result<(), Ended>) -> Result<(), Stopped> {
    if let Some(stopped) = speaker.rehearsal.stopped.take() {
        return Err(stopped);
    }
    ran.map_err(|ended| match ended {
        Ended::Killed => Stopped::Killed,
        Ended::TooLong | Ended::ByHost => Stopped::TooLong,
    })
}

fn watched_hold(program: &Program, rehearsal: &mut Rehearsal<'_>) -> Result<bool, Stopped> {
    for (row, version) in &program.watched {
        match rehearsal.version(row.as_ref()) {
            Some(found) if found == *version => {}
            Some(_) => return Ok(false),
            None => return Err(rehearsal.stopped.take().unwrap_or(Stopped::TooLong)),
        }
    }
    Ok(true)
}

/// A script's commands.
struct Speaker<'s, 'r> {
    inside: &'s mut Inside,
    rehearsal: &'s mut Rehearsal<'r>,
    reads_only: bool,
}

impl Host for Speaker<'_, '_> {
    fn call(&mut self, words: &[&[u8]], protocol: Protocol, out: &mut Vec<u8>) -> Option<()> {
        let deed = Deed { protocol, from_script: true, reads_only: self.reads_only };
        self.inside.execute(words, deed, self.rehearsal, Rehearsal::next_response, out)
    }

    fn log(&mut self, level: u8, text: &str) {
        match level {
            3 => tracing::warn!(script = text),
            2 => tracing::info!(script = text),
            _ => tracing::debug!(script = text),
        }
    }

    fn is_command(&self, name: &[u8]) -> bool {
        Inside::is_command(name)
    }
}

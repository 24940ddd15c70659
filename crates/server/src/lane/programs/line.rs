//! The programs of one partition, in their order. One runs at a time. When it has been proposed the next one runs at once, on the rows
//! as they will be when all before it are applied; so a hot key is changed by as many scripts in one entry as have come meanwhile.
//!
//! What is foreseen may turn out wrong, and then the log refuses what was built on it: nothing depends on it but speed. Whoever sees
//! that something else changes a row of the partition doubts; then no other one begins before those on their way have been answered.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::{Outcome, Reply, RowKey, RowKeyBuf, Timestamp};
use shardine_records::Lookup;
use shardine_router::RowCall;
use shardine_shard::Caller;

use super::{ROUNDS_AMONG_OTHERS, Run, lookup};

/// Programs of one partition that may be on their way at once. They may all have run in one turn of the lane, while others waited.
const IN_FLIGHT_MAX: usize = 128;

/// Bytes of rows that are foreseen.
const FORESEEN_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Line {
    programs: VecDeque<Run>,
    /// One of them runs, or waits for a row.
    is_running: bool,
    in_flight: usize,
    /// The rows that those on their way change, as they will be.
    foreseen: BTreeMap<RowKeyBuf, Reply>,
    foreseen_bytes: usize,
    is_in_doubt: bool,
    /// Those that were overtaken, in their order.
    overtaken: VecDeque<Run>,
    /// The program that runs has the partition to itself: these wait.
    is_alone: bool,
    held: VecDeque<(Caller, RowCall)>,
}

impl Line {
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub fn hold(&mut self, caller: Caller, call: RowCall) {
        self.held.push_back((caller, call));
    }

    pub fn release(&mut self) -> VecDeque<(Caller, RowCall)> {
        self.is_alone = false;
        std::mem::take(&mut self.held)
    }

    pub fn join(&mut self, run: Run) {
        self.programs.push_back(run);
    }

    /// The program that runs from now on, if one may.
    pub fn next(&mut self) -> Option<Run> {
        if self.is_running {
            return None;
        }
        if self.in_flight == 0 {
            // What is there is what all have made of it.
            self.foreseen.clear();
            (self.foreseen_bytes, self.is_in_doubt) = (0, false);
            while let Some(run) = self.overtaken.pop_back() {
                self.programs.push_front(run);
            }
        }
        let is_full = self.in_flight >= IN_FLIGHT_MAX || self.foreseen_bytes > FORESEEN_BYTES_MAX;
        if self.is_in_doubt || is_full {
            return None;
        }
        let run = self.programs.pop_front()?;
        (self.is_running, self.is_alone) = (true, run.rounds >= ROUNDS_AMONG_OTHERS);
        Some(run)
    }

    pub fn is_over(&self) -> bool {
        !self.is_running && self.in_flight == 0 && self.programs.is_empty() && self.overtaken.is_empty()
    }

    /// The one that ran has been proposed, and will have made this of the rows.
    pub fn depart(&mut self, after: Vec<(RowKeyBuf, Reply)>) {
        (self.is_running, self.in_flight) = (false, self.in_flight + 1);
        for (row, reply) in after {
            self.foreseen_bytes += row.key.len() + bytes_of(&reply);
            self.foreseen.insert(row, reply);
        }
    }

    /// One is done with, for better or worse.
    pub fn leave(&mut self, was_in_flight: bool) {
        match was_in_flight {
            true => self.in_flight -= 1,
            false => self.is_running = false,
        }
    }

    /// One that was on its way has to run again.
    pub fn come_back(&mut self, run: Run) {
        self.in_flight -= 1;
        self.overtaken.push_back(Run { is_in_flight: false, ..run });
    }

    /// What is foreseen is no longer all that is on its way.
    pub fn doubt(&mut self) {
        self.is_in_doubt = self.in_flight > 0;
    }

    /// Whether a program that runs now may see what is not there yet.
    pub fn foresees(&self) -> bool {
        !self.foreseen.is_empty()
    }

    /// A row as it will be; nothing of one that nobody changes, or whose time will be over.
    pub fn foreseen(&self, row: RowKey<'_>, now: Timestamp) -> Option<Lookup<'_>> {
        if self.foreseen.is_empty() {
            return None;
        }
        let reply = self.foreseen.get(&row.to_owned())?;
        lookup(reply).filter(|_| reply.expires_at.is_none_or(|at| at > now))
    }
}

fn bytes_of(reply: &Reply) -> usize {
    match &reply.outcome {
        Outcome::Done { row: Some(row), .. } => row.packed.len(),
        Outcome::Done { row: None, .. } | Outcome::Refused { .. } => 0,
    }
}

//! What clients did and what they were told, in true time. The checkers read it after the run.

use shardine_model::Answer;
use shardine_model::command::Origin;

use crate::records::ask::{Job, Saw};

#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Running,
    /// Executed, or refused for a reason that lies in the rows.
    Done(Vec<Saw>),
    /// Certainly without effect, now and for ever.
    Failed,
    /// May have happened, may happen yet, or may never happen.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub job: Job,
    pub invoked: u64,
    /// The time of the answer, or of giving up.
    pub returned: u64,
    pub status: Status,
    /// The number under which it may be sent again.
    pub origin: Option<Origin>,
    /// Every answer that told what happened; a repeated request gives several, and all must be the same.
    pub answers: Vec<Answer>,
}

/// One row's part of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    pub operation: usize,
    pub ask: crate::records::ask::Ask,
    pub invoked: u64,
    pub returned: u64,
    /// `None` if nobody knows whether it happened.
    pub saw: Option<&'a Saw>,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub operations: Vec<Operation>,
}

impl History {
    pub fn invoke(&mut self, job: Job, origin: Option<Origin>, now: u64) -> usize {
        let status = Status::Running;
        let answers = Vec::new();
        self.operations.push(Operation { job, invoked: now, returned: u64::MAX, status, origin, answers });
        self.operations.len() - 1
    }

    pub fn finish(&mut self, operation: usize, status: Status, now: u64) {
        let operation = &mut self.operations[operation];
        assert_eq!(operation.status, Status::Running, "an operation ends once");
        (operation.status, operation.returned) = (status, now);
    }

    /// What happened, or may have happened, to one row. Certain failures are left out.
    #[must_use]
    pub fn touches(&self, row: usize) -> Vec<Touch<'_>> {
        let mut touches = Vec::new();
        for (number, operation) in self.operations.iter().enumerate() {
            for (place, (touched, ask)) in operation.job.touches().into_iter().enumerate() {
                if touched != row {
                    continue;
                }
                let (saw, returned) = match &operation.status {
                    Status::Failed => continue,
                    Status::Done(seen) => (Some(&seen[place]), operation.returned),
                    Status::Running | Status::Unknown => (None, u64::MAX),
                };
                touches.push(Touch { operation: number, ask, invoked: operation.invoked, returned, saw });
            }
        }
        touches
    }
}

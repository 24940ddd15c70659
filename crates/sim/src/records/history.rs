//! What clients asked and what nodes told them, in true time, seen from above: when a node took a request in, and when it gave
//! its answer out, whether or not the client ever heard it. The checkers read it after the run.
//!
//! An operation cannot take effect before a node has it, and has taken effect when a node says so. What is in order between
//! these two is in order between a client's call and its return, which enclose them; the other way round it need not be.

use shardine_model::Answer;
use shardine_model::command::Origin;

use crate::check::Violation;
use crate::records::ask::{Ask, Job, Saw, read_answer};
use crate::records::check::{answers_fit, each_request_once};

#[derive(Clone, Debug)]
pub struct Operation {
    pub job: Job,
    /// The number under which it may be sent again.
    pub origin: Option<Origin>,
    /// In the order in which they were sent.
    attempts: Vec<usize>,
}

/// A request on its way: whose it is, which operation it is an attempt at, and what became of it.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub client: usize,
    pub operation: usize,
    pub node: usize,
    /// The client's connection, where requests of one keep their order.
    pub connection: Option<u64>,
    /// Whether a node has sent it to another one a second time, because a link broke.
    is_asked_again: bool,
    /// The shard whose replica was asked, if that was one that is asked as a whole.
    pub shard: Option<usize>,
    /// Whether the connection was closed before it was answered: nobody wants to hear.
    is_dropped: bool,
    /// When the node took it in. Never, if it was lost on its way.
    taken: Option<u64>,
    /// The life of the node that took it.
    life: u64,
    answer: Option<(u64, Answer)>,
}

/// An operation that took effect or may have; or one attempt at it, if it only reads.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub operation: usize,
    pub job: &'a Job,
    pub invoked: u64,
    pub returned: u64,
    /// What its answer told of each row; `None` if nobody knows whether it happened.
    pub seen: Option<Vec<Saw>>,
}

/// One row's part of a call.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub operation: usize,
    pub ask: Ask,
    pub invoked: u64,
    pub returned: u64,
    pub saw: Option<Saw>,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    attempts: Vec<Attempt>,
}

impl History {
    pub fn invoke(&mut self, job: Job, origin: Option<Origin>) -> usize {
        self.operations.push(Operation { job, origin, attempts: Vec::new() });
        self.operations.len() - 1
    }

    /// A client sends an operation to a node, for the first time or again.
    pub fn send(&mut self, client: usize, operation: usize, node: usize, connection: Option<u64>) -> u64 {
        let attempt = self.attempts.len();
        let (is_asked_again, shard, is_dropped, taken, answer) = (false, None, false, None, None);
        let attempt_at =
            Attempt { client, operation, node, connection, is_asked_again, shard, is_dropped, taken, life: 0, answer };
        self.attempts.push(attempt_at);
        self.operations[operation].attempts.push(attempt);
        attempt as u64
    }

    #[must_use]
    pub fn operation(&self, operation: usize) -> &Operation {
        &self.operations[operation]
    }

    #[must_use]
    pub fn attempt(&self, attempt: u64) -> &Attempt {
        &self.attempts[attempt as usize]
    }

    /// The job that an attempt is about.
    #[must_use]
    pub fn job_of(&self, attempt: u64) -> &Job {
        &self.operations[self.attempt(attempt).operation].job
    }

    /// A node takes a request in.
    pub fn take(&mut self, attempt: u64, life: u64, now: u64) {
        let attempt = &mut self.attempts[attempt as usize];
        (attempt.taken, attempt.life) = (Some(now), life);
    }

    /// The attempt is about this shard, if it is about a whole one.
    pub fn is_for(&mut self, attempt: u64, shard: usize) {
        if matches!(self.job_of(attempt), Job::Flush { whole_shard: true, .. }) {
            self.attempts[attempt as usize].shard = Some(shard);
        }
    }

    /// A node asks another one again, because the link broke on which it had asked.
    pub fn ask_again(&mut self, attempt: u64) {
        self.attempts[attempt as usize].is_asked_again = true;
    }

    /// A connection is gone, and with it everybody who waited for what was asked there.
    pub fn drop_all_of(&mut self, connection: u64) {
        let of_it = self.attempts.iter_mut().filter(|attempt| attempt.connection == Some(connection));
        of_it.for_each(|attempt| attempt.is_dropped = true);
    }

    /// What was answered on connections, in the order in which it was asked on each: the connection, the attempt, its job, whether it
    /// may have been executed later than in its turn, and what was seen.
    pub fn on_connections(&self) -> impl Iterator<Item = (u64, usize, &Job, bool, Vec<Saw>)> {
        self.attempts.iter().enumerate().filter_map(|(number, attempt)| {
            let job = &self.operations[attempt.operation].job;
            let (_, seen) = attempt.told(job)?;
            Some((attempt.connection?, number, job, attempt.is_asked_again && job.only_reads(), seen))
        })
    }

    /// Whether another attempt at its operation may have been executed before this one was answered: a number's answer is that of its first
    /// execution, wherever that was asked for.
    #[must_use]
    pub fn may_have_been_executed_elsewhere(&self, attempt: usize) -> bool {
        let this = &self.attempts[attempt];
        let Some((answered, _)) = this.answer else { return false };
        let others = self.operations[this.operation].attempts.iter().filter(|other| **other != attempt);
        let mut others = others.map(|other| &self.attempts[*other]);
        others.any(|other| other.taken.is_some_and(|taken| taken <= answered) && other.may_have_happened())
    }

    /// A node answers a request: once, and by an answer that fits. Shards may be split, or none is.
    pub fn answer(&mut self, attempt: u64, answer: &Answer, are_parted: bool, now: u64) -> Result<(), Violation> {
        let job = self.job_of(attempt).clone();
        let known = self.attempts[attempt as usize].answer.replace((now, answer.clone()));
        if let Some((_, known)) = known {
            let detail = format!("attempt {attempt} at {job:?} was answered {known:?} and then {answer:?}");
            return Err(Violation::new(each_request_once::NAME, detail));
        }
        let is_direct = are_parted && self.attempts[attempt as usize].connection.is_none();
        answers_fit::check(&job, answer, is_direct)
    }

    /// A request that a node took in this life of it and has not answered.
    #[must_use]
    pub fn unanswered(&self, life_of: impl Fn(usize) -> u64) -> Option<(usize, &Attempt)> {
        let waits = |attempt: &Attempt| {
            attempt.taken.is_some()
                && attempt.answer.is_none()
                && !attempt.is_dropped
                && life_of(attempt.node) == attempt.life
        };
        self.attempts.iter().enumerate().find(|(_, attempt)| waits(attempt))
    }

    /// Everything that happened, or may have.
    #[must_use]
    pub fn calls(&self) -> Vec<Call<'_>> {
        let operations = self.operations.iter().enumerate();
        operations.flat_map(|(number, operation)| self.calls_of(number, operation)).collect()
    }

    fn calls_of<'a>(&'a self, number: usize, operation: &'a Operation) -> Vec<Call<'a>> {
        let job = &operation.job;
        let attempts = operation.attempts.iter().map(|attempt| &self.attempts[*attempt]);
        // Each answer to a read is an observation of its own.
        if job.only_reads() {
            let told = attempts.filter_map(|attempt| {
                let (returned, seen) = attempt.told(job)?;
                Some(Call { operation: number, job, invoked: attempt.taken?, returned, seen: Some(seen) })
            });
            return told.collect();
        }
        let effective: Vec<&Attempt> = attempts.filter(|attempt| attempt.may_have_happened()).collect();
        let Some(invoked) = effective.iter().filter_map(|attempt| attempt.taken).min() else { return Vec::new() };
        // A number's answers are all the same, so the first of them tells.
        let told = effective.iter().filter_map(|attempt| attempt.told(job)).min_by_key(|(returned, _)| *returned);
        let (returned, seen) = told.map_or((u64::MAX, None), |(returned, seen)| (returned, Some(seen)));
        vec![Call { operation: number, job, invoked, returned, seen }]
    }

    /// The operations that certainly had no effect: no node took them in, or all that did have said so.
    pub fn without_effect(&self) -> impl Iterator<Item = (usize, &Job)> {
        let has_none = |operation: &Operation| {
            !operation.attempts.iter().any(|attempt| self.attempts[*attempt].may_have_happened())
        };
        let operations = self.operations.iter().enumerate().filter(move |(_, operation)| has_none(operation));
        operations.map(|(number, operation)| (number, &operation.job))
    }

    /// The answers to each numbered operation that tell what happened.
    pub fn numbered_answers(&self) -> impl Iterator<Item = (usize, Vec<&Answer>)> {
        let numbered = self.operations.iter().enumerate().filter(|(_, operation)| operation.origin.is_some());
        numbered.map(|(number, operation)| {
            let attempts = operation.attempts.iter().map(|attempt| &self.attempts[*attempt]);
            let told = attempts.filter(|attempt| attempt.told(&operation.job).is_some());
            (number, told.filter_map(|attempt| attempt.answer.as_ref().map(|(_, answer)| answer)).collect())
        })
    }
}

impl Attempt {
    fn told(&self, job: &Job) -> Option<(u64, Vec<Saw>)> {
        let (at, answer) = self.answer.as_ref()?;
        Some((*at, read_answer(job, answer).ok()?))
    }

    /// A node took it in, and did not say that nothing was done.
    fn may_have_happened(&self) -> bool {
        let is_certain_failure = |answer: &Answer| matches!(answer, Answer::Failed(code) if !code.is_in_doubt());
        self.taken.is_some() && !self.answer.as_ref().is_some_and(|(_, answer)| is_certain_failure(answer))
    }
}

/// What happened, or may have happened, to one row.
#[must_use]
pub fn touches(calls: &[Call<'_>], row: usize) -> Vec<Touch> {
    let mut touches = Vec::new();
    for &Call { operation, job, invoked, returned, ref seen } in calls {
        for (place, (touched, ask)) in job.touches().into_iter().enumerate() {
            if touched == row {
                let saw = seen.as_ref().map(|seen| seen[place]);
                touches.push(Touch { operation, ask, invoked, returned, saw });
            }
        }
    }
    touches
}

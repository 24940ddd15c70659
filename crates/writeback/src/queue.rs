//! Jobs that wait for one of several workers: bounded, first come first served. The channels of the standard library have
//! one receiver only.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::service::{Rejected, Why};

/// How often whoever rests looks whether it still should.
const LOOK_EVERY: Duration = Duration::from_millis(25);

pub(crate) struct Queue {
    jobs_max: usize,
    state: Mutex<State>,
    /// Told when a job has come, and when none will come any more.
    news: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    pub(crate) fn new(jobs_max: usize) -> Self {
        Self { jobs_max, state: Mutex::default(), news: Condvar::new() }
    }

    pub(crate) fn put(&self, job: Job) -> Result<(), Rejected> {
        let mut state = self.lock();
        let why = match () {
            () if state.is_closed => Why::Stopped,
            () if state.jobs.len() >= self.jobs_max => Why::Full,
            () => {
                state.jobs.push_back(job);
                drop(state);
                // All of them: the one that is woken may be resting, and this job not worth ending its rest.
                self.news.notify_all();
                return Ok(());
            }
        };
        Err(Rejected { job: Box::new(job), why })
    }

    /// The next job, and those behind it that `joins` wants to go with it; waits for one, and for as long as there is none lets
    /// `idle` do something now and then. `None` when the queue is closed and empty.
    pub(crate) fn take(
        &self,
        mut joins: impl FnMut(&[Job], &Job) -> bool,
        every: Duration,
        mut idle: impl FnMut(),
    ) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.is_closed {
            let wait = self.news.wait_timeout(state, every).unwrap_or_else(PoisonError::into_inner);
            state = wait.0;
            if wait.1.timed_out() && state.jobs.is_empty() && !state.is_closed {
                drop(state);
                idle();
                state = self.lock();
            }
        }
        let mut taken = vec![state.jobs.pop_front()?];
        while let Some(next) = state.jobs.pop_front_if(|next| joins(&taken, next)) {
            taken.push(next);
        }
        Some(taken)
    }

    /// Waits for so long, or until `ends` says of a job that waits, or of none, that there is no more time to rest.
    pub(crate) fn rest(&self, length: Duration, mut ends: impl FnMut(Option<&Job>) -> bool) {
        let until = Instant::now() + length;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_over = left.is_zero() || state.is_closed || ends(None);
            if is_over || state.jobs.iter().any(|job| ends(Some(job))) {
                return;
            }
            (state, _) = self.news.wait_timeout(state, left.min(LOOK_EVERY)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more jobs. Those that wait are still taken out.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

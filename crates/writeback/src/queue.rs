//! Jobs that wait for one of several workers: bounded, first come first served. The channels of the standard library have
//! one receiver only.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::job::Job;
use crate::service::{Rejected, Why};

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
                self.news.notify_one();
                return Ok(());
            }
        };
        Err(Rejected { job: Box::new(job), why })
    }

    /// The next job, and those behind it that `joins` wants to go with it; waits for one. `None` when the queue is closed
    /// and empty.
    pub(crate) fn take(&self, mut joins: impl FnMut(&[Job], &Job) -> bool) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.is_closed {
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut taken = vec![state.jobs.pop_front()?];
        while let Some(next) = state.jobs.pop_front_if(|next| joins(&taken, next)) {
            taken.push(next);
        }
        Some(taken)
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

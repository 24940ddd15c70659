//! The engine as a door on other threads has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_model::{Catalogue, ErrorCode, Refusal};
use shardine_records::Records;
use shardine_router::{Call, RemoteEngine, Response};

use crate::shard::FakeShard;

type Respond = Box<dyn FnOnce(Response) + Send>;

/// Short, so that doors have to ask for the next one.
const PAGE_ROWS_MAX: usize = 2;

/// How the engine behaves, for tests of what doors do when it does not answer as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Normal,
    /// Takes calls and never answers.
    Silent,
    /// Refuses every call with this code.
    Refusing(ErrorCode),
}

pub struct FakeEngine {
    state: Mutex<State>,
}

struct State {
    mood: Mood,
    shard: FakeShard,
    unanswered: Vec<Respond>,
}

impl FakeEngine {
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut shard = FakeShard::new(Records::new(1));
        shard.page_rows_max = PAGE_ROWS_MAX;
        Arc::new(Self { state: Mutex::new(State { mood: Mood::Normal, shard, unanswered: Vec::new() }) })
    }

    pub fn set_mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// From now on flushes fail.
    pub fn stop_sql(&self) {
        self.state().shard.sql_failure = Some(ErrorCode::BackendUnavailable);
    }

    /// Changes executed so far; repeats of a numbered request do not count.
    pub fn executed(&self) -> u64 {
        self.state().shard.executed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteEngine for FakeEngine {
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(self.state().shard.catalogue().clone())
    }

    fn call(&self, call: Call, done: Respond) {
        let mut state = self.state();
        let response = match state.mood {
            Mood::Normal => state.shard.answer(call),
            Mood::Silent => return state.unanswered.push(done),
            Mood::Refusing(code) => Response::Refused(Refusal::new(code, "the engine is in a mood")),
        };
        drop(state);
        done(response);
    }
}

//! What one call did, for whoever wants to know why it took as long as it did.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::core::call::{Ask, Call, Cause, Fate};
use crate::core::plan::Rated;

/// One call, told afterwards.
#[derive(Clone, Debug)]
pub struct Trace<I> {
    /// Of the map that the first plan was made from.
    pub map_version: u64,
    pub took: Duration,
    /// In the order in which they were sent.
    pub asked: Vec<Asked>,
    /// Searches after the first, for keys that nobody served.
    pub searches: u32,
    /// Who was the first to answer which key.
    pub answered: HashMap<I, Arc<str>>,
}

/// A request to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub host: Arc<str>,
    pub keys: usize,
    pub cause: Cause,
    pub attempts: u32,
    /// `None` if it was still on its way when the call ended.
    pub fate: Option<Fate>,
}

impl<I> Trace<I> {
    pub fn hedges(&self) -> usize {
        self.asked.iter().filter(|asked| asked.cause == Cause::Hedge && asked.fate != Some(Fate::Forgone)).count()
    }

    pub fn retries(&self) -> u32 {
        self.asked.iter().map(|asked| asked.attempts - 1).sum()
    }
}

/// The requests of a call.
pub(crate) fn asked<H: Rated + Clone>(call: &Call<H>) -> Vec<Asked> {
    let told = |ask: &Ask<H>| Asked {
        host: Arc::clone(&ask.address),
        keys: ask.keys.len(),
        cause: ask.cause,
        attempts: ask.attempt,
        fate: ask.fate(),
    };
    call.asks().iter().map(told).collect()
}

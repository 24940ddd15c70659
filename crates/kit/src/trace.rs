//! What one call did, for whoever wants to know why it took as long as it did.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::core::call::{Ask, AskId, Call, Cause, Fate};
use crate::core::plan::Rated;
use crate::error::HostStatus;

/// One call, told afterwards.
#[derive(Clone, Debug)]
pub struct Trace<I> {
    /// Of the map that the first plan was made from.
    pub map_version: u64,
    /// From its beginning to its end.
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
    /// Its address.
    pub host: Arc<str>,
    /// How many.
    pub keys: usize,
    /// Why it was sent.
    pub cause: Cause,
    /// How often.
    pub attempts: u32,
    /// `None` if it was still on its way when the call ended.
    pub fate: Option<Fate>,
    /// What the host said when it last failed.
    pub status: Option<HostStatus>,
}

impl<I> Trace<I> {
    /// Second requests that were sent.
    pub fn hedges(&self) -> usize {
        self.asked.iter().filter(|asked| asked.cause == Cause::Hedge && asked.fate != Some(Fate::Forgone)).count()
    }

    /// Requests that were sent again to the same host.
    pub fn retries(&self) -> u32 {
        self.asked.iter().map(|asked| asked.attempts - 1).sum()
    }
}

/// The requests of a call.
pub(crate) fn asked<H: Rated + Clone>(call: &Call<H>, failures: &HashMap<AskId, HostStatus>) -> Vec<Asked> {
    let told = |(id, ask): (AskId, &Ask<H>)| Asked {
        host: Arc::clone(&ask.address),
        keys: ask.keys.len(),
        cause: ask.cause,
        attempts: ask.attempt,
        fate: ask.fate(),
        status: failures.get(&id).cloned(),
    };
    call.asks().iter().enumerate().map(told).collect()
}

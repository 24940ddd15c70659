//! A list of hosts that is now and then not what it should be.

use std::sync::{Arc, Mutex, PoisonError};

use shardine_kit::provider::{Error, Listing, Provider};

/// What whoever reads the list gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    #[default]
    Whole,
    Nothing,
    Fails,
    Hangs,
    Panics,
}

impl Reading {
    /// One of those that are wrong.
    pub fn any(number: u32) -> Self {
        [Self::Nothing, Self::Fails, Self::Hangs, Self::Panics][number as usize % 4]
    }
}

/// Clones are the same list.
#[derive(Clone, Debug)]
pub struct List {
    hosts: Vec<String>,
    reading: Arc<Mutex<Reading>>,
}

impl List {
    pub fn new(hosts: Vec<String>) -> Self {
        Self { hosts, reading: Arc::default() }
    }

    pub fn reads(&self, reading: Reading) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }
}

impl Provider for List {
    fn hosts(&self) -> Listing<'_> {
        let reading = *self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading == Reading::Panics {
            // Not `panic!`: nobody needs to read of it each time.
            std::panic::resume_unwind(Box::new("this panic is part of the chaos"));
        }
        Box::pin(async move {
            match reading {
                Reading::Whole | Reading::Panics => Ok(self.hosts.clone()),
                Reading::Nothing => Ok(Vec::new()),
                Reading::Fails => Err(Error::new("the chaos", "no list today")),
                Reading::Hangs => std::future::pending().await,
            }
        })
    }
}

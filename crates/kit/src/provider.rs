//! Where the list of hosts comes from. A client reads it once per period.

mod dns;
mod file;
mod fixed;
mod table;

#[cfg(feature = "coordination")]
mod semaphore;

use std::pin::Pin;

pub use dns::Dns;
pub use file::HostsFile;
pub use fixed::Fixed;
#[cfg(feature = "coordination")]
pub use semaphore::{Discovery, announce};
pub use table::Holders;

/// Why there is no list. The client keeps the last one it had.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct Error {
    /// What was to be read.
    pub place: String,
    /// In the words of whoever could not.
    pub cause: String,
}

impl Error {
    /// An error of a provider's own.
    pub fn new(place: impl ToString, cause: impl ToString) -> Self {
        Self { place: place.to_string(), cause: cause.to_string() }
    }
}

/// A list that is on its way.
pub type Listing<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, Error>> + Send + 'a>>;

/// Knows the hosts of a service.
pub trait Provider: Send + Sync + 'static {
    /// Addresses as `host:port`. An empty list is taken for a mistake of whoever made it, and the client keeps the last one.
    fn hosts(&self) -> Listing<'_>;
}

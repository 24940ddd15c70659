//! Where claims are written down. One trait; the same suite of tests passes for everything that has it.

use std::time::Duration;

use crate::core::shard::Hold;
use crate::server::Identity;

/// Why a store has no answer. Nothing is known then: a claim may have been made, a renewal may have counted.
#[derive(Debug, thiserror::Error)]
#[error("{store}: {cause}")]
pub struct Error {
    /// Which store.
    pub store: &'static str,
    /// In its own words.
    pub cause: String,
}

impl Error {
    /// An error of this store.
    pub fn new(store: &'static str, cause: impl ToString) -> Self {
        Self { store, cause: cause.to_string() }
    }
}

/// A claim as others see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The data centre.
    pub dc: String,
    /// The shard's number.
    pub shard: u32,
    /// The server's name, which is its address.
    pub host: String,
    /// How often the shard has been claimed.
    pub generation: u64,
}

/// A set of shards per data centre, each of which has one holder at most.
pub trait Store: Send + Sync + 'static {
    /// How long a claim lives without a proof. Said to the store and nowhere else, and the same for all who use it: those who
    /// claim, those who hold, and those who list the holders.
    fn timeout(&self) -> Duration;

    /// Takes a shard of the server's data centre that is its own already or has not been proven for the timeout: its own
    /// first, then the one that was proven longest ago, then the lowest. `None` if there is none. Every success has a
    /// generation that the shard never had before.
    fn claim(&self, who: &Identity) -> impl Future<Output = Result<Option<Hold>, Error>> + Send;

    /// Proves a claim: the same again if it is still this server's in this generation, and `None` if somebody else has the
    /// shard. If the store does not know of the claim any more (its row was deleted, or all are older ones from a backup), and
    /// nobody else's is proven, it is claimed anew, with a greater generation than this one and any that the store has seen.
    fn renew(&self, who: &Identity, hold: Hold) -> impl Future<Output = Result<Option<Hold>, Error>> + Send;

    /// Lets others have the shard at once. Of a claim that is lost already nothing happens.
    fn release(&self, who: &Identity, hold: Hold) -> impl Future<Output = Result<(), Error>> + Send;

    /// Everybody who holds something, in any data centre.
    fn holders(&self) -> impl Future<Output = Result<Vec<Holder>, Error>> + Send;
}

//! What a host says of itself in a reply, and which of two such words is the newer one.

use super::interval::Interval;

/// A claimed shard: its number, and how often that shard has been claimed before and by whom it is held now. Two claims of
/// one shard never have the same generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The shard's number.
    pub shard: u32,
    /// How often it has been claimed, this claim among them.
    pub generation: u64,
}

/// What a host serves, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The data centre.
    pub dc: String,
    /// The address.
    pub host: String,
    /// Grows with every start of the host's process.
    pub incarnation: u64,
    /// Grows with every change of what the process serves.
    pub epoch: u64,
    /// The keys.
    pub interval: Interval,
    /// The claim behind it, if the service has claims.
    pub hold: Option<Hold>,
}

impl Shard {
    /// What decides between two words of one host.
    #[must_use]
    pub fn age(&self) -> (u64, u64) {
        (self.incarnation, self.epoch)
    }
}

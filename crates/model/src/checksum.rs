//! Sums of states, for telling whether replicas agree: one hash for each part, added up, so that the order in which parts come
//! means nothing. Taken from the stream that a snapshot is ([`crate::stream`]).

use std::fmt::Debug;

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::stream::SnapshotError;

/// The form of the sums that this version makes. Whatever changes what is hashed gets a new number: replicas that sum in two
/// ways differ though their states agree.
pub const CHECKSUM_FORM: u8 = 1;

/// A hash of parts in any order. Two states that differ in one part have the same sum once in 2^128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(pub u128);

impl Sum {
    /// Adds a part; gives what its own parts are told apart by ([`Sum::add_within`]).
    pub fn add(&mut self, part: &[u8]) -> u64 {
        let hash = xxh3_128(part);
        self.0 = self.0.wrapping_add(hash);
        (hash >> 64) as u64
    }

    /// Adds a part of a part.
    pub fn add_within(&mut self, whole: u64, part: &[u8]) {
        self.0 = self.0.wrapping_add(xxh3_128_with_seed(part, whole));
    }
}

/// Sums up one state from the chunks of a snapshot of it, without keeping them.
pub trait Summing: Debug + Send {
    fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError>;

    /// The sum, if the stream was whole.
    fn finish(self: Box<Self>) -> Result<Sum, SnapshotError>;
}

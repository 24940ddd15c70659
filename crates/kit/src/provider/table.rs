//! The hosts that hold a claim: whoever serves is in the lock table already.

use std::sync::Arc;

use super::{Error, Listing, Provider};
use crate::claim::Store;

/// Everybody who holds a shard in a store of claims, in any data centre. Claims must have been made with the address as the
/// name of the host.
#[derive(Debug)]
pub struct Holders<S>(Arc<S>);

impl<S: Store> Holders<S> {
    /// The holders in this store.
    pub fn new(store: Arc<S>) -> Self {
        Self(store)
    }
}

impl<S: Store> Provider for Holders<S> {
    fn hosts(&self) -> Listing<'_> {
        Box::pin(async {
            let holders = self.0.holders().await.map_err(|error| Error::new("claims", error))?;
            let mut hosts: Vec<String> = holders.into_iter().map(|holder| holder.host).collect();
            hosts.sort();
            hosts.dedup();
            Ok(hosts)
        })
    }
}

//! A name with many addresses.

use super::{Error, Listing, Provider};

/// All addresses of a name, with one port.
#[derive(Clone, Debug)]
pub struct Dns {
    name: String,
    port: u16,
}

impl Dns {
    /// The addresses of `name`, each with `port`.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port }
    }
}

impl Provider for Dns {
    fn hosts(&self) -> Listing<'_> {
        Box::pin(async {
            let found = tokio::net::lookup_host((self.name.as_str(), self.port)).await;
            let mut hosts: Vec<String> =
                found.map_err(|error| Error::new(&self.name, error))?.map(|address| address.to_string()).collect();
            hosts.sort();
            hosts.dedup();
            Ok(hosts)
        })
    }
}

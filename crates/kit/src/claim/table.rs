//! The lock table that the three SQL stores share: its name, its size, and how its names are quoted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::store::Error;
use crate::core::shard::Hold;
use crate::server::Identity;

/// Characters that the columns have room for. MySQL may cut what is longer without a word, and a server whose name was cut
/// never finds its row.
pub(super) const DC_CHARS_MAX: usize = 64;
pub(super) const HOST_CHARS_MAX: usize = 255;

/// `(dc, shard, host, locked_time, last_ping, generation)` in an SQL database, with a row per data centre and shard. Times
/// are the database's own: no server's clock is ever written down or compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in the database.
    pub name: String,
    /// Shards of each data centre, numbered from 0. Rows with higher numbers are left alone: a service that is cut into
    /// fewer shards than before goes without them.
    pub shards: u32,
    /// How fresh a row has to be for its host to be the holder.
    pub timeout: Duration,
}

impl Table {
    /// A table for so many shards of each data centre, with the usual timeout.
    pub fn new(name: impl Into<String>, shards: u32) -> Self {
        Self { name: name.into(), shards, timeout: crate::core::tenure::TIMEOUT }
    }

    /// The same with another timeout. It is said here alone, the same to servers and to clients.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The name between double quotes, as PostgreSQL and SQLite want it.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// The name between backticks, as MySQL wants it.
    #[cfg(feature = "mysql")]
    pub(super) fn backticked(&self) -> String {
        format!("`{}`", self.name.replace('`', "``"))
    }
}

/// Refuses names that the table has no room for.
pub(super) fn fits(store: &'static str, who: &Identity) -> Result<(), Error> {
    let named = [("data centre", &who.dc, DC_CHARS_MAX), ("host", &who.host, HOST_CHARS_MAX)];
    match named.into_iter().find(|(_, name, max)| name.chars().count() > *max) {
        Some((what, name, max)) => Err(Error::new(store, format!("the {what} {name} is longer than {max} characters"))),
        None => Ok(()),
    }
}

/// Somebody waits for a shard, and has found a table without some of its rows: deleted, or never made. Makes them known.
pub(super) fn tell_of_missing_rows(table: &Table, dc: &str, rows: i64) {
    tracing::warn!(
        table = table.name,
        dc,
        rows,
        shards = table.shards,
        "rows of the lock table are missing, making them"
    );
}

/// A holder's row was deleted, or is an older one from a backup, and nobody else's.
pub(super) fn tell_of_lost_claim(table: &Table, who: &Identity, hold: Hold) {
    let (table, shard, generation) = (&table.name, hold.shard, hold.generation);
    tracing::warn!(
        table,
        dc = who.dc,
        host = who.host,
        shard,
        generation,
        "the claim is not in the table any more, making it anew"
    );
}

/// Whether a claim was asked for and nobody has heard the answer: it may have been made all the same, or be made later by a
/// database that still has the question. Until the next proof that goes well, a younger claim under this server's name may
/// be its own, and is not taken for somebody else's.
#[derive(Clone, Debug, Default)]
pub(super) struct Unheard(Arc<AtomicBool>);

impl Unheard {
    /// Before a claim is asked for; says whether one was unheard before it.
    pub fn ask(&self) -> bool {
        self.0.swap(true, Ordering::SeqCst)
    }

    /// There is an answer; `still` if one of an earlier question is missing.
    pub fn heard(&self, still: bool) {
        self.0.store(still, Ordering::SeqCst);
    }
}

/// The timeout as the databases have it, which have no unsigned numbers that all three agree on. No longer than their
/// calendars reach: rows that were never claimed are of 1970, and have to be older than this.
pub(super) fn signed_micros(timeout: Duration) -> i64 {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    i64::try_from(timeout.min(50 * YEAR).as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_name_stays_in_the_name() {
        let table = Table::new("a\"b`c", 1);

        assert_eq!(table.quoted(), "\"a\"\"b`c\"");
        assert_eq!(table.backticked(), "`a\"b``c`");
    }

    #[test]
    fn a_timeout_is_written_in_microseconds() {
        assert_eq!(signed_micros(Duration::from_millis(20_001)), 20_001_000);
        assert_eq!(signed_micros(Duration::MAX), 50 * 365 * 24 * 3_600 * 1_000_000);
    }
}

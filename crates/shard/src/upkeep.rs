//! What a leader does by itself, a little at every tick: expiry, purging, the lease, write-back.

use shardine_model::{Entry, RowKey, Timestamp, Version, limits};

use crate::gather::Then;
use crate::replica::Replica;

/// Upkeep entries that are on their way, so that each kind is proposed once at a time.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    expiring: bool,
    purging: bool,
    pub leasing: bool,
    pub shedding: bool,
    pub raising_floor: bool,
    pub splitting: bool,
}

impl Upkeep {
    /// The entry came through, or was overtaken.
    pub fn clear(&mut self, then: &Then) {
        match then {
            Then::Expired => self.expiring = false,
            Then::Purged => self.purging = false,
            Then::Leased { .. } => self.leasing = false,
            Then::Shed(_) => self.shedding = false,
            Then::Floored => self.raising_floor = false,
            Then::Split => self.splitting = false,
            Then::Answer
            | Then::Released
            | Then::Loaded(_)
            | Then::Kicked(_)
            | Then::Written(_)
            | Then::Refused(_)
            | Then::Raised(_)
            | Then::Settled(_)
            | Then::SqlPurged => {}
        }
    }
}

impl Replica {
    pub(crate) fn run_upkeep(&mut self) {
        self.records.let_memory_go();
        if !self.is_serving() {
            self.upkeep = Upkeep::default();
            return;
        }
        self.expire_some();
        self.purge_some();
        self.pursue_lease();
        self.shed_some();
    }

    /// Proposes the expiry of records whose time is over by this leader's clock; apply decides (write-back 119).
    fn expire_some(&mut self) {
        let at = self.stamp();
        if self.upkeep.expiring || self.records.next_expiry().is_none_or(|next| next > at) {
            return;
        }
        let rows: Vec<RowKey<'_>> = self.records.due_expiries(at).take(limits::EXPIRE_ROWS_MAX).collect();
        self.left.expired += rows.len() as u64;
        let entry = Entry::Expire { at, rows }.to_bytes();
        self.upkeep.expiring = self.propose_bytes(entry, Vec::new(), Then::Expired);
    }

    fn purge_some(&mut self) {
        let before = Timestamp(self.stamp().0.saturating_sub(self.options.tombstone_keep_ms));
        if self.upkeep.purging {
            return;
        }
        let due: Vec<(RowKey<'_>, Version)> = self.records.due_purges(before).take(limits::EXPIRE_ROWS_MAX).collect();
        if due.is_empty() {
            return;
        }
        let entry = Entry::Purge(due).to_bytes();
        self.upkeep.purging = self.propose_bytes(entry, Vec::new(), Then::Purged);
    }
}

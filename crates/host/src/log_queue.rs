//! What replicas want done to the disk, in the order in which they asked, and who is to hear of it.
//!
//! One batch is under way at most. Whatever comes meanwhile goes into the next one: that is the group commit of a turn.

use shardine_model::log::{Install, LogOp, LogWrite};
use shardine_shard::Persist;

use crate::seat::SeatId;

/// Everything for one trip to the disk. To be performed in order, all of it, before its receipt is given back.
#[derive(Debug)]
pub struct Batch {
    pub ops: Vec<LogOp>,
    pub receipt: Receipt,
}

/// Who is to be told, and of which write, when a batch is on disk.
#[derive(Debug, Default)]
pub struct Receipt {
    pub(crate) writes: Vec<(SeatId, u64)>,
    /// Those whose first write it has.
    pub(crate) born: Vec<SeatId>,
}

impl Batch {
    /// Entries in it, of all groups.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let count = |op: &LogOp| match op {
            LogOp::Write(write) => write.entries.len() as u64,
            LogOp::Install(install) => install.write.entries.len() as u64,
            LogOp::Truncate { .. } | LogOp::Remove { .. } => 0,
        };
        self.ops.iter().map(count).sum()
    }

    /// Bytes of entries and snapshots in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ops.iter().map(LogOp::bytes).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct LogQueue {
    ops: Vec<LogOp>,
    receipt: Receipt,
    /// Whether somebody waits for what is in the queue. Truncations alone wait for a write to ride on, or for a tick.
    is_awaited: bool,
    is_under_way: bool,
}

impl LogQueue {
    pub fn is_free(&self) -> bool {
        !self.is_under_way
    }

    pub fn push(&mut self, seat: SeatId, persist: Persist) {
        let Persist { number, write, install } = persist;
        self.receipt.writes.push((seat, number));
        self.is_awaited = true;
        self.ops.push(match install {
            None => LogOp::Write(write),
            Some((meta, data)) => LogOp::Install(Box::new(Install { meta, data, write })),
        });
    }

    /// The first write of what was just born.
    pub fn push_first(&mut self, seat: SeatId, write: LogWrite) {
        self.receipt.born.push(seat);
        self.is_awaited = true;
        self.ops.push(LogOp::Write(write));
    }

    pub fn ops(&self) -> &[LogOp] {
        &self.ops
    }

    /// Adds what nobody waits for.
    pub fn push_quietly(&mut self, op: LogOp) {
        self.ops.push(op);
    }

    /// From now on what is in the queue does not wait for company.
    pub fn hurry(&mut self) {
        self.is_awaited |= !self.ops.is_empty();
    }

    pub fn begin(&mut self) -> Option<Batch> {
        if self.is_under_way || !self.is_awaited {
            return None;
        }
        self.is_under_way = true;
        self.is_awaited = false;
        Some(Batch { ops: std::mem::take(&mut self.ops), receipt: std::mem::take(&mut self.receipt) })
    }

    pub fn finish(&mut self) {
        assert!(self.is_under_way, "a receipt is given back once");
        self.is_under_way = false;
    }
}

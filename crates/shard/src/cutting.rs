//! Snapshots of the shard: when to cut one, handing it out piece by piece, and taking one in.

use bytes::Bytes;
use shardine_model::codec::{DecodeError, Reader, put_bytes};
use shardine_model::log::{LogEntry, SnapshotMeta};
use shardine_records::{CutStep, Records};

use crate::actions::{Actions, SnapshotPart};
use crate::replica::Replica;

#[derive(Debug)]
pub(crate) struct Cutting {
    /// The newest snapshot on disk.
    saved: u64,
    log_bytes: u64,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    meta: SnapshotMeta,
    begun: bool,
    log_bytes: u64,
    /// The whole snapshot in one piece, if a follower waits for it.
    for_peers: Option<Vec<u8>>,
}

impl Cutting {
    pub fn new(saved: u64, log_bytes: u64) -> Self {
        Self { saved, log_bytes, running: None }
    }

    pub fn saved_index(&self) -> u64 {
        self.saved
    }

    pub fn count_log(&mut self, entries: &[LogEntry]) {
        self.log_bytes += entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
    }
}

impl Replica {
    /// Begins a cut when enough log has gathered behind the last one, or a follower needs a snapshot.
    pub(crate) fn cut_if_due(&mut self) {
        let wanted_by_peer = self.group.take_snapshot_wish();
        let due = self.cutting.log_bytes >= self.options.snapshot_log_bytes;
        if due || wanted_by_peer {
            self.begin_cut(wanted_by_peer);
        }
    }

    /// Cuts now, so that the log behind this shard can go: its oldest entries may hold back space that others share.
    pub fn cut_now(&mut self) {
        if self.applied > self.cutting.saved {
            self.begin_cut(false);
        }
    }

    fn begin_cut(&mut self, wanted_by_peer: bool) {
        if self.cutting.running.is_some() {
            return;
        }
        self.records.begin_cut();
        let meta = SnapshotMeta { index: self.applied, term: self.applied_term, membership: self.group.membership() };
        let for_peers = wanted_by_peer.then(Vec::new);
        self.cutting.running = Some(Running { meta, begun: false, log_bytes: self.cutting.log_bytes, for_peers });
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.cutting.running.is_some()
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them. The host calls it when its writer has room.
    pub fn cut_some(&mut self, bytes: usize, actions: &mut Actions) {
        let Some(running) = &mut self.cutting.running else { return };
        if !running.begun {
            running.begun = true;
            actions.snapshot.push(SnapshotPart::Begin(running.meta.clone()));
        }
        let mut given = 0;
        while given < bytes {
            match self.records.cut_step() {
                CutStep::Chunk(chunk) => {
                    given += chunk.len();
                    if let Some(whole) = &mut running.for_peers {
                        put_bytes(whole, &chunk);
                    }
                    actions.snapshot.push(SnapshotPart::Chunk(chunk));
                }
                CutStep::Done => {
                    let done = self.cutting.running.take().expect("checked above");
                    self.cutting.log_bytes -= done.log_bytes;
                    if let Some(whole) = done.for_peers {
                        self.group.offer_snapshot(&done.meta, Bytes::from(whole));
                    }
                    actions.snapshot.push(SnapshotPart::End);
                    return;
                }
            }
        }
    }

    /// The host has the snapshot at this index on disk; the log up to it may go.
    pub fn snapshot_saved(&mut self, index: u64) {
        self.cutting.saved = self.cutting.saved.max(index);
    }

    /// Replaces the whole state: a key that is not in the snapshot is not there afterwards (record-cache 70).
    pub(crate) fn restore_from_peer(&mut self, meta: &SnapshotMeta, data: &[u8]) -> Result<(), DecodeError> {
        self.cutting.running = None;
        let mut records = Records::new(self.options.seed);
        #[cfg(feature = "mutants")]
        {
            records = records.with_mutant(self.options.mutant);
            if self.options.mutant == Some(shardine_records::Mutant::SnapshotDoesNotClear) {
                std::mem::swap(&mut records, &mut self.records);
                records.abandon_cut();
            }
        }
        let mut reader = Reader::new(data);
        while !reader.is_empty() {
            records.restore_chunk(reader.bytes("snapshot chunk")?)?;
        }
        self.records = records;
        self.cutting.saved = meta.index;
        self.cutting.log_bytes = 0;
        Ok(())
    }
}

//! Snapshots of a replica: when to cut one, handing it out piece by piece, and taking one in. The same for every machine.

use std::collections::VecDeque;

use bytes::Bytes;
use shardine_consensus::Group;
use shardine_model::codec::{DecodeError, Reader, put_bytes};
use shardine_model::log::{LogEntry, SnapshotMeta};

use super::At;
use super::machine::Machine;
use crate::actions::SnapshotPart;

#[derive(Debug)]
pub(crate) struct Cutting {
    /// The newest snapshot on disk.
    saved: u64,
    /// Bytes of log that no snapshot on disk covers.
    log_bytes: u64,
    running: Option<Running>,
    /// Snapshots that are cut and not on disk yet: their index, and the bytes of log up to there.
    leaving: VecDeque<(u64, u64)>,
    /// After a failure, how much log must have gathered before the next try.
    retry_log_bytes: u64,
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
        Self { saved, log_bytes, running: None, leaving: VecDeque::new(), retry_log_bytes: 0 }
    }

    pub fn saved_index(&self) -> u64 {
        self.saved
    }

    pub fn count_log(&mut self, entries: &[LogEntry]) {
        self.log_bytes += entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
    }

    /// Begins a cut when enough log has gathered behind the last one, or a follower needs a snapshot.
    pub fn begin_if_due(&mut self, machine: &mut impl Machine, group: &mut Group, at: At, log_bytes_max: u64) {
        let wanted_by_peer = group.take_snapshot_wish();
        let covered = self.leaving.back().map_or(0, |(_, bytes)| *bytes);
        let is_due = self.log_bytes - covered >= log_bytes_max.max(self.retry_log_bytes);
        if is_due || wanted_by_peer {
            self.begin(machine, group, at, wanted_by_peer);
        }
    }

    /// Cuts now, so that the log behind this shard can go: its oldest entries may hold back space that others share.
    pub fn begin_now(&mut self, machine: &mut impl Machine, group: &Group, at: At) {
        if at.index > self.saved {
            self.begin(machine, group, at, false);
        }
    }

    fn begin(&mut self, machine: &mut impl Machine, group: &Group, at: At, wanted_by_peer: bool) {
        if self.running.is_some() {
            return;
        }
        machine.begin_cut();
        let meta = SnapshotMeta {
            index: at.index,
            term: at.term,
            membership: group.membership().clone(),
            conf_index: group.conf_index(),
        };
        let for_peers = wanted_by_peer.then(Vec::new);
        self.running = Some(Running { meta, begun: false, log_bytes: self.log_bytes, for_peers });
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them.
    pub fn give_some(
        &mut self,
        machine: &mut impl Machine,
        group: &mut Group,
        bytes: usize,
        parts: &mut Vec<SnapshotPart>,
    ) {
        let Some(running) = &mut self.running else { return };
        if !running.begun {
            running.begun = true;
            parts.push(SnapshotPart::Begin(running.meta.clone()));
        }
        let mut given = 0;
        while given < bytes {
            let Some(chunk) = machine.next_chunk() else {
                let done = self.running.take().expect("checked above");
                self.leaving.push_back((done.meta.index, done.log_bytes));
                if let Some(whole) = done.for_peers {
                    group.offer_snapshot(&done.meta, Bytes::from(whole));
                }
                parts.push(SnapshotPart::End);
                return;
            };
            given += chunk.len();
            if let Some(whole) = &mut running.for_peers {
                put_bytes(whole, &chunk);
            }
            parts.push(SnapshotPart::Chunk(chunk));
        }
    }

    /// The host has the snapshot at this index on disk.
    pub fn saved(&mut self, index: u64) {
        self.saved = self.saved.max(index);
        self.retry_log_bytes = 0;
        while let Some((_, covered)) = self.leaving.pop_front_if(|(leaving, _)| *leaving <= index) {
            self.log_bytes -= covered;
            let later = self.leaving.iter_mut().map(|(_, bytes)| bytes);
            later
                .chain(self.running.iter_mut().map(|running| &mut running.log_bytes))
                .for_each(|bytes| *bytes -= covered);
        }
    }

    /// The host could not write the oldest of those that are on their way. A disk that is full stays so for a while: as much
    /// log again gathers before the next try.
    pub fn failed(&mut self) {
        self.leaving.pop_front();
        self.retry_log_bytes = self.log_bytes.saturating_mul(2);
    }

    /// Makes a machine that began empty into what a peer's snapshot says.
    pub fn restore<M: Machine>(&mut self, mut empty: M, meta: &SnapshotMeta, data: &[u8]) -> Result<M, DecodeError> {
        self.running = None;
        let mut reader = Reader::new(data);
        while !reader.is_empty() {
            empty.restore_chunk(reader.bytes("snapshot chunk")?)?;
        }
        self.saved = meta.index;
        (self.log_bytes, self.retry_log_bytes) = (0, 0);
        self.leaving.clear();
        Ok(empty)
    }
}

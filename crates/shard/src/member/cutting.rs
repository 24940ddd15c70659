//! Snapshots of a replica: when to cut one, handing it out piece by piece, and taking one in. The same for every machine.

use std::collections::VecDeque;

use bytes::Bytes;
use shardine_consensus::Group;
use shardine_model::checksum::{Sum, Summing};
use shardine_model::codec::{Reader, put_varint};
use shardine_model::log::{LogEntry, SnapshotMeta};
use shardine_model::stream::SnapshotError;

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
    /// Snapshots that are cut and not on disk yet, and the bytes of log up to there.
    leaving: VecDeque<(SnapshotMeta, u64)>,
    /// After a failure, how much log must have gathered before the next try.
    retry_log_bytes: u64,
    /// None is begun, for the last one is still needed.
    pinned: bool,
}

#[derive(Debug)]
struct Running {
    meta: SnapshotMeta,
    begun: bool,
    log_bytes: u64,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    Snapshot,
    /// Nothing is kept of the chunks but their sum.
    Sum(Box<dyn Summing>),
    /// A snapshot that was begun and will not be ended.
    GivenUp,
}

impl Cutting {
    pub fn new(saved: u64, log_bytes: u64) -> Self {
        Self { saved, log_bytes, running: None, leaving: VecDeque::new(), retry_log_bytes: 0, pinned: false }
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
        // One that is on its way to disk may be enough; if not, the wish comes again.
        if is_due || (wanted_by_peer && self.leaving.is_empty()) {
            self.begin(machine, group, at);
        }
    }

    /// Cuts now, so that the log behind this shard can go: its oldest entries may hold back space that others share.
    pub fn begin_now(&mut self, machine: &mut impl Machine, group: &Group, at: At) {
        if at.index > self.saved {
            self.begin(machine, group, at);
        }
    }

    fn begin(&mut self, machine: &mut impl Machine, group: &Group, at: At) {
        // What has parted from the others must not be in anybody's snapshot.
        if self.running.is_some() || self.pinned || group.is_aside() {
            return;
        }
        machine.begin_cut();
        let (meta, purpose) = (meta_of(group, at), Purpose::Snapshot);
        self.running = Some(Running { meta, begun: false, log_bytes: self.log_bytes, purpose });
    }

    /// Begins to sum up the present state. A snapshot that is being cut goes before: false if there is one.
    pub fn begin_sum<M: Machine>(&mut self, machine: &mut M, group: &Group, at: At) -> bool {
        if self.running.is_some() {
            return false;
        }
        machine.begin_cut();
        let purpose = Purpose::Sum(M::summing());
        self.running = Some(Running { meta: meta_of(group, at), begun: true, log_bytes: self.log_bytes, purpose });
        true
    }

    /// Gives up what is running, if it is a sum.
    pub fn abandon_sum(&mut self, machine: &mut impl Machine) {
        if self.running.take_if(|running| matches!(running.purpose, Purpose::Sum(_))).is_some() {
            machine.abandon_cut();
        }
    }

    /// Gives up what is running. Of a snapshot, the host is told when it asks for the next pieces.
    pub fn abandon(&mut self, machine: &mut impl Machine) {
        self.abandon_sum(machine);
        if let Some(running) = &mut self.running
            && !matches!(std::mem::replace(&mut running.purpose, Purpose::GivenUp), Purpose::GivenUp)
        {
            machine.abandon_cut();
        }
    }

    pub fn forget_saved(&mut self) {
        self.saved = 0;
    }

    pub fn is_saving(&self) -> bool {
        self.running.is_some() || !self.leaving.is_empty()
    }

    pub fn pin(&mut self, pinned: bool) {
        self.pinned = pinned;
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them. Gives the sum, and the entry that it belongs to, when
    /// one is complete.
    pub fn give_some(
        &mut self,
        machine: &mut impl Machine,
        bytes: usize,
        parts: &mut Vec<SnapshotPart>,
    ) -> Option<(u64, Sum)> {
        let running = self.running.as_mut()?;
        if let Purpose::GivenUp = running.purpose {
            parts.extend(running.begun.then_some(SnapshotPart::Abandon));
            self.running = None;
            return None;
        }
        if !running.begun {
            running.begun = true;
            parts.push(SnapshotPart::Begin(running.meta.clone()));
        }
        let mut given = 0;
        while given < bytes {
            let Some(chunk) = machine.next_chunk() else {
                let done = self.running.take().expect("checked above");
                return self.end(done, parts);
            };
            given += chunk.len();
            match &mut running.purpose {
                Purpose::Snapshot => parts.push(SnapshotPart::Chunk(chunk)),
                Purpose::Sum(summing) => summing.push(&chunk).expect("a cut can be read by whoever has made it"),
                Purpose::GivenUp => unreachable!("looked at above"),
            }
        }
        None
    }

    fn end(&mut self, done: Running, parts: &mut Vec<SnapshotPart>) -> Option<(u64, Sum)> {
        match done.purpose {
            Purpose::Snapshot => {
                self.leaving.push_back((done.meta, done.log_bytes));
                parts.push(SnapshotPart::End);
                None
            }
            Purpose::Sum(summing) => {
                let mut sum = summing.finish().expect("a cut ends where whoever has made it says");
                let mut members = Vec::new();
                done.meta.membership.encode(&mut members);
                put_varint(&mut members, done.meta.conf_index);
                sum.add(&members);
                Some((done.meta.index, sum))
            }
            Purpose::GivenUp => unreachable!("it gives no chunks"),
        }
    }

    /// The host has the snapshot at this index on disk: followers may have it from there.
    pub fn saved(&mut self, group: &mut Group, index: u64) {
        self.saved = self.saved.max(index);
        self.retry_log_bytes = 0;
        while let Some((meta, covered)) = self.leaving.pop_front_if(|(leaving, _)| leaving.index <= index) {
            if meta.index == index && !group.is_aside() {
                group.offer_snapshot(&meta, Bytes::new());
            }
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

    /// A peer's snapshot has taken the place of everything.
    pub fn replaced(&mut self, meta: &SnapshotMeta) {
        self.running = None;
        self.saved = meta.index;
        (self.log_bytes, self.retry_log_bytes) = (0, 0);
        self.leaving.clear();
    }
}

/// Makes a machine that began empty into what a snapshot says that came in the message itself, each chunk with its length
/// before it.
pub(super) fn restored<M: Machine>(empty: M, data: &[u8]) -> Result<M, SnapshotError> {
    let (mut reader, mut chunks) = (Reader::new(data), Vec::new());
    while !reader.is_empty() {
        chunks.push(reader.bytes("snapshot chunk")?);
    }
    empty.restored(chunks)
}

fn meta_of(group: &Group, at: At) -> SnapshotMeta {
    let (membership, conf_index) = (group.membership().clone(), group.conf_index());
    SnapshotMeta { index: at.index, term: at.term, membership, conf_index }
}

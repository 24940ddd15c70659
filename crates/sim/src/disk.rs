//! A node's disk: the real storage, on a disk in memory that treats a crash as badly as a disk may. Beside it stands what the
//! storage has promised so far, for the checkers to look at; every start compares the two.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use shardine_host::{Batch, Receipt, SeatId};
use shardine_model::codec::{Reader, put_bytes};
use shardine_model::log::{HardState, LogEntry, LogOp, LogWrite, Membership, SnapshotMeta};
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::Restored;
use shardine_store::disk::memory::Fault;
use shardine_store::{DataDir, Identity, MemoryDisk, Mutant, Options, SnapshotWriter, Storage};

use crate::chance::Chance;
use crate::ground::{Ground, Planted};

/// Small, so that a short run fills many of them.
pub const SEGMENT_BYTES: usize = 8 << 10;
/// A crash in the middle of what is done to the disk comes before one of so many of its changes: a write to the log takes a few,
/// a snapshot two for every chunk.
const TORN_CHANGES_MAX: [u64; 3] = [6, 20, 120];

/// The cluster that every disk belongs to.
pub const CLUSTER: u128 = 1;

/// Of which group and replica, and the vote that it will not forget.
pub type Ballot = (usize, ReplicaId, HardState);

/// What the storage has promised to keep of one group. Invariant: `entries` follow each other without a gap.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Whose it is. 0 while nobody has been there.
    pub replica: ReplicaId,
    pub snapshot: SnapshotMeta,
    pub entries: VecDeque<LogEntry>,
    pub hard_state: HardState,
}

pub struct Disk {
    disk: MemoryDisk,
    identity: Identity,
    /// While the process lives.
    open: Option<(DataDir, Storage)>,
    promised: Vec<Stored>,
    shards: Vec<ShardId>,
    /// By lane.
    under_way: Vec<Option<Batch>>,
    /// Snapshots that are being written, by number.
    cuts: BTreeMap<u64, Cut>,
    next_cut: u64,
    /// Whether snapshots from peers come piece by piece, beside the log, and are installed by name.
    stages: bool,
    /// What a crash has met half-way.
    torn: Vec<LogOp>,
    mutant: Option<Mutant>,
}

/// A snapshot on its way to disk, in a file that grows chunk by chunk.
struct Cut {
    group: usize,
    seat: SeatId,
    replica: ReplicaId,
    meta: SnapshotMeta,
    writer: SnapshotWriter,
    /// Whether all chunks are written; only its end, its name and the sync of both are missing.
    is_whole: bool,
}

/// What a crash found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashed {
    /// Operations on the log that were on their way.
    pub ops: usize,
    /// Snapshots that were not complete.
    pub cuts: u64,
    /// Whether it came in the middle of the last step of a snapshot, or in the middle of an install.
    pub tore_cut: bool,
    pub tore_install: bool,
}

impl Disk {
    #[must_use]
    pub fn new<F>(ground: &Ground<F>, node: NodeId, shard: impl Fn(usize) -> ShardId) -> Self {
        Self {
            disk: MemoryDisk::new(ground.seed ^ node.0),
            identity: Identity { cluster: CLUSTER, node, name: String::new() },
            open: None,
            promised: vec![Stored::default(); ground.groups],
            shards: (0..ground.groups).map(shard).collect(),
            under_way: (0..ground.lanes).map(|_| None).collect(),
            cuts: BTreeMap::new(),
            next_cut: 1,
            stages: ground.stages_snapshots,
            torn: Vec::new(),
            mutant: ground.planted.and_then(Planted::of_store),
        }
    }

    #[must_use]
    pub fn stored(&self, group: usize) -> &Stored {
        &self.promised[group]
    }

    /// A process begins on the disk: recovery is the storage's own.
    pub fn start(&mut self) -> Result<(), String> {
        let open = || -> Result<(DataDir, Storage), shardine_store::Error> {
            let data = DataDir::lock_on(Arc::new(self.disk.clone()), Path::new("/node"))?;
            data.adopt(&self.identity)?;
            let options =
                Options { segment_bytes: SEGMENT_BYTES, frame_bytes: SEGMENT_BYTES, spares_max: 1, fill_ahead: false };
            let storage = Storage::open(&data, options)?.with_mutant(self.mutant);
            Ok((data, storage))
        };
        self.open = Some(open().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn storage(&self) -> &Storage {
        &self.open.as_ref().expect("the process lives").1
    }

    /// What a starting node finds of a group, of which it is to have this replica; `founders` are those who were there before any
    /// change. An error means that the storage has broken a promise.
    pub fn restore(
        &mut self,
        group: usize,
        replica: ReplicaId,
        founders: Membership,
    ) -> Result<(Vec<Vec<u8>>, Restored), String> {
        self.drop_older(group, replica)?;
        let loaded = self.storage().load(self.shards[group]).map_err(|error| error.to_string())?;
        let snapshot = SnapshotMeta { membership: founders, ..SnapshotMeta::default() };
        let mut found = Stored { replica, snapshot, ..Stored::default() };
        let mut chunks = Vec::new();
        if let Some(loaded) = loaded {
            if loaded.replica != replica {
                return Err(format!("replica {} is there, and the map says {replica}", loaded.replica));
            }
            if let Some(mut reader) = loaded.snapshot {
                found.snapshot = reader.meta().clone();
                while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
                    chunks.push(chunk);
                }
            }
            (found.hard_state, found.entries) = (loaded.hard_state, loaded.entries.into());
        }
        self.compare(group, &found)?;
        self.promised[group] = found.clone();
        let Stored { snapshot, hard_state, entries, .. } = found;
        Ok((chunks, Restored { snapshot, hard_state, entries: entries.into() }))
    }

    /// Whose log the disk has of a group, if it has one.
    pub fn holder(&self, group: usize) -> Result<Option<ReplicaId>, String> {
        self.storage().replica(self.shards[group]).map_err(|error| error.to_string())
    }

    /// The groups of which replicas were removed here, with the last one of each.
    #[must_use]
    pub fn removed(&self) -> Vec<(ShardId, ReplicaId)> {
        self.storage().removed()
    }

    /// Lets go of what a crash has left of a replica that was removed, as every start does: the map would not have this one, or none,
    /// otherwise.
    pub fn drop_older(&mut self, group: usize, wanted: ReplicaId) -> Result<(), String> {
        let shard = self.shards[group];
        let loaded = self.storage().load(shard).map_err(|error| error.to_string())?;
        let is_older = |replica: ReplicaId| replica < wanted || wanted == ReplicaId(0);
        if let Some(loaded) = loaded.filter(|loaded| is_older(loaded.replica)) {
            let op = LogOp::Remove { shard, replica: loaded.replica };
            self.storage().perform(vec![op]).map_err(|error| error.to_string())?;
        }
        if is_older(self.promised[group].replica) {
            self.promised[group] = Stored::default();
        }
        Ok(())
    }

    /// All groups have been looked at.
    pub fn started(&mut self) {
        self.torn.clear();
    }

    /// Everything that was promised is there, or was replaced by something that was on its way when the process died.
    fn compare(&self, group: usize, found: &Stored) -> Result<(), String> {
        let promised = &self.promised[group];
        // Somebody new, of whom nothing was promised.
        if promised.replica < found.replica {
            return Ok(());
        }
        let torn: Vec<&LogOp> = self.torn.iter().filter(|op| op.shard() == self.shards[group]).collect();
        if found.snapshot.index < promised.snapshot.index {
            return Err(format!("snapshot {} is lost, {} is there", promised.snapshot.index, found.snapshot.index));
        }
        let (was, is) = (promised.hard_state, found.hard_state);
        if is.term < was.term || is.term == was.term && was.vote != ReplicaId(0) && is.vote != was.vote {
            return Err(format!("{was:?} was promised, {is:?} is there"));
        }
        let is_replaced = |index: u64| {
            torn.iter().any(|op| match op {
                LogOp::Write(write) => write.entries.first().is_some_and(|first| first.index <= index),
                LogOp::Install(_) | LogOp::Remove { .. } => true,
                LogOp::Truncate { .. } => false,
            })
        };
        for entry in promised.entries.iter().filter(|entry| entry.index > found.snapshot.index) {
            let is_there = found.entry(entry.index).is_some_and(|found| found.term == entry.term);
            if !is_there && !is_replaced(entry.index) {
                return Err(format!("entry {} of term {} was promised and is lost", entry.index, entry.term));
            }
        }
        Ok(())
    }

    pub fn begin(&mut self, lane: usize, mut batch: Batch) -> Result<(), String> {
        if self.stages {
            batch.ops.iter_mut().try_for_each(|op| self.stage(op)).map_err(|error| error.to_string())?;
        }
        let before = self.under_way[lane].replace(batch);
        assert!(before.is_none(), "one batch of a lane is under way at most");
        Ok(())
    }

    /// The content of a snapshot from a peer has come beside its announcement.
    fn stage(&self, op: &mut LogOp) -> Result<(), shardine_store::Error> {
        let LogOp::Install(install) = op else { return Ok(()) };
        let data = std::mem::replace(&mut install.data, Bytes::new());
        let LogWrite { shard, replica, .. } = install.write;
        let mut receiver = self.storage().receive_snapshot(shard, replica, &install.meta)?;
        let mut chunks = Reader::new(&data);
        while !chunks.is_empty() {
            receiver.push(chunks.bytes("snapshot chunk").expect("the replica has read them"))?;
        }
        receiver.stage()
    }

    /// A batch is on disk; its receipt is for the lane. Says what replicas have promised by it about their votes.
    pub fn finish(&mut self, lane: usize) -> Result<(Receipt, Vec<Ballot>), String> {
        let Batch { ops, receipt } = self.under_way[lane].take().expect("it was begun");
        self.storage().perform(ops.clone()).map_err(|error| error.to_string())?;
        let ballots = ops.into_iter().filter_map(|op| self.promise(op)).collect();
        Ok((receipt, ballots))
    }

    fn promise(&mut self, op: LogOp) -> Option<Ballot> {
        let group = self.shards.iter().position(|shard| *shard == op.shard()).expect("one of these");
        let ballot = match &op {
            LogOp::Write(write) => Some(write),
            LogOp::Install(install) => Some(&install.write),
            LogOp::Truncate { .. } | LogOp::Remove { .. } => None,
        };
        let ballot = ballot.and_then(|write| Some((group, write.replica, write.hard_state?)));
        self.promised[group].take(op);
        ballot
    }

    /// The machine loses its power, perhaps in the middle of a batch or of the end of a snapshot.
    pub fn crash(&mut self, chance: &mut Chance) -> Crashed {
        let mut on_their_way: Vec<Vec<LogOp>> =
            self.under_way.iter_mut().filter_map(Option::take).map(|batch| batch.ops).collect();
        let mut found = Crashed { ops: on_their_way.iter().map(Vec::len).sum(), ..Crashed::default() };
        let changes_max = chance.pick(&TORN_CHANGES_MAX);
        self.disk.fail_after(chance.below(changes_max), Fault::Stop);
        chance.shuffle(&mut on_their_way);
        if let Some(ops) = on_their_way.pop()
            && chance.percent(80)
        {
            self.torn = ops;
            // Whether it came through does not matter: nobody hears of it.
            let _ = self.storage().perform(self.torn.clone());
            let installs = self.torn.iter().any(|op| matches!(op, LogOp::Install(_)));
            found.tore_install = installs && self.disk.has_stopped();
        }
        let cuts = std::mem::take(&mut self.cuts);
        found.cuts = cuts.len() as u64;
        for cut in cuts.into_values().filter(|cut| cut.is_whole) {
            if !self.disk.has_stopped() && chance.percent(50) {
                let _ = cut.writer.finish();
                found.tore_cut |= self.disk.has_stopped();
            } else {
                self.disk.stop();
            }
        }
        // What the process leaves behind stays as it is.
        self.disk.stop();
        self.open = None;
        self.disk.crash(&mut |below| chance.below(below));
        found
    }

    /// What a replica's snapshot on this disk says, if it is still the newest.
    pub fn snapshot_content(
        &self,
        group: usize,
        replica: ReplicaId,
        meta: &SnapshotMeta,
    ) -> Result<Option<Bytes>, String> {
        let read = || -> Result<Option<Bytes>, shardine_store::Error> {
            let Some(mut reader) = self.storage().snapshot(self.shards[group])? else { return Ok(None) };
            if (reader.replica(), reader.meta()) != (replica, meta) {
                return Ok(None);
            }
            let mut content = Vec::new();
            while let Some(chunk) = reader.next_chunk()? {
                put_bytes(&mut content, &chunk);
            }
            Ok(Some(content.into()))
        };
        read().map_err(|error| error.to_string())
    }

    /// A snapshot begins to be written. Its number names it until it is complete.
    pub fn begin_cut(
        &mut self,
        group: usize,
        (seat, replica): (SeatId, ReplicaId),
        meta: SnapshotMeta,
    ) -> Result<u64, String> {
        let writer = self.storage().cut_snapshot(self.shards[group], replica, &meta);
        let writer = writer.map_err(|error| error.to_string())?;
        let number = self.next_cut;
        self.next_cut += 1;
        self.cuts.insert(number, Cut { group, seat, replica, meta, writer, is_whole: false });
        Ok(number)
    }

    pub fn push_chunk(&mut self, cut: u64, chunk: &[u8]) -> Result<(), String> {
        let cut = self.cuts.get_mut(&cut).expect("it was begun");
        cut.writer.push(chunk).map_err(|error| error.to_string())
    }

    /// All chunks have come. Says up to where the snapshot reaches.
    pub fn end_chunks(&mut self, cut: u64) -> u64 {
        let cut = self.cuts.get_mut(&cut).expect("it was begun");
        cut.is_whole = true;
        cut.meta.index
    }

    /// A snapshot that nobody wants any more.
    pub fn drop_cut(&mut self, cut: u64) {
        self.cuts.remove(&cut);
    }

    /// Whose snapshot it is.
    pub fn whose_cut(&self, cut: u64) -> (usize, SeatId) {
        let cut = self.cuts.get(&cut).expect("it was begun");
        (cut.group, cut.seat)
    }

    /// A snapshot is complete: from here on it is the storage's to keep. Says up to where it reaches.
    pub fn finish_cut(&mut self, cut: u64) -> Result<u64, String> {
        let Cut { group, replica, meta, writer, .. } = self.cuts.remove(&cut).expect("it was begun");
        writer.finish().map_err(|error| error.to_string())?;
        let (promised, index) = (&mut self.promised[group], meta.index);
        if replica == promised.replica && index > promised.snapshot.index {
            promised.snapshot = meta;
        }
        Ok(index)
    }

    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.storage().log_bytes()
    }

    /// The group whose snapshot would let go of the oldest part of the log.
    #[must_use]
    pub fn oldest_group(&self) -> Option<usize> {
        let oldest = self.storage().oldest_shard()?;
        self.shards.iter().position(|shard| *shard == oldest)
    }

    /// Cuts the log up to an index, as a planted bug does.
    pub fn truncate_early(&mut self, group: usize, up_to: u64) -> Result<(), String> {
        let op = LogOp::Truncate { shard: self.shards[group], below: up_to + 1 };
        self.storage().perform(vec![op]).map_err(|error| error.to_string())
    }
}

impl Stored {
    fn take(&mut self, op: LogOp) {
        match op {
            LogOp::Write(write) => {
                self.replica = write.replica;
                self.write(write);
            }
            LogOp::Install(install) => {
                self.replica = install.write.replica;
                self.snapshot = install.meta;
                self.entries.clear();
                self.write(install.write);
            }
            LogOp::Truncate { below, .. } => {
                while self.entries.front().is_some_and(|entry| entry.index < below) {
                    self.entries.pop_front();
                }
            }
            LogOp::Remove { .. } => *self = Self::default(),
        }
    }

    fn write(&mut self, write: LogWrite) {
        if let Some(hard_state) = write.hard_state {
            assert!(hard_state.term >= self.hard_state.term, "a term on disk never goes back (reliability I4)");
            self.hard_state = hard_state;
        }
        if let Some(first) = write.entries.first() {
            while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
                self.entries.pop_back();
            }
        }
        self.entries.extend(write.entries);
    }

    /// Whether the entry of this index and term is here, as itself or within the snapshot.
    #[must_use]
    pub fn holds(&self, index: u64, term: u64) -> bool {
        index <= self.snapshot.index || self.entry(index).is_some_and(|entry| entry.term == term)
    }

    /// The entry of this index, unless a snapshot has taken its place.
    #[must_use]
    pub fn entry(&self, index: u64) -> Option<&LogEntry> {
        let place = index.checked_sub(self.entries.front()?.index)?;
        self.entries.get(place as usize).filter(|entry| entry.index == index)
    }
}

//! What a storage should hold, and what a replica might ask of it next. Knows nothing of files.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, Install, LogEntry, LogEntryKind, LogOp, LogWrite, SnapshotMeta};
use shardine_store::{Disk, Loaded, MemoryDisk};

/// A source of chance that is decided by its seed.
pub struct Chance(MemoryDisk);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(MemoryDisk::new(seed))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0.draw() % end
    }

    /// A number in `[lo, hi]`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A group as its replica believes it to be on disk.
#[derive(Clone, PartialEq, Eq)]
pub struct Group {
    pub replica: ReplicaId,
    pub hard_state: HardState,
    /// Index and term of the snapshot; zeros if there is none.
    pub snapshot: (u64, u64),
    /// Behind the snapshot.
    pub entries: Vec<LogEntry>,
}

/// A shard: a group, or only the number of the last replica that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shard {
    Live(Group),
    Gone(ReplicaId),
}

pub type Model = BTreeMap<ShardId, Shard>;

/// The content of a snapshot tells which one it is.
pub fn content(shard: ShardId, (index, term): (u64, u64)) -> Vec<u8> {
    format!("shard {shard} at {index} in {term} ").into_bytes().repeat(40)
}

impl fmt::Debug for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<_> = self.entries.iter().map(|entry| (entry.index, entry.term, entry.data.len())).collect();
        let HardState { term, vote, commit } = self.hard_state;
        let Self { replica, snapshot, .. } = self;
        write!(formatter, "replica {replica} term {term} vote {vote} commit {commit} {snapshot:?} {entries:?}")
    }
}

impl Group {
    fn new(replica: ReplicaId) -> Self {
        Self { replica, hard_state: HardState::default(), snapshot: (0, 0), entries: Vec::new() }
    }

    pub fn last(&self) -> u64 {
        self.entries.last().map_or(self.snapshot.0, |entry| entry.index)
    }

    fn term_at(&self, index: u64) -> u64 {
        self.entries.iter().find(|entry| entry.index == index).map_or(self.snapshot.1, |entry| entry.term)
    }

    fn append(&mut self, entries: &[LogEntry]) {
        if let Some(first) = entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
        }
        self.entries.extend_from_slice(entries);
    }

    /// The state comes from this snapshot from now on; entries behind it stay.
    pub fn cut(&mut self, index: u64) {
        self.snapshot = (index, self.term_at(index));
        self.entries.retain(|entry| entry.index > index);
    }
}

impl From<Loaded> for Group {
    fn from(loaded: Loaded) -> Self {
        let snapshot = loaded.snapshot.as_ref().map_or((0, 0), |reader| (reader.meta().index, reader.meta().term));
        Self { replica: loaded.replica, hard_state: loaded.hard_state, snapshot, entries: loaded.entries }
    }
}

/// Does an operation, and tells all states of its shard that a crash may leave on the way to the last of them.
pub fn step(model: &mut Model, op: &LogOp) -> (ShardId, Vec<Shard>) {
    match op {
        LogOp::Write(write) => (write.shard, step_write(model, write)),
        LogOp::Truncate { shard, .. } => (*shard, Vec::new()),
        LogOp::Remove { shard, replica } => {
            model.insert(*shard, Shard::Gone(*replica));
            (*shard, vec![Shard::Gone(*replica)])
        }
        LogOp::Install(install) => {
            let (shard, meta) = (install.write.shard, &install.meta);
            let known = match model.get(&shard) {
                Some(Shard::Live(group)) if group.replica == install.write.replica => group.hard_state,
                _ => HardState::default(),
            };
            let mut group = Group::new(install.write.replica);
            group.snapshot = (meta.index, meta.term);
            // The power fails when the snapshot is there and the log does not know of it.
            let vote = if known.term >= meta.term { known.vote } else { ReplicaId(0) };
            group.hard_state = HardState { term: known.term.max(meta.term), vote, commit: meta.index };
            let mut states = vec![Shard::Live(group.clone())];
            let hard_state = install.write.hard_state.unwrap();
            group.hard_state = HardState { commit: meta.index, ..hard_state };
            states.push(Shard::Live(group.clone()));
            model.insert(shard, Shard::Live(group));
            states.extend(step_write(model, &install.write));
            (shard, states)
        }
    }
}

/// A write may be cut into several, between two entries.
fn step_write(model: &mut Model, write: &LogWrite) -> Vec<Shard> {
    let mut group = match model.get(&write.shard) {
        Some(Shard::Live(group)) => group.clone(),
        _ => Group::new(write.replica),
    };
    let mut states = Vec::new();
    for entry in &write.entries {
        group.append(std::slice::from_ref(entry));
        if let Some(hard_state) = write.hard_state {
            group.hard_state = HardState { commit: hard_state.commit.min(entry.index), ..hard_state };
        }
        states.push(Shard::Live(group.clone()));
    }
    group.hard_state = write.hard_state.unwrap_or(group.hard_state);
    states.push(Shard::Live(group.clone()));
    model.insert(write.shard, Shard::Live(group));
    states
}

/// Something that a replica of this shard could ask for.
pub fn draw(model: &Model, shard: ShardId, chance: &mut Chance) -> LogOp {
    let group = match model.get(&shard) {
        None => Group::new(ReplicaId(1)),
        Some(Shard::Gone(removed)) => Group::new(ReplicaId(removed.0 + chance.between(1, 2))),
        Some(Shard::Live(group)) => group.clone(),
    };
    let is_live = matches!(model.get(&shard), Some(Shard::Live(_)));
    match chance.below(14) {
        0 if is_live => LogOp::Remove { shard, replica: group.replica },
        1 | 2 => draw_install(shard, &group, chance),
        3..=5 if is_live => LogOp::Truncate { shard, below: chance.between(0, group.snapshot.0 + 1) },
        _ => LogOp::Write(draw_write(shard, &group, chance)),
    }
}

fn draw_write(shard: ShardId, group: &Group, chance: &mut Chance) -> LogWrite {
    let term = group.hard_state.term.max(1) + u64::from(chance.one_in(5));
    let committed = group.hard_state.commit.max(group.snapshot.0);
    let first = if chance.one_in(4) { chance.between(committed + 1, group.last() + 1) } else { group.last() + 1 };
    let entries: Vec<LogEntry> =
        (first..first + chance.below(4)).map(|index| draw_entry(index, term, chance)).collect();
    let last = if entries.is_empty() { group.last() } else { first + entries.len() as u64 - 1 };
    let vote = if term > group.hard_state.term { ReplicaId(chance.below(4)) } else { group.hard_state.vote };
    let hard_state = HardState { term, vote, commit: chance.between(committed.min(last), last) };
    let must = term != group.hard_state.term;
    let hard_state = (must || !chance.one_in(3)).then_some(hard_state);
    LogWrite { shard, replica: group.replica, entries, hard_state }
}

fn draw_entry(index: u64, term: u64, chance: &mut Chance) -> LogEntry {
    let bytes = if chance.one_in(10) { chance.below(9_000) } else { chance.below(200) };
    let data = Bytes::from(format!("{index} in {term} ").into_bytes().repeat(1 + bytes as usize / 8));
    LogEntry { index, term, kind: LogEntryKind::Normal, data }
}

/// A leader sends a snapshot to whoever lacks its last entry, or has another one there.
fn draw_install(shard: ShardId, group: &Group, chance: &mut Chance) -> LogOp {
    let term = group.hard_state.term.max(1) + 1 + chance.below(2);
    let committed = group.hard_state.commit.max(group.snapshot.0);
    let meta = SnapshotMeta { index: chance.between(committed + 1, group.last() + 9), term, ..SnapshotMeta::default() };
    let mut data = Vec::new();
    shardine_model::codec::put_bytes(&mut data, &content(shard, (meta.index, meta.term)));
    let count = chance.below(3);
    let entries: Vec<LogEntry> =
        (meta.index + 1..=meta.index + count).map(|index| draw_entry(index, term, chance)).collect();
    let commit = chance.between(meta.index, meta.index + count);
    let hard_state = HardState { term: term + chance.below(2), vote: ReplicaId(chance.below(4)), commit };
    let write = LogWrite { shard, replica: group.replica, entries, hard_state: Some(hard_state) };
    LogOp::Install(Box::new(Install { meta, data: Bytes::from(data), write }))
}

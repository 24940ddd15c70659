//! A node with one founding shard, all of whose disk is a few maps, and that dies after so many steps of it.

use std::collections::BTreeMap;

use shardine_host::{Cradle, Host};
use shardine_model::log::{HardState, LogEntry, LogOp, LogWrite, Membership, SnapshotMeta};
use shardine_model::{Answer, Position, ReplicaId, RequestEpoch, RowKey, ShardId, Split, Timestamp};
use shardine_records::{Lookup, Records, Restore};
use shardine_shard::{Actions, Caller, Infancy, Options, Replica, Restored, SnapshotPart, SplitProgress, Time};
use shardine_story::words;

pub const PARENT: ShardId = ShardId(1);
const TICK_MS: u64 = 50;

#[derive(Clone, Debug, Default)]
struct Log {
    replica: ReplicaId,
    hard_state: HardState,
    entries: Vec<LogEntry>,
}

/// What outlives the process.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    logs: BTreeMap<ShardId, Log>,
    snapshots: BTreeMap<ShardId, (SnapshotMeta, Vec<Vec<u8>>)>,
    removed: BTreeMap<ShardId, ReplicaId>,
}

/// The process has died.
#[derive(Debug)]
pub struct Died;

pub struct Node {
    pub host: Host<Replica>,
    pub disk: Disk,
    /// Steps of the disk until the process dies.
    steps_left: usize,
    /// Snapshots that are being written.
    open: BTreeMap<ShardId, (SnapshotMeta, Vec<Vec<u8>>)>,
    /// While this holds, pieces of snapshots of what was born wait before the disk.
    pub is_snapshot_slow: bool,
    /// Plants a bug: no log is kept for what was born of it.
    pub ignores_pins: bool,
    waiting: Vec<shardine_host::Part>,
    now_ms: u64,
    callers: u64,
    answers: BTreeMap<u64, Answer>,
}

impl Node {
    /// Begins with what a disk has, as a server does.
    pub fn start(disk: Disk, steps: usize, change: fn(&mut Options)) -> Self {
        let mut node = Self {
            host: Host::default(),
            disk,
            steps_left: steps,
            open: BTreeMap::new(),
            is_snapshot_slow: false,
            ignores_pins: false,
            waiting: Vec::new(),
            now_ms: 1_000,
            callers: 0,
            answers: BTreeMap::new(),
        };
        node.set_time();
        let shards: Vec<ShardId> = node.disk.logs.keys().copied().collect();
        for shard in node.disk.snapshots.keys() {
            assert!(node.disk.logs.contains_key(shard), "shard {shard} has a snapshot that the log knows nothing of");
        }
        let mut cradle = Cradle { removed: node.disk.removed.clone(), ..Cradle::default() };
        let mut newborns = Vec::new();
        for shard in shards.iter().copied().chain((!shards.contains(&PARENT)).then_some(PARENT)) {
            let Log { replica, hard_state, entries } = node.disk.logs.get(&shard).cloned().unwrap_or_default();
            let snapshot = node.disk.snapshots.get(&shard).cloned();
            if snapshot.is_none() && shard != PARENT {
                cradle.infancies.insert(shard, (replica, Infancy { hard_state, entries }));
                continue;
            }
            let mut restore = Restore::new(Records::new(7));
            let (meta, chunks) = snapshot.unwrap_or_else(|| (founding(), Vec::new()));
            let records = match chunks.is_empty() {
                true => Records::new(7),
                false => {
                    chunks.iter().for_each(|chunk| restore.push(chunk).unwrap());
                    restore.finish().unwrap()
                }
            };
            let entries: Vec<LogEntry> = entries.into_iter().filter(|entry| entry.index > meta.index).collect();
            assert!(
                entries.first().is_none_or(|first| first.index == meta.index + 1),
                "shard {shard} lacks entries between its snapshot and its log"
            );
            let mut options = Options::new(ReplicaId(1), shard);
            change(&mut options);
            let replica = Replica::new(options, records, Restored { snapshot: meta, hard_state, entries });
            let (replica, born) = replica.catch_up().unwrap();
            newborns.extend(born);
            node.host.add(shard, ReplicaId(1), Ok(replica));
        }
        node.host.set_cradle(cradle);
        newborns.into_iter().for_each(|newborn| node.host.settle(newborn));
        node.host.campaign();
        node
    }

    fn set_time(&mut self) {
        self.host.set_time(Time { monotonic_ms: self.now_ms, wall: Timestamp(self.now_ms) });
    }

    /// Turns until nothing moves, with some ticks.
    pub fn run(&mut self) -> Result<(), Died> {
        for _ in 0..6 {
            self.turn()?;
            self.now_ms += TICK_MS;
            self.set_time();
            self.host.run_due();
            self.host.tick();
        }
        self.turn()
    }

    fn turn(&mut self) -> Result<(), Died> {
        loop {
            if self.host.is_cutting() {
                self.host.cut_some();
            }
            if self.ignores_pins
                && let Some(seat) = self.host.seat_of(PARENT)
            {
                self.host.act(seat, |replica, _| replica.pin(false));
            }
            self.host.end_turn();
            while let Some((_, actions)) = self.host.next_acted() {
                let Actions { answers, returned, .. } = actions;
                let returned = returned.drain(..).map(|returned| (returned.caller, Answer::Failed(returned.why)));
                let answers: Vec<(Caller, Answer)> = answers.drain(..).chain(returned).collect();
                self.answers.extend(answers.into_iter().map(|(caller, answer)| (caller.sequence, answer)));
            }
            let parts = std::mem::take(&mut self.host.parts);
            self.waiting.extend(parts);
            self.write_snapshots()?;
            match self.host.begin_batch() {
                Some(batch) => {
                    for op in batch.ops {
                        self.perform(op)?;
                    }
                    self.host.finish_batch(batch.receipt);
                }
                None if self.host.is_touched() || self.host.is_cutting() => {}
                None => return Ok(()),
            }
        }
    }

    fn step(&mut self) -> Result<(), Died> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Died)?;
        Ok(())
    }

    fn write_snapshots(&mut self) -> Result<(), Died> {
        for part in std::mem::take(&mut self.waiting) {
            if self.is_snapshot_slow && part.shard != PARENT {
                self.waiting.push(part);
                continue;
            }
            self.step()?;
            match part.part {
                SnapshotPart::Begin(meta) => drop(self.open.insert(part.shard, (meta, Vec::new()))),
                SnapshotPart::Chunk(chunk) => {
                    self.open.get_mut(&part.shard).expect("a snapshot begins before it goes on").1.push(chunk);
                }
                SnapshotPart::End => {
                    let (meta, chunks) = self.open.remove(&part.shard).expect("a snapshot begins before it ends");
                    let index = meta.index;
                    self.disk.snapshots.insert(part.shard, (meta, chunks));
                    self.host.snapshot_saved(part.seat, index);
                }
                SnapshotPart::Abandon => drop(self.open.remove(&part.shard)),
            }
        }
        Ok(())
    }

    fn perform(&mut self, op: LogOp) -> Result<(), Died> {
        self.step()?;
        match op {
            LogOp::Write(LogWrite { shard, replica, entries, hard_state }) => {
                let log = self.disk.logs.entry(shard).or_default();
                log.replica = replica;
                if let Some(first) = entries.first() {
                    let next = log.entries.last().map_or(first.index, |last| last.index + 1);
                    assert!(first.index <= next, "shard {shard} leaves a gap before entry {}", first.index);
                    log.entries.retain(|entry| entry.index < first.index);
                    log.entries.extend(entries);
                }
                log.hard_state = hard_state.unwrap_or(log.hard_state);
            }
            LogOp::Truncate { shard, below } => {
                if let Some(log) = self.disk.logs.get_mut(&shard) {
                    log.entries.retain(|entry| entry.index >= below);
                }
            }
            LogOp::Install(_) => unreachable!("a group of one is sent nothing"),
            LogOp::Remove { shard, replica } => {
                self.disk.logs.remove(&shard);
                self.disk.snapshots.remove(&shard);
                self.disk.removed.insert(shard, replica);
            }
        }
        Ok(())
    }

    /// The replica that owns a key.
    fn owner(&self, key: &str) -> Option<ShardId> {
        let row = row(key);
        let owns = |replica: &&Replica| replica.records().owns(row.as_row());
        let owners: Vec<ShardId> = self.host.replicas().filter(owns).map(Replica::shard).collect();
        assert!(owners.len() <= 1, "{key} has {owners:?}");
        owners.first().copied()
    }

    /// Changes a record; says whether that was acknowledged.
    pub fn set(&mut self, key: &str, value: u64) -> Result<bool, Died> {
        let shard = self.owner(key).unwrap_or_else(|| panic!("{key} belongs to nobody"));
        let seat = self.host.seat_of(shard).expect("it was just found");
        self.callers += 1;
        let caller = Caller { source: 1, sequence: self.callers };
        let line = format!("set kv:{key} f={value}");
        self.host.act(seat, |replica, actions| {
            let request = words::request(replica.records().catalogue(), &line).expect("a request");
            let epoch: RequestEpoch = replica.records().epoch();
            replica.submit(caller, &request, epoch, actions);
        });
        self.run()?;
        Ok(matches!(self.answers.get(&caller.sequence), Some(Answer::One(reply)) if reply.refusal().is_none()))
    }

    /// The version of a record.
    pub fn version(&self, key: &str) -> i64 {
        let row = row(key);
        let Some(shard) = self.owner(key) else { return 0 };
        let replica = self.host.replica(self.host.seat_of(shard).unwrap()).unwrap();
        match replica.records().get(row.position(), row.as_row()) {
            Lookup::Live(view) => view.version.0,
            Lookup::Absent { .. } | Lookup::NotResident | Lookup::UnknownTable => 0,
        }
    }

    pub fn advance_split(&mut self, split: &Split) -> Result<SplitProgress, Died> {
        let seat = self.host.seat_of(PARENT).expect("the parent stays");
        let progress = self.host.act(seat, |replica, actions| replica.advance_split(split, actions)).unwrap();
        self.run()?;
        Ok(progress)
    }
}

struct Row(Vec<u8>);

impl Row {
    fn as_row(&self) -> RowKey<'_> {
        RowKey { table: shardine_model::table::KV, key: &self.0, sort: b"" }
    }

    fn position(&self) -> Position {
        self.as_row().position()
    }
}

fn row(key: &str) -> Row {
    Row(key.as_bytes().to_vec())
}

fn founding() -> SnapshotMeta {
    SnapshotMeta { membership: Membership::of([ReplicaId(1)]), ..SnapshotMeta::default() }
}

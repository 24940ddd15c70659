//! Whatever the disk does, at whatever moment: everything that was acknowledged is there after the next start, and nothing is
//! served that was not written (records 74). Seeds decide; a failure names its own.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};

use common::model::{Chance, Group, Model, Shard, content, draw, step};
use common::node::Node;
use common::{Ground, SMALL};
use shardine_model::ids::ShardId;
use shardine_model::log::{LogOp, SnapshotMeta};
use shardine_store::disk::memory::Fault;
use shardine_store::{MemoryDisk, Options};

const SEEDS: u64 = 400;
/// Processes in one run.
const LIVES: u64 = 8;
const SHARDS: u64 = 3;

struct World {
    chance: Chance,
    disk: MemoryDisk,
    ground: Ground,
    options: Options,
    model: Model,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let disk = MemoryDisk::new(seed);
        let frame_bytes = [600, 5_000, 1 << 20][chance.below(3) as usize];
        let options = Options { frame_bytes, fill_ahead: false, ..SMALL };
        Self { chance, ground: Ground::Memory(disk.clone()), disk, options, model: Model::new() }
    }

    /// One process, from its start to its end. What it was doing when it ended may have happened or not.
    fn live(&mut self) {
        let mut pending = BTreeMap::new();
        self.arm();
        if let Ok(node) = self.ground.try_start(self.options) {
            self.check(&node, &BTreeMap::new());
            pending = self.work(&node);
            self.end(node);
        } else {
            self.end(());
        }
        let node = self.ground.try_start(self.options).unwrap_or_else(|error| panic!("it does not start: {error}"));
        self.check(&node, &pending);
        self.adopt(&node);
        if self.chance.one_in(2) {
            self.end(node);
        }
    }

    /// Something will go wrong, or nothing.
    fn arm(&mut self) {
        let changes = self.chance.below(80);
        match self.chance.below(4) {
            0 => self.disk.fail_after(changes, Fault::Error(io::ErrorKind::Other)),
            1 => {}
            _ => self.disk.fail_after(changes, Fault::Stop),
        }
    }

    /// Works until something goes wrong. Returns the states that may be found of each shard then.
    fn work(&mut self, node: &Node) -> BTreeMap<ShardId, Vec<Shard>> {
        for _ in 0..self.chance.between(1, 25) {
            let shard = ShardId(self.chance.between(1, SHARDS) as u32);
            if self.chance.one_in(4) {
                if let Some(Shard::Live(group)) = self.model.get(&shard)
                    && group.hard_state.commit > group.snapshot.0
                    && !self.cut(node, shard, group.clone())
                {
                    let Some(Shard::Live(group)) = self.model.get(&shard) else { unreachable!() };
                    let mut after = group.clone();
                    after.cut(group.hard_state.commit);
                    return BTreeMap::from([(shard, vec![Shard::Live(after)])]);
                }
            } else if let Some(pending) = self.perform(node) {
                return pending;
            }
        }
        BTreeMap::new()
    }

    /// Stores a snapshot of what is committed. Returns whether it is there.
    fn cut(&mut self, node: &Node, shard: ShardId, mut group: Group) -> bool {
        group.cut(group.hard_state.commit);
        let meta = SnapshotMeta { index: group.snapshot.0, term: group.snapshot.1, ..SnapshotMeta::default() };
        let written = node.storage.cut_snapshot(shard, group.replica, &meta).and_then(|mut writer| {
            writer.push(&content(shard, group.snapshot))?;
            writer.finish()
        });
        if written.is_ok() {
            self.model.insert(shard, Shard::Live(group));
        }
        written.is_ok()
    }

    fn perform(&mut self, node: &Node) -> Option<BTreeMap<ShardId, Vec<Shard>>> {
        let mut after = self.model.clone();
        let mut pending: BTreeMap<ShardId, Vec<Shard>> = BTreeMap::new();
        let mut ops: Vec<LogOp> = Vec::new();
        for _ in 0..self.chance.between(1, 5) {
            let shard = ShardId(self.chance.between(1, SHARDS) as u32);
            let op = draw(&after, shard, &mut self.chance);
            let (shard, states) = step(&mut after, &op);
            pending.entry(shard).or_default().extend(states);
            ops.push(op);
        }
        match node.storage.perform(ops) {
            Ok(()) => {
                self.model = after;
                None
            }
            Err(_) => Some(pending),
        }
    }

    /// The process ends: in good order, killed, or with the power.
    fn end<T>(&mut self, node: T) {
        match self.chance.below(4) {
            0 => drop(node),
            1 => {
                self.disk.kill();
                drop(node);
            }
            _ => {
                self.disk.crash(&mut |end| self.chance.below(end));
                drop(node);
            }
        }
        self.disk.kill();
    }

    /// Everything acknowledged is there, or, of what was under way, a state that leads there.
    fn check(&self, node: &Node, pending: &BTreeMap<ShardId, Vec<Shard>>) {
        let none = Vec::new();
        for shard in (1..=SHARDS).map(|number| ShardId(number as u32)) {
            let found = self.found(node, shard);
            let allowed = self.model.get(&shard).into_iter().chain(pending.get(&shard).unwrap_or(&none));
            let is_allowed = allowed.clone().any(|allowed| Some(allowed) == found.as_ref());
            let is_new = found.is_none() && !self.model.contains_key(&shard);
            assert!(is_allowed || is_new, "shard {shard}: {found:?} is none of {:#?}", allowed.collect::<Vec<_>>());
        }
    }

    fn found(&self, node: &Node, shard: ShardId) -> Option<Shard> {
        let loaded = node.storage.load(shard).unwrap_or_else(|error| panic!("shard {shard} does not load: {error}"));
        let Some(mut loaded) = loaded else {
            let removed = node.storage.removed().into_iter().find(|(removed, _)| *removed == shard);
            return removed.map(|(_, replica)| Shard::Gone(replica));
        };
        if let Some(snapshot) = &mut loaded.snapshot {
            let place = (snapshot.meta().index, snapshot.meta().term);
            assert_eq!(
                snapshot.next_chunk().unwrap(),
                Some(content(shard, place)),
                "the state is that of the snapshot"
            );
            assert_eq!(snapshot.next_chunk().unwrap(), None);
        }
        Some(Shard::Live(loaded.into()))
    }

    /// From now on what was found is what must be there.
    fn adopt(&mut self, node: &Node) {
        for shard in (1..=SHARDS).map(|number| ShardId(number as u32)) {
            if let Some(found) = self.found(node, shard) {
                self.model.insert(shard, found);
            }
        }
    }
}

/// reliability I28, I32.
#[test]
fn records_74_what_was_acknowledged_survives_whatever_happens() {
    for seed in seeds() {
        let run = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(seed);
            (0..LIVES).for_each(|_| world.live());
        }));
        assert!(
            run.is_ok(),
            "seed {seed} failed; replay it with: STORE_SEED={seed} cargo nextest run -p shardine-store --test crash"
        );
    }
}

/// One seed if somebody wants to look at it again; more than usual if somebody has the time.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match number("STORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORE_SEEDS").unwrap_or(SEEDS),
    }
}

//! What a node does around its replicas, as the server would: feeds them events and performs their actions in order.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::log::SnapshotMeta;
use shardine_model::{NodeId, ShardId};
use shardine_shard::{Actions, Class, Mutant, Options, Replica, SnapshotPart, Trouble};

use crate::chance::Chance;
use crate::check::{Violation, acknowledged_is_durable, replicas_agree};
use crate::event::{Event, Input};
use crate::plan::MS;
use crate::world::{NOBODY, Node, World};

/// Bytes of a snapshot that are cut in one go: little, so that changes come between.
const CUT_BYTES: usize = 64;

impl World {
    /// Starts a node from what its disk holds.
    pub fn start(&mut self, node: usize) {
        self.nodes[node].life += 1;
        self.nodes[node].paused_until = 0;
        let life = self.nodes[node].life;
        self.note(&[1, node as u64, life], || format!("node {} starts, life {life}", node + 1));
        let mut replicas = Vec::new();
        for shard in 0..self.plan.shards as usize {
            let restored = self.nodes[node].disk.restore(shard, self.plan.seed);
            let (records, restored) = match restored {
                Ok(found) => found,
                Err(reason) => {
                    let detail = format!("node {} cannot start: {reason}", node + 1);
                    return self.demand(Err(Violation::new(acknowledged_is_durable::NAME, detail)));
                }
            };
            self.counters.restarts_from_snapshot += u64::from(restored.snapshot.index > 0);
            let options = self.options(node, shard, life);
            replicas.push(Replica::new(options, records, restored));
        }
        self.nodes[node].replicas = replicas;
        self.watch.forget_node(node);
        let first = self.chance.below(self.nodes[node].tick_us);
        self.later(first, Event::Own { node, life, input: Input::Tick });
    }

    fn options(&self, node: usize, shard: usize, life: u64) -> Options {
        let interval = self.universe.intervals[shard];
        let mut options = Options::new(NodeId(node as u64 + 1), ShardId(shard as u32), interval);
        options.incarnation = life;
        options.seed = self.plan.seed;
        options.snapshot_log_bytes = self.plan.snapshot_log_bytes;
        options.window_entries = self.plan.window_entries;
        options.tombstone_keep_ms = self.plan.tombstone_keep_ms;
        options.memory = self.plan.limits.memory;
        options.purge_quiet_ms = self.sql.lateness_ms();
        options.dirty.hard.rows = self.plan.limits.dirty_rows_hard;
        options.mutant = self.plan.mutant;
        options
    }

    /// Something reaches a node. A node that is down misses it; a paused one finds it later.
    pub fn reach(&mut self, node: usize, input: Input) {
        if !self.nodes[node].is_up() {
            return;
        }
        if let Input::Tick = input {
            let Node { life, mut tick_us, late_ticks_until, .. } = self.nodes[node];
            if self.now < late_ticks_until {
                tick_us *= 5;
            }
            self.later(tick_us, Event::Own { node, life, input: Input::Tick });
        }
        if self.now < self.nodes[node].paused_until {
            self.nodes[node].backlog.push(input);
        } else {
            self.take_in(node, input);
        }
    }

    /// A paused process goes on with everything that waited for it.
    pub fn resume(&mut self, node: usize) {
        if self.now < self.nodes[node].paused_until || self.nodes[node].backlog.is_empty() {
            return;
        }
        let life = self.nodes[node].life;
        let mut backlog = std::mem::take(&mut self.nodes[node].backlog);
        // A timer that fired many times while the process stood still fires a few times at most afterwards.
        let mut ticks = self.chance.index(6);
        backlog.retain(|input| match input {
            Input::Tick => {
                ticks = ticks.saturating_sub(1);
                ticks > 0
            }
            _ => true,
        });
        let backlog = in_any_order(backlog, &mut self.chance);
        self.note(&[2, node as u64, backlog.len() as u64], || format!("node {} goes on", node + 1));
        for input in backlog {
            if self.lives(node, life) {
                self.take_in(node, input);
            }
        }
    }

    fn take_in(&mut self, node: usize, input: Input) {
        match input {
            Input::Tick => {
                let time = self.nodes[node].clock.read(self.now);
                for shard in 0..self.plan.shards as usize {
                    self.drive(node, shard, |replica, actions| replica.tick(time, actions));
                }
            }
            Input::Message { shard, message } => {
                self.note(&[3, node as u64, shard as u64, message.term(), message.from()], || {
                    format!("node {} shard {shard} gets {}", node + 1, message.summary())
                });
                self.watch.stale.hear(node, shard, message.from() as usize - 1, self.now);
                self.drive(node, shard, |replica, actions| replica.step(message, actions));
            }
            Input::Request { attempt } => self.take_request(node, attempt),
            Input::Synced { writes } => {
                for (shard, number) in writes {
                    self.drive(node, shard, |replica, actions| replica.persisted(number, actions));
                }
                // The log is free: whatever gathered meanwhile goes into the next write, of every shard.
                for shard in 0..self.plan.shards as usize {
                    self.drive(node, shard, |_, _| {});
                }
            }
            Input::SnapshotSaved { shard, index } => {
                self.drive(node, shard, |replica, _| replica.snapshot_saved(index));
            }
            Input::Cut { shard } => {
                self.nodes[node].cut_asked[shard] = false;
                self.drive(node, shard, |replica, actions| replica.cut_some(CUT_BYTES, actions));
            }
            Input::Loaded { shard, question, rows } => {
                self.drive(node, shard, |replica, actions| replica.loaded(question, rows, actions));
            }
            Input::LoadFailed { shard, question, rows } => {
                self.drive(node, shard, |replica, actions| {
                    replica.load_failed(question, &rows, &unreachable(), actions)
                });
            }
            Input::Flushed { shard, term, results } => {
                self.drive(node, shard, |replica, actions| replica.flushed(term, &results, actions));
            }
            Input::Purged { shard, term, rows } => {
                self.drive(node, shard, |replica, actions| replica.purged(term, &rows, actions));
            }
            Input::PurgeFailed { shard, term } => {
                self.drive(node, shard, |replica, _| replica.purge_failed(term));
            }
            Input::FlushFailed { shard, term, rows } => {
                self.drive(node, shard, |replica, _| replica.flush_failed(term, &rows, &unreachable()));
            }
        }
    }

    /// One turn of a replica: tell it the time, do the work, propose if the log is free, perform what it asks for.
    pub fn drive(&mut self, node: usize, shard: usize, work: impl FnOnce(&mut Replica, &mut Actions)) {
        if self.violation.is_some() {
            return;
        }
        let mut actions = std::mem::take(&mut self.spare_actions);
        let Node { replicas, clock, disk, cut_asked, .. } = &mut self.nodes[node];
        let Some(replica) = replicas.get_mut(shard) else { return };
        replica.set_time(clock.read(self.now));
        work(replica, &mut actions);
        if replica.wants_flush() && (self.plan.eager || disk.is_idle()) {
            replica.flush(&mut actions);
        }
        replica.ask_sql(&mut actions);
        let wants_cut = replica.is_cutting() && !cut_asked[shard];
        self.perform(node, shard, &mut actions);
        self.spare_actions = actions;
        if wants_cut {
            self.nodes[node].cut_asked[shard] = true;
            let (life, delay) = (self.nodes[node].life, self.chance.between((200, 5 * MS)));
            self.later(delay, Event::Own { node, life, input: Input::Cut { shard } });
        }
        self.observe(node, shard);
    }

    fn perform(&mut self, node: usize, shard: usize, actions: &mut Actions) {
        for persist in actions.persists.drain(..) {
            self.counters.snapshot_installs += u64::from(persist.install.is_some());
            self.nodes[node].disk.push(shard, persist);
        }
        self.start_sync(node);
        for message in actions.messages.drain(..) {
            self.send(node, shard, message);
        }
        for (caller, answer) in actions.answers.drain(..).filter(|(caller, _)| *caller != NOBODY) {
            self.answer(node, caller.sequence, answer);
        }
        for load in actions.loads.drain(..) {
            self.ask_sql(node, shard, load);
        }
        for write in actions.writes.drain(..) {
            self.tell_sql(node, shard, write);
        }
        for purge in actions.purges.drain(..) {
            self.purge_sql(node, shard, purge);
        }
        for part in actions.snapshot.drain(..) {
            self.store_part(node, shard, part);
        }
        if let Some(reason) = actions.stop.take() {
            self.demand(Err(Violation::new(replicas_agree::NAME, format!("node {}: {reason}", node + 1))));
        }
    }

    fn send(&mut self, node: usize, shard: usize, message: shardine_shard::Message) {
        let to = message.to() as usize - 1;
        let fate = self.net.send(node, to, self.now);
        match fate.arrivals {
            [Some(at), None] => {
                self.schedule.at(at, Event::Arrive { node: to, input: Input::Message { shard, message } });
            }
            [Some(first), Some(second)] => {
                self.counters.messages_copied += 1;
                for at in [first, second] {
                    let message = message.clone();
                    self.schedule.at(at, Event::Arrive { node: to, input: Input::Message { shard, message } });
                }
            }
            [None, _] => self.counters.messages_lost += 1,
        }
    }

    fn start_sync(&mut self, node: usize) {
        if !self.nodes[node].disk.start_sync() {
            return;
        }
        let mut delay = self.chance.between(self.plan.disk.sync);
        if self.now < self.nodes[node].slow_until {
            delay += self.chance.between(self.plan.disk.stall);
        }
        let life = self.nodes[node].life;
        if let Some(down) = self.nodes[node].crash_at_write.take() {
            let when = self.chance.below(delay);
            self.later(when, Event::Crash { node, life, down });
        }
        self.later(delay, Event::DiskSynced { node, life });
    }

    /// The disk is done whether or not the process is there to hear it.
    pub fn disk_synced(&mut self, node: usize, life: u64) {
        if !self.lives(node, life) {
            return;
        }
        let writes: Vec<(usize, u64)> = self.nodes[node].disk.finish_sync().into_iter().collect();
        self.note(&[4, node as u64, writes.len() as u64], || format!("node {} synced {writes:?}", node + 1));
        self.start_sync(node);
        self.reach(node, Input::Synced { writes });
    }

    fn store_part(&mut self, node: usize, shard: usize, part: SnapshotPart) {
        match part {
            // A new one may begin while an old one is unfinished: an installed snapshot ends a cut.
            SnapshotPart::Begin(meta) => self.nodes[node].cuts[shard] = Some((meta, Vec::new())),
            SnapshotPart::Chunk(chunk) => {
                let (_, chunks) = self.nodes[node].cuts[shard].as_mut().expect("chunks come after a beginning");
                chunks.push(chunk);
            }
            SnapshotPart::End => {
                let (meta, chunks) = self.nodes[node].cuts[shard].take().expect("an end comes after a beginning");
                if self.plan.mutant == Some(Mutant::TruncateBeforeSnapshot) {
                    self.nodes[node].disk.truncate(shard, meta.index);
                }
                let (life, delay) = (self.nodes[node].life, self.chance.between(self.plan.disk.snapshot));
                self.later(delay, Event::SnapshotWritten { node, life, shard, meta, chunks });
            }
        }
    }

    pub fn snapshot_written(&mut self, node: usize, life: u64, shard: usize, meta: SnapshotMeta, chunks: Vec<Vec<u8>>) {
        if !self.lives(node, life) {
            self.counters.snapshots_lost += 1;
            return;
        }
        let index = meta.index;
        self.counters.snapshots_cut += 1;
        self.note(&[5, node as u64, shard as u64, index], || {
            format!("node {} shard {shard} has its snapshot at {index} on disk", node + 1)
        });
        self.nodes[node].disk.save_snapshot(shard, meta, chunks);
        self.nodes[node].disk.truncate(shard, index);
        self.reach(node, Input::SnapshotSaved { shard, index });
    }
}

/// What a node hears of a statement that failed, or that it has given up on.
fn unreachable() -> Trouble {
    Trouble { class: Class::Retryable, message: "SQL does not answer".to_owned() }
}

/// The order in which a process finds what waited: any order at all, or, as with sockets, in order from each source, and
/// some sources long before others.
fn in_any_order(mut backlog: Vec<Input>, chance: &mut Chance) -> Vec<Input> {
    if chance.percent(40) {
        chance.shuffle(&mut backlog);
        return backlog;
    }
    let mut sources: BTreeMap<u64, VecDeque<Input>> = BTreeMap::new();
    for input in backlog {
        let source = match &input {
            Input::Request { .. } => u64::MAX,
            Input::Message { message, .. } => message.from(),
            _ => 0,
        };
        sources.entry(source).or_default().push_back(input);
    }
    let mut waiting: Vec<VecDeque<Input>> = sources.into_values().collect();
    chance.shuffle(&mut waiting);
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        // Mostly the first source, until it is empty.
        let source = if chance.percent(95) { 0 } else { chance.index(waiting.len()) };
        ordered.extend(waiting[source].pop_front());
        waiting.retain(|queue| !queue.is_empty());
    }
    ordered
}

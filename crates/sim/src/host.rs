//! What a node does around its replicas, as the server would: feeds them events and performs their actions in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_host::{Batch, Cradle, Host, Part, SeatId};
use shardine_model::ReplicaId;
use shardine_model::log::LogOp;
use shardine_shard::{Infancy, Newborn, Restored, SnapshotPart};
use shardine_transport::Clocks;

use crate::chance::Chance;
use crate::check::{Violation, acknowledged_is_durable, replicas_agree};
use crate::event::{Event, Input};
use crate::ground::{MS, Planted};
use crate::kinship::Kinship;
use crate::replicas::Replicas;
use crate::tenant::{ActionsOf, InputOf, Member, Seat, Tenant};
use crate::world::{Node, World};

/// What a start finds of a group.
enum Brought<T: Tenant> {
    Whole(Box<T::Replica>, Vec<Newborn>),
    /// It is born again when the log of its parent has come to that.
    Infant(ReplicaId, Infancy),
    Nothing,
}

impl<T: Tenant> World<T> {
    /// Starts a node from what its disk holds.
    pub fn start(&mut self, node: usize) {
        self.nodes[node].life += 1;
        if self.nodes[node].is_blank {
            return;
        }
        let is_alone = self.ground.machines == 1;
        self.nodes[node].clocks = Clocks::default();
        self.nodes[node].paused_until = 0;
        let life = self.nodes[node].life;
        self.note(&[1, node as u64, life], || format!("node {} starts, life {life}", node + 1));
        let (mut replicas, mut cradle, mut newborns) = (Vec::new(), Cradle::default(), Vec::new());
        if let Err(reason) = self.nodes[node].disk.start() {
            return self.cannot_start(node, &reason);
        }
        cradle.removed = self.nodes[node].disk.removed().into_iter().collect();
        for group in 0..self.ground.groups {
            match self.bring(node, group) {
                Ok(Brought::Whole(replica, born)) => {
                    newborns.extend(born.into_iter().map(|newborn| (group, newborn)));
                    replicas.push(Some(*replica));
                }
                Ok(Brought::Infant(replica, infancy)) => {
                    self.counters.infants += 1;
                    cradle.infancies.insert(T::shard(group), (replica, infancy));
                    replicas.push(None);
                }
                Ok(Brought::Nothing) => replicas.push(None),
                Err(reason) => return self.cannot_start(node, &reason),
            }
        }
        let newest = replicas.iter().flatten().map(Member::stamp).max().unwrap_or_default();
        self.nodes[node].clock.begin(self.now, is_alone, newest);
        self.nodes[node].disk.started();
        let shards = (0..self.ground.groups).map(T::shard).collect();
        let Kinship { roots, .. } = self.kinship.clone();
        let seated = Replicas::seated(self.ground.lanes, self.ground.compare_every_ms, shards, roots, replicas);
        self.nodes[node].replicas = seated;
        self.nodes[node].replicas.hosts.iter_mut().for_each(|host| host.set_cradle(cradle.clone()));
        for (parent, newborn) in newborns {
            let lane = self.nodes[node].replicas.lane_of(parent);
            self.nodes[node].replicas.hosts[lane].settle(newborn);
        }
        self.nodes[node].looked_at.fill(0);
        self.watch.forget_node(node);
        T::started(self, node);
        self.greet(node);
        let first = self.chance.below(self.nodes[node].tick_us);
        self.later(first, Event::Own { node, life, input: Input::Tick });
        if !is_alone {
            self.later(0, Event::Own { node, life, input: Input::PulseDue });
        }
    }

    /// What the disk has of a group, as every start of the server finds it.
    fn bring(&mut self, node: usize, group: usize) -> Result<Brought<T>, String> {
        let is_later = group >= self.ground.founded;
        let disk = &mut self.nodes[node].disk;
        let held = if is_later { disk.holder(group)? } else { None };
        // What the map does not have may have been parted off since.
        let wanted = match self.wanted(node, group) {
            None if is_later && !self.is_mapped(node, group) => held,
            wanted => wanted,
        };
        let Some(replica) = wanted else {
            self.nodes[node].disk.drop_older(group, ReplicaId(0))?;
            return Ok(Brought::Nothing);
        };
        if is_later && held != Some(replica) {
            self.nodes[node].disk.drop_older(group, replica)?;
            return Ok(Brought::Nothing);
        }
        let founders = self.founders(group, replica);
        let (chunks, restored) = self.nodes[node].disk.restore(group, replica, founders)?;
        self.watch_restored(node, group, &restored.entries);
        if is_later && chunks.is_empty() && !restored.entries.is_empty() {
            self.check_base(node, group)?;
            let Restored { hard_state, entries, .. } = restored;
            return Ok(Brought::Infant(replica, Infancy { hard_state, entries }));
        }
        self.counters.restarts_from_snapshot += u64::from(restored.snapshot.index > 0);
        let seat = Seat { node, group, replica, life: self.nodes[node].life };
        let (replica, born) = T::restore(self, seat, &chunks, restored)?;
        Ok(Brought::Whole(Box::new(replica), born))
    }

    fn cannot_start(&mut self, node: usize, reason: &str) {
        let detail = format!("node {} cannot start: {reason}", node + 1);
        self.demand(Err(Violation::new(acknowledged_is_durable::NAME, detail)));
    }

    /// What a healthy disk was asked to do must be possible.
    fn demand_of_disk<V>(&mut self, node: usize, done: Result<V, String>) -> Option<V> {
        let told =
            |reason: String| Violation::new(acknowledged_is_durable::NAME, format!("node {}: {reason}", node + 1));
        match done {
            Ok(value) => Some(value),
            Err(reason) => {
                self.demand(Err(told(reason)));
                None
            }
        }
    }

    /// Something reaches a node. A node that is down misses it; a paused one finds it later.
    pub fn reach(&mut self, node: usize, input: InputOf<T>) {
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
        let backlog = in_any_order::<T>(backlog, &mut self.chance);
        self.note(&[2, node as u64, backlog.len() as u64], || format!("node {} goes on", node + 1));
        for input in backlog {
            if self.lives(node, life) {
                self.take_in(node, input);
            }
        }
    }

    pub fn take_in(&mut self, node: usize, input: InputOf<T>) {
        match input {
            Input::Tick => {
                self.nodes[node].ticks += 1;
                for lane in 0..self.ground.lanes {
                    self.turn(node, lane, Host::tick);
                }
                self.work_for_map(node);
                T::ticked(self, node);
                self.dial_missing(node);
                self.look_at_log(node);
                self.watch_lead(node);
            }
            Input::Message { group, sender, message } => {
                self.nodes[node].speakers.hear(T::shard(group), message.from(), sender);
                self.note(&[3, node as u64, group as u64, message.term(), message.from().0], || {
                    format!("node {} group {group} gets {}", node + 1, message.summary())
                });
                let lane = self.nodes[node].replicas.lane_of(group);
                self.turn(node, lane, |host| host.step(T::shard(group), message));
            }
            Input::Synced { lane, receipt } => self.turn(node, lane, |host| host.finish_batch(receipt)),
            Input::SnapshotSaved { group, seat, index } => {
                let lane = self.nodes[node].replicas.lane_of(group);
                self.turn(node, lane, |host| host.snapshot_saved(seat, index));
            }
            Input::SnapshotNow { lane, group } => self.snapshot_now(node, lane, group),
            Input::Cut { lane } => {
                self.nodes[node].cut_asked[lane] = false;
                self.turn(node, lane, Host::cut_some);
            }
            Input::HandOver => self.hand_over(node),
            Input::Suspect { of } => self.suspect(node, of),
            Input::Trust { of } => self.trust(node, of),
            Input::Look => self.look_after_heirs(node),
            Input::PulseDue => self.pulse(node),
            Input::Pulse { from, pulse } => self.hear_pulse(node, from, &pulse),
            Input::Map { change } => self.hear_map(node, &change),
            Input::Link { link } => self.read_link(node, link),
            Input::LinkGone { link } => self.link_gone(node, link),
            Input::Own(input) => T::take_in(self, node, input),
        }
    }

    /// One turn in which a replica does something.
    pub fn drive(&mut self, node: usize, group: usize, work: impl FnOnce(&mut T::Replica, &mut ActionsOf<T>)) {
        if self.nodes[node].replicas.get(group).is_none() {
            return;
        }
        let Some((lane, seat)) = self.nodes[node].place_of(group) else { return };
        self.turn(node, lane, |host| {
            host.act(seat, work);
        });
    }

    /// One turn of a lane: tell it the time, do the work, perform what it asks for, and take a batch to the disk if none is on
    /// its way there. The same as a lane of the server does.
    pub fn turn(&mut self, node: usize, lane: usize, work: impl FnOnce(&mut Host<T::Replica>)) {
        if self.violation.is_some() {
            return;
        }
        let Node { replicas, clock, .. } = &mut self.nodes[node];
        let Some(host) = replicas.hosts.get_mut(lane) else { return };
        host.set_time(clock.read(self.now));
        host.set_blind(clock.is_blind());
        work(host);
        host.run_due();
        let mut acted = self.perform(node, lane);
        loop {
            if let Some(batch) = self.host(node, lane).begin_batch() {
                self.begin_write(node, lane, batch);
            } else if !T::settle_lane(self, node, lane) {
                break;
            }
            acted.extend(self.perform(node, lane));
        }
        if self.host(node, lane).is_cutting() && !self.nodes[node].cut_asked[lane] {
            self.nodes[node].cut_asked[lane] = true;
            let (life, delay) = (self.nodes[node].life, self.chance.between((200, 5 * MS)));
            self.later(delay, Event::Own { node, life, input: Input::Cut { lane } });
        }
        for group in acted {
            self.observe(node, group);
        }
        self.flush_links(node);
    }

    fn host(&mut self, node: usize, lane: usize) -> &mut Host<T::Replica> {
        &mut self.nodes[node].replicas.hosts[lane]
    }

    /// Does what the replicas of a lane ask for. Says which of them something has happened to.
    fn perform(&mut self, node: usize, lane: usize) -> BTreeSet<usize> {
        let mut acted = BTreeSet::new();
        self.host(node, lane).end_turn();
        for parted in self.host(node, lane).take_parted() {
            self.note_parted(node, &parted);
        }
        self.watch_queue(node, lane);
        while let Some((seat, actions)) = self.host(node, lane).next_acted() {
            let mut actions = std::mem::take(actions);
            let group = self.nodes[node].replicas.group_at(lane, seat).expect("whoever has left does not act");
            T::perform(self, node, group, &mut actions);
            acted.insert(group);
        }
        for (shard, message) in std::mem::take(&mut self.host(node, lane).messages) {
            let group = self.group_of(shard).expect("one of these");
            self.send(node, group, message);
        }
        for Part { seat, part, replica, .. } in std::mem::take(&mut self.host(node, lane).parts) {
            // Of one that has left since, nobody wants the rest.
            if let Some(group) = self.nodes[node].replicas.group_at(lane, seat) {
                self.store_part(node, group, (seat, replica), part);
            }
        }
        for seat in std::mem::take(&mut self.host(node, lane).stopped) {
            let seat = self.host(node, lane).seat(seat);
            let reason = seat.and_then(|seat| seat.replica.as_ref().err()).cloned().unwrap_or_default();
            self.demand(Err(Violation::new(replicas_agree::NAME, format!("node {}: {reason}", node + 1))));
        }
        acted
    }

    fn send(&mut self, node: usize, group: usize, mut message: shardine_shard::Message) {
        let Some(to) = self.machine_of(node, group, message.to()) else { return };
        if let Some(meta) = message.snapshot() {
            // It comes from the disk, and goes in the message: how it travels is not this world's business.
            let content = self.nodes[node].disk.snapshot_content(group, message.from(), &meta);
            let Some(content) = self.demand_of_disk(node, content).flatten() else { return };
            message.set_snapshot_data(content);
        }
        if self.ground.has_links && !message.is_snapshot() {
            return self.push_raft(node, self.nodes[to].id, T::shard(group), &message);
        }
        let sender = self.nodes[node].id;
        let fate = self.net.send(node, to, self.now);
        match fate.arrivals {
            [Some(at), None] => {
                self.schedule.at(at, Event::Arrive { node: to, input: Input::Message { group, sender, message } });
            }
            [Some(first), Some(second)] => {
                self.counters.messages_copied += 1;
                for at in [first, second] {
                    let message = message.clone();
                    self.schedule.at(at, Event::Arrive { node: to, input: Input::Message { group, sender, message } });
                }
            }
            [None, _] => self.counters.messages_lost += 1,
        }
    }

    fn begin_write(&mut self, node: usize, lane: usize, batch: Batch) {
        let looked_at = std::mem::take(&mut self.nodes[node].looked_at[lane]);
        self.watch_ops(node, &batch.ops[looked_at..]);
        let installs = batch.ops.iter().any(|op| matches!(op, LogOp::Install(_)));
        self.counters.installs_behind_writes += installs_behind_writes(&batch.ops);
        let begun = self.nodes[node].disk.begin(lane, batch);
        self.demand_of_disk(node, begun);
        let mut delay = self.chance.between(self.ground.disk.sync);
        if self.now < self.nodes[node].slow_until {
            delay += self.chance.between(self.ground.disk.stall);
        }
        let mut down = self.nodes[node].crash_at_write.take();
        if installs {
            delay += self.chance.between(self.ground.disk.snapshot);
            down = down.or(self.crash_at_install.take());
        }
        let life = self.nodes[node].life;
        if let Some(down) = down {
            let when = self.chance.below(delay);
            self.later(when, Event::Crash { node, life, down });
        }
        self.later(delay, Event::DiskSynced { node, life, lane });
    }

    /// The disk is done whether or not the process is there to hear it.
    pub fn disk_synced(&mut self, node: usize, life: u64, lane: usize) {
        if !self.lives(node, life) {
            return;
        }
        let finished = self.nodes[node].disk.finish(lane);
        let Some((receipt, ballots)) = self.demand_of_disk(node, finished) else { return };
        self.watch_ballots(&ballots);
        self.note(&[4, node as u64, lane as u64], || format!("node {} lane {lane} has synced", node + 1));
        self.look_at_log(node);
        self.reach(node, Input::Synced { lane, receipt });
    }

    /// Whoever writes for the first lane sees how large the log of all has become.
    fn look_at_log(&mut self, node: usize) {
        let disk = &self.nodes[node].disk;
        if disk.log_bytes() > self.ground.log_bytes_soft
            && let Some(group) = disk.oldest_group()
        {
            self.reach(node, Input::SnapshotNow { lane: 0, group });
        }
    }

    /// A lane asks its own seats, and passes on what is not its own.
    fn snapshot_now(&mut self, node: usize, lane: usize, group: usize) {
        let mut is_own = false;
        self.turn(node, lane, |host| is_own = host.snapshot_now(T::shard(group)));
        if !is_own && self.ground.planted != Some(Planted::QuietLane) {
            let owner = self.nodes[node].replicas.lane_of(group);
            self.turn(node, owner, |host| is_own = host.snapshot_now(T::shard(group)));
        }
        self.counters.snapshots_asked += u64::from(is_own);
    }

    fn store_part(&mut self, node: usize, group: usize, whose: (SeatId, ReplicaId), part: SnapshotPart) {
        let Node { disk, cuts, .. } = &mut self.nodes[node];
        match part {
            // A new one may begin while an old one is unfinished: an installed snapshot ends a cut.
            SnapshotPart::Begin(meta) => {
                if let Some(unfinished) = cuts[group].take() {
                    disk.drop_cut(unfinished);
                }
                let begun = disk.begin_cut(group, whose, meta);
                self.nodes[node].cuts[group] = self.demand_of_disk(node, begun);
            }
            SnapshotPart::Abandon => {
                if let Some(unfinished) = cuts[group].take() {
                    disk.drop_cut(unfinished);
                }
            }
            SnapshotPart::Chunk(chunk) => {
                let written = disk.push_chunk(cuts[group].expect("chunks come after a beginning"), &chunk);
                self.demand_of_disk(node, written);
            }
            SnapshotPart::End => {
                let cut = cuts[group].take().expect("an end comes after a beginning");
                let index = disk.end_chunks(cut);
                if self.ground.planted == Some(Planted::CutsLogEarly) {
                    let truncated = self.nodes[node].disk.truncate_early(group, index);
                    self.demand_of_disk(node, truncated);
                }
                let (life, delay) = (self.nodes[node].life, self.chance.between(self.ground.disk.snapshot));
                if let Some(down) = self.crash_at_cut.take() {
                    let when = self.chance.below(delay);
                    self.later(when, Event::Crash { node, life, down });
                }
                self.later(delay, Event::SnapshotWritten { node, life, cut });
            }
        }
    }

    pub fn snapshot_written(&mut self, node: usize, life: u64, cut: u64) {
        if !self.lives(node, life) {
            return;
        }
        let (group, seat) = self.nodes[node].disk.whose_cut(cut);
        let finished = self.nodes[node].disk.finish_cut(cut);
        // That of a replica which has been removed is not taken, and nobody waits for it.
        if finished.is_err() && self.nodes[node].replicas.seat_of(group) != Some(seat) {
            return;
        }
        let Some(index) = self.demand_of_disk(node, finished) else { return };
        self.counters.snapshots_cut += 1;
        self.note(&[5, node as u64, group as u64, index], || {
            format!("node {} group {group} has its snapshot at {index} on disk", node + 1)
        });
        self.reach(node, Input::SnapshotSaved { group, seat, index });
    }
}

/// Installs that come behind entries of the same group in what goes to the disk at once: there the order of the two matters.
fn installs_behind_writes(ops: &[LogOp]) -> u64 {
    let writes =
        |op: &LogOp, shard| matches!(op, LogOp::Write(write) if write.shard == shard && !write.entries.is_empty());
    let is_behind = |(place, op): &(usize, &LogOp)| matches!(op, LogOp::Install(install) if ops[..*place].iter().any(|earlier| writes(earlier, install.write.shard)));
    ops.iter().enumerate().filter(is_behind).count() as u64
}

/// The order in which a process finds what waited: any order at all, or, as with sockets, in order from each source, and
/// some sources long before others.
fn in_any_order<T: Tenant>(mut backlog: Vec<InputOf<T>>, chance: &mut Chance) -> Vec<InputOf<T>> {
    if chance.percent(40) {
        chance.shuffle(&mut backlog);
        return backlog;
    }
    let mut sources: BTreeMap<u64, VecDeque<InputOf<T>>> = BTreeMap::new();
    for input in backlog {
        let source = match &input {
            Input::Message { message, .. } => message.from().0,
            Input::Own(own) => T::source_of(own),
            _ => 0,
        };
        sources.entry(source).or_default().push_back(input);
    }
    let mut waiting: Vec<VecDeque<InputOf<T>>> = sources.into_values().collect();
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

//! The turn: act on seats, end the turn of those that were touched, take a batch to the disk, hear that it is there.

use std::collections::{BTreeSet, VecDeque};

use shardine_model::log::{LogOp, LogWrite};
use shardine_model::{Position, ReplicaId, ShardId};
use shardine_shard::{Message, REST_PACE, Role, SnapshotPart, Time};

use crate::births::Births;
use crate::handover::HandOver;
use crate::heirs::Suspicions;
use crate::load::Meter;
use crate::log_queue::{Batch, LogQueue, Receipt};
use crate::replica::{GroupReplica, Work};
use crate::seat::{Seat, SeatId, Seats};

/// Snapshot bytes cut in one turn: about a millisecond's work.
const CUT_BYTES: usize = 256 << 10;

/// A piece of a snapshot, and whose.
#[derive(Debug)]
pub struct Part {
    pub seat: SeatId,
    pub shard: ShardId,
    pub replica: ReplicaId,
    pub part: SnapshotPart,
}

/// Replicas under one owner. Invariant: a seat that wants anything of the turn (has actions, something gathered for the log, a
/// running cut, a timer) stands in the list for it.
pub struct Host<R: GroupReplica> {
    seats: Seats<R>,
    time: Time,
    /// This node does not know what time it is ([`Host::set_blind`]).
    is_blind: bool,
    ticks: u64,
    log: LogQueue,
    /// Seats that something has happened to since their turn was last ended.
    touched: Vec<SeatId>,
    /// Seats whose owner has not taken their actions yet.
    acted: Vec<SeatId>,
    /// Seats that may have gathered something for the log, in the order in which they were touched.
    proposing: BTreeSet<SeatId>,
    cutting: VecDeque<SeatId>,
    due: BTreeSet<(u64, SeatId)>,
    /// To peers, at once. They may be lost.
    pub messages: Vec<(ShardId, Message)>,
    /// Pieces of snapshots on their way to disk.
    pub parts: Vec<Part>,
    /// Seats whose replicas have stopped, for the owner to tell.
    pub stopped: Vec<SeatId>,
    cut_bytes: usize,
    /// How often leaders look for replicas that have parted; 0 means never.
    compare_every_ms: u64,
    pub(crate) suspicions: Suspicions,
    pub(crate) births: Births,
    pub(crate) handover: Option<HandOver>,
    /// Since when the batch is on its way to the disk that is.
    writing_since_ms: Option<u64>,
}

impl<R: GroupReplica> Default for Host<R> {
    fn default() -> Self {
        Self {
            seats: Seats::default(),
            time: Time::default(),
            is_blind: false,
            ticks: 0,
            log: LogQueue::default(),
            touched: Vec::new(),
            acted: Vec::new(),
            proposing: BTreeSet::new(),
            cutting: VecDeque::new(),
            due: BTreeSet::new(),
            messages: Vec::new(),
            parts: Vec::new(),
            stopped: Vec::new(),
            cut_bytes: CUT_BYTES,
            compare_every_ms: 0,
            suspicions: Suspicions::default(),
            births: Births::default(),
            handover: None,
            writing_since_ms: None,
        }
    }
}

impl<R: GroupReplica> Host<R> {
    /// With another size of the pieces that are cut in one turn; the simulator cuts little, so that changes come between.
    #[must_use]
    pub fn with_cut_bytes(self, cut_bytes: usize) -> Self {
        Self { cut_bytes, ..self }
    }

    /// With replicas that are compared with the others so often, where they lead.
    #[must_use]
    pub fn comparing_every(self, compare_every_ms: u64) -> Self {
        Self { compare_every_ms, ..self }
    }

    /// Gives a replica its seat, or notes why there is none.
    pub fn add(&mut self, shard: ShardId, replica_id: ReplicaId, mut replica: Result<R, String>) -> SeatId {
        if let Ok(replica) = &mut replica {
            replica.compare_every(self.compare_every_ms);
        }
        let id = self.seats.add(shard, replica_id, replica);
        self.touch(id);
        id
    }

    /// Takes a replica away, and what the disk has of it. Its last actions come with it: whoever waits for an answer is told.
    pub fn remove(&mut self, id: SeatId) -> Option<Seat<R>> {
        self.act(id, R::retire);
        let seat = self.seats.remove(id)?;
        if let Some(due_ms) = seat.due_ms {
            self.due.remove(&(due_ms, id));
        }
        self.suspicions.forget(id);
        // Pieces that were cut may be on their way already; nothing comes behind them.
        let (shard, replica) = (seat.shard, seat.replica_id);
        self.parts.push(Part { seat: id, shard, replica, part: SnapshotPart::Abandon });
        self.log.push_quietly(LogOp::Remove { shard: seat.shard, replica: seat.replica_id });
        self.log.hurry();
        Some(seat)
    }

    #[inline]
    #[must_use]
    pub fn seat(&self, id: SeatId) -> Option<&Seat<R>> {
        self.seats.get(id)
    }

    /// A request is for a replica, for this place.
    #[inline]
    pub fn count(&mut self, id: SeatId, position: Position) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.meter.count(position);
        }
    }

    /// What a replica was asked for.
    #[must_use]
    pub fn meter(&self, id: SeatId) -> Option<&Meter> {
        self.seats.get(id).map(|seat| &seat.meter)
    }

    pub(crate) fn seat_mut(&mut self, id: SeatId) -> Option<&mut Seat<R>> {
        self.seats.get_mut(id)
    }

    /// In the order of their shards.
    pub(crate) fn seat_ids(&self) -> impl Iterator<Item = SeatId> + '_ {
        self.seats.ids()
    }

    #[must_use]
    pub fn seat_of(&self, shard: ShardId) -> Option<SeatId> {
        self.seats.of_shard(shard)
    }

    /// In the order of their shards.
    pub fn seats(&self) -> impl Iterator<Item = &Seat<R>> {
        self.seats.ids().filter_map(|id| self.seats.get(id))
    }

    pub fn replicas(&self) -> impl Iterator<Item = &R> {
        self.seats().filter_map(|seat| seat.replica.as_ref().ok())
    }

    #[inline]
    #[must_use]
    pub fn replica(&self, id: SeatId) -> Option<&R> {
        self.seats.get(id)?.replica.as_ref().ok()
    }

    #[inline]
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    pub fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    /// Says whether this node has started again and nobody has told it yet what time it is
    /// ([`BelievedClock::is_blind`](crate::BelievedClock::is_blind)). Until then it stands for no election in which others have a vote: a leader
    /// that stamps with the time at which its log ended serves what is over, and gives times to live that end when it hears the time.
    pub fn set_blind(&mut self, is_blind: bool) {
        self.is_blind = is_blind;
    }

    /// Whether a replica may ask for votes.
    pub(crate) fn may_stand(&self, replica: &R) -> bool {
        !self.is_blind || replica.voters().len() < 2
    }

    /// A replica that knows what time it is, to be looked at.
    #[inline]
    pub fn look(&mut self, id: SeatId) -> Option<&R> {
        let time = self.time;
        let replica = self.seats.get_mut(id)?.replica.as_mut().ok()?;
        replica.set_time(time);
        Some(replica)
    }

    /// Lets a replica act. `None` if it has stopped or left.
    #[inline]
    pub fn act<T>(&mut self, id: SeatId, act: impl FnOnce(&mut R, &mut R::Actions) -> T) -> Option<T> {
        let time = self.time;
        let seat = self.seats.get_mut(id)?;
        let replica = seat.replica.as_mut().ok()?;
        replica.set_time(time);
        let given = act(replica, &mut seat.actions);
        let has_newborn = R::has_newborn(&seat.actions);
        if !seat.is_touched {
            seat.is_touched = true;
            self.touched.push(id);
        }
        // At once: the next message may be for what was born.
        if has_newborn {
            self.settle_newborn(id);
        }
        Some(given)
    }

    fn touch(&mut self, id: SeatId) {
        self.act(id, |_, _| {});
    }

    fn each(&mut self, mut act: impl FnMut(&mut R, &mut R::Actions)) {
        let ids: Vec<SeatId> = self.seats.ids().collect();
        for id in ids {
            self.act(id, &mut act);
        }
    }

    /// Stands for election in every group of one.
    pub fn campaign(&mut self) {
        self.each(R::campaign);
    }

    /// One step of all timers. Of those that rest, every tick is for another part.
    pub fn tick(&mut self) {
        let time = self.time;
        self.ticks += 1;
        let ids: Vec<SeatId> = self.seats.ids().filter(|id| self.is_due_for_tick(*id)).collect();
        for id in ids {
            // Who waits for a leader counts the ticks, and then stands for election.
            let counts = |replica: &R| self.may_stand(replica) || replica.role() == Role::Leader;
            if self.replica(id).is_some_and(counts) {
                self.act(id, |replica, actions| replica.tick(time, actions));
            }
        }
        self.advance_hand_over();
        self.look_after_children();
        self.log.hurry();
    }

    /// Has the first write of what was born go before all others of it.
    pub(crate) fn write_first(&mut self, id: SeatId, write: LogWrite) {
        self.log.push_first(id, write);
    }

    fn is_due_for_tick(&self, id: SeatId) -> bool {
        let rests = |seat: &Seat<R>| seat.replica.as_ref().is_ok_and(R::rests);
        let is_turn = |seat: &Seat<R>| (self.ticks + u64::from(seat.shard.0)).is_multiple_of(REST_PACE);
        self.seats.get(id).is_some_and(|seat| !rests(seat) || is_turn(seat))
    }

    /// Lets what is due happen between ticks.
    pub fn run_due(&mut self) {
        let now_ms = self.time.monotonic_ms;
        while let Some(&(due_ms, id)) = self.due.first()
            && due_ms <= now_ms
        {
            self.due.pop_first();
            if let Some(seat) = self.seats.get_mut(id) {
                seat.due_ms = None;
            }
            self.act(id, R::run_timers);
        }
        self.run_claims();
    }

    /// When [`Host::run_due`] has something to do.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        let timer = self.due.first().map(|(due_ms, _)| *due_ms);
        timer.into_iter().chain(self.suspicions.next_due_ms()).min()
    }

    /// Takes a peer's message. One for another replica of the shard than the one that sits here is dropped: whoever was
    /// removed has forgotten its vote, and must not be taken for the one who comes after it.
    pub fn step(&mut self, shard: ShardId, message: Message) {
        let Some(id) = self.seats.of_shard(shard) else { return };
        let replaces_what_is_needed = message.is_snapshot() && self.is_pinned(shard);
        if self.is_blind && message.is_call_to_lead() || replaces_what_is_needed {
            return;
        }
        if self.seats.get(id).is_some_and(|seat| seat.replica_id == message.to()) {
            self.act(id, |replica, actions| replica.step(message, actions));
        }
    }

    /// Takes a leader's snapshot, with what its content was made into.
    pub fn step_snapshot(&mut self, shard: ShardId, message: Message, machine: R::Machine) {
        let Some(id) = self.seats.of_shard(shard) else { return };
        if self.seats.get(id).is_some_and(|seat| seat.replica_id == message.to()) {
            self.act(id, |replica, actions| replica.step_snapshot(message, machine, actions));
        }
    }

    /// Ends the turn of every seat that something has happened to: what they want of the disk is queued, messages and pieces
    /// go to the owner. What is left of their actions is the owner's to take ([`Host::next_acted`]).
    pub fn end_turn(&mut self) {
        for place in 0.. {
            let Some(&id) = self.touched.get(place) else { break };
            self.end_turn_of(id);
        }
        self.touched.clear();
    }

    fn end_turn_of(&mut self, id: SeatId) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.is_touched = false;
        if let Ok(replica) = &mut seat.replica {
            replica.end_turn(&mut seat.actions);
            if replica.wants_proposal() {
                self.proposing.insert(id);
            }
            if replica.is_cutting() && !seat.is_listed_cutting {
                seat.is_listed_cutting = true;
                self.cutting.push_back(id);
            }
            let due_ms = replica.next_due_ms();
            if due_ms != seat.due_ms {
                if let Some(before) = std::mem::replace(&mut seat.due_ms, due_ms) {
                    self.due.remove(&(before, id));
                }
                self.due.extend(due_ms.map(|due_ms| (due_ms, id)));
            }
        }
        let (shard, replica) = (seat.shard, seat.replica_id);
        let Work { persists, messages, snapshot, stop } = R::work(&mut seat.actions);
        for persist in persists.drain(..) {
            seat.meter.written += persist.write.entries.iter().map(|entry| entry.data.len() as u64).sum::<u64>();
            self.log.push(id, persist);
        }
        self.messages.extend(messages.drain(..).map(|message| (shard, message)));
        self.parts.extend(snapshot.drain(..).map(|part| Part { seat: id, shard, replica, part }));
        if let Some(reason) = stop.take() {
            seat.replica = Err(reason);
            self.stopped.push(id);
        }
        self.acted.push(id);
    }

    /// Whether something has happened since [`Host::end_turn`].
    #[must_use]
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// A seat whose turn has ended, and its actions for the owner to empty; to be asked until there is none.
    pub fn next_acted(&mut self) -> Option<(SeatId, &mut R::Actions)> {
        while let Some(id) = self.acted.pop() {
            if self.seats.get(id).is_some() {
                return Some((id, &mut self.seats.get_mut(id).expect("just found").actions));
            }
        }
        None
    }

    /// What waits for the next batch, in order, for whoever looks on.
    #[must_use]
    pub fn queued(&self) -> &[LogOp] {
        self.log.ops()
    }

    /// What is to go to the disk next, if nothing is on its way there: whoever has gathered something proposes it now, and
    /// all of it shares one batch.
    pub fn begin_batch(&mut self) -> Option<Batch> {
        if !self.log.is_free() {
            return None;
        }
        while let Some(id) = self.proposing.pop_first() {
            let proposed = self.act(id, |replica, actions| {
                if replica.wants_proposal() {
                    replica.propose_gathered(actions);
                }
            });
            if proposed.is_some() {
                self.end_turn();
            }
        }
        let batch = self.log.begin();
        if batch.is_some() {
            self.writing_since_ms = Some(self.time.monotonic_ms);
        }
        batch
    }

    pub(crate) fn writing_since_ms(&self) -> Option<u64> {
        self.writing_since_ms
    }

    /// Whether something is on its way to the disk.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.log.is_free()
    }

    /// The batch of this receipt is on disk, all of it.
    pub fn finish_batch(&mut self, receipt: Receipt) {
        self.log.finish();
        self.writing_since_ms = None;
        for (id, number) in receipt.writes {
            self.act(id, |replica, actions| replica.persisted(number, actions));
        }
        // A snapshot that the log knows nothing of would be taken for what a lost log has left.
        for id in receipt.born {
            self.births.unwritten.remove(&id);
            self.act(id, |replica, _| replica.snapshot_now());
        }
    }

    /// Cuts a snapshot of a shard out of turn. Says whether the shard is here.
    pub fn snapshot_now(&mut self, shard: ShardId) -> bool {
        let seat = self.seats.of_shard(shard);
        seat.and_then(|id| self.act(id, |replica, _| replica.snapshot_now())).is_some()
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        !self.cutting.is_empty()
    }

    /// Cuts a little of the oldest running snapshot. They are finished one after the other: while one runs, every change of
    /// what it has not reached yet costs a copy.
    pub fn cut_some(&mut self) {
        let Some(&id) = self.cutting.front() else { return };
        let bytes = self.cut_bytes;
        let goes_on = self.act(id, |replica, actions| {
            if replica.is_cutting() {
                replica.snapshot_step(bytes, actions);
            }
            replica.is_cutting()
        });
        if goes_on != Some(true) {
            self.cutting.pop_front();
            if let Some(seat) = self.seats.get_mut(id) {
                seat.is_listed_cutting = false;
            }
        }
    }

    /// A snapshot could not be written.
    pub fn snapshot_failed(&mut self, id: SeatId) {
        self.act(id, |replica, _| replica.snapshot_failed());
    }

    /// A snapshot is on disk: only now may the log before it go.
    pub fn snapshot_saved(&mut self, id: SeatId, index: u64) {
        let Some(shard) = self.seats.get(id).map(|seat| seat.shard) else { return };
        self.act(id, |replica, _| replica.snapshot_saved(index));
        self.release(shard);
        self.log.push_quietly(LogOp::Truncate { shard, below: index + 1 });
    }
}

//! Changes on their way into the log: which are refused on the spot, which wait for their rows, and how the others are
//! gathered and proposed.

use shardine_model::command::{BatchItem, Body};
use shardine_model::entry::stamp_commands;
use shardine_model::{Ack, Action, Answer, Command, Entry, ErrorCode, Position, Request, RequestEpoch, RowKey, limits};
use shardine_records::EpochFit;

use crate::actions::{Actions, Caller, Returned};
use crate::gather::{Gathered, Proposal, Then};
use crate::hold::Wish;
use crate::replica::{Replica, fail};

impl Replica {
    /// Proposes a change. The answer comes under `caller`, in order of application; where the table is written through,
    /// when SQL has it.
    #[inline]
    pub fn submit(&mut self, caller: Caller, request: &Request<'_>, epoch: RequestEpoch, actions: &mut Actions) {
        self.submit_with(caller, request, epoch, Ack::default(), actions);
    }

    /// The same for whoever has found all rows of the request at one position.
    #[inline]
    pub fn submit_at(
        &mut self,
        position: Position,
        caller: Caller,
        request: &Request<'_>,
        epoch: RequestEpoch,
        actions: &mut Actions,
    ) {
        self.take(caller, request, Some(position), epoch, self.wish(Ack::default()), actions);
    }

    /// The same for a change that says when it wants to be answered.
    #[inline]
    pub fn submit_with(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        epoch: RequestEpoch,
        ack: Ack,
        actions: &mut Actions,
    ) {
        self.take(caller, request, None, epoch, self.wish(ack), actions);
    }

    /// Takes a request in; `position` is where its rows are, if somebody knows it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        position: Option<Position>,
        epoch: RequestEpoch,
        wish: Wish,
        actions: &mut Actions,
    ) {
        if let Some(code) = self.refusal(request, position) {
            if code == ErrorCode::StaleRoute {
                return send_on(caller, request, epoch, actions);
            }
            actions.answers.push((caller, Answer::Failed(code)));
            return;
        }
        // What is decided here saves a way through the log; what counts is decided when the entry is applied.
        match self.records.epoch_fits(epoch) {
            EpochFit::Stale if epoch.owner() != self.records.epoch().owner() => {
                return send_on(caller, request, epoch, actions);
            }
            EpochFit::Stale => return actions.answers.push((caller, Answer::Failed(ErrorCode::StaleRoute))),
            EpochFit::Ahead => return self.keep_early(caller, request, epoch, wish, actions),
            EpochFit::Fits if !self.early.is_empty() => return self.keep_early(caller, request, epoch, wish, actions),
            EpochFit::Fits => {}
        }
        let hold = self.hold_for(request, wish);
        if hold.is_some() && self.writeback.waits.len() >= limits::SQL_WAITS_MAX {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Busy)));
        }
        if self.park_if_not_resident(caller, request, position, epoch, wish, actions) {
            return;
        }
        if self.evictor.is_watching() {
            request.rows().for_each(|row| self.evictor.touch(row));
        }
        self.gathering.add(epoch, caller, request, hold);
    }

    #[inline]
    fn refusal(&self, request: &Request<'_>, position: Option<Position>) -> Option<ErrorCode> {
        if !self.is_serving() {
            return Some(self.absent_leader());
        }
        if self.records.is_suspended() {
            return Some(ErrorCode::Suspended);
        }
        if self.gathering.is_full() {
            return Some(ErrorCode::Busy);
        }
        if self.is_above_hard_limit() && self.would_dirty_more(request) {
            return Some(ErrorCode::DirtyLimit);
        }
        if self.is_pushed_back && may_grow(request) {
            return Some(ErrorCode::Busy);
        }
        let mut rows = request.rows();
        let at = |row: RowKey<'_>| position.unwrap_or_else(|| row.position());
        let strays = rows.any(|row| !self.records.bounds().contains(at(row), row));
        strays.then_some(ErrorCode::StaleRoute)
    }

    /// Proposes what has gathered. The host calls it when its log is free to take the next write. While the lead is being handed
    /// over it stays gathered: if that fails it goes into the log, else it was certainly not executed.
    pub fn propose_gathered(&mut self, actions: &mut Actions) {
        if self.must_wait() {
            return;
        }
        self.propose_news();
        while let Some(entry) = self.gathering.take() {
            let Gathered { epoch, mut bytes, callers, holds, touched } = entry;
            // Now, not when its first request came: it may have waited for the disk, or for a hand-over that failed.
            stamp_commands(&mut bytes, self.stamp());
            let proposal = Proposal { callers, holds, touched, epoch, then: Then::Answer };
            if let Err(refused) = self.member.propose(bytes, self.time.monotonic_ms, proposal) {
                fail(actions, refused.callers, ErrorCode::NotLeader);
            }
        }
        self.drain(actions);
    }

    /// Whether there is something for [`Replica::propose_gathered`] to do.
    #[must_use]
    pub fn wants_proposal(&self) -> bool {
        (!self.gathering.is_empty() || self.loads.has_news()) && !self.must_wait()
    }

    /// Whether what has gathered waits for how a hand-over of the lead ends.
    fn must_wait(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::ForgottenProposal) {
            return false;
        }
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::EpochOnArrivalOnly) {
            return self.member.is_handing_over();
        }
        self.member.is_handing_over() || self.is_splitting()
    }

    /// Proposes an entry of the replica's own making.
    pub(crate) fn propose(&mut self, entry: &Entry<'_>, callers: Vec<Caller>, then: Then) -> bool {
        self.propose_bytes(entry.to_bytes(), callers, then)
    }

    /// The same for an entry that borrowed from the records while it was made.
    pub(crate) fn propose_bytes(&mut self, bytes: Vec<u8>, callers: Vec<Caller>, then: Then) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::ForgottenProposal) && self.member.is_handing_over() {
            return false;
        }
        let (holds, touched) = Default::default();
        let proposal = Proposal { callers, holds, touched, epoch: self.records.epoch(), then };
        self.member.propose(bytes, self.time.monotonic_ms, proposal).is_ok()
    }

    /// Proposes an entry that somebody waits for (a definition, an emptied table, a suspension).
    pub fn propose_for(&mut self, caller: Caller, entry: &Entry<'_>, actions: &mut Actions) {
        // Behind a split it would be about one half, and whoever asks means the whole. Definitions come to each half by themselves.
        let is_definition = matches!(entry, Entry::Schema { .. });
        if self.is_splitting() && !is_definition {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::StaleRoute)));
        }
        // Whatever was read before a table came goes into the log before it does: behind it nobody would know what it means.
        if is_definition {
            self.propose_gathered(actions);
        }
        if !self.is_serving() || !self.propose(entry, vec![caller], Then::Answer) {
            actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        self.drain(actions);
    }
}

/// Whether a request may leave more bytes behind than it finds.
fn may_grow(request: &Request<'_>) -> bool {
    let grows = |command: &Command<'_>| match command.action {
        Action::Set(_) | Action::Replace(_) | Action::Update { .. } | Action::Cas { .. } => true,
        Action::Delete | Action::Touch => false,
    };
    match &request.body {
        Body::One(command) => grows(command),
        Body::Read(_) => false,
        Body::Batch(batch) => batch.commands.iter().any(|item| match item {
            BatchItem::Change(command) => grows(command),
            BatchItem::Read(_) => false,
        }),
    }
}

/// A request of rows that are another shard's, or were when it was routed: it is for whoever has them now.
#[cold]
fn send_on(caller: Caller, request: &Request<'_>, epoch: RequestEpoch, actions: &mut Actions) {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    let (catalogue, why) = (epoch.catalogue, ErrorCode::StaleRoute);
    actions.returned.push(Returned { caller, request: bytes, catalogue, why });
}

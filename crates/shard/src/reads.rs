//! Linearizable reads, the default: at once where this replica alone is the majority, else one read-index round for all that wait.
//! Whoever looks at many rows, as a scan does, takes the same round ([`Replica::read_barrier`]), and looks when it is through.

use std::collections::VecDeque;

use shardine_consensus::{ReadDone, Role};
use shardine_model::command::Body;
use shardine_model::{Answer, ErrorCode, Position, Request, RowKey, RowKeyBuf, RowView, TableId, Version};
use shardine_records::{Lookup, read_reply};

use crate::actions::{Actions, Caller};
use crate::replica::Replica;

/// What a read finds without waiting.
#[derive(Debug)]
pub enum ReadNow<'a> {
    Live(RowView<'a>),
    Absent {
        version: Version,
        sql_version: Version,
    },
    /// Ask with [`Replica::read`]; the answer comes later.
    Later,
}

/// Whether somebody may look at the records who must not see a past state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBarrier {
    /// At once.
    Passed,
    /// When the caller stands in [`Actions::passed`]; not at all if the caller is answered instead.
    Waiting,
    Refused(ErrorCode),
}

/// What somebody waits for who must not be told of a past state.
#[derive(Debug)]
enum Wanted {
    Row(RowKeyBuf),
    /// A flush promises what was current when it came, so it begins only when this replica is known to lead.
    Flush {
        row: Option<RowKeyBuf>,
        table: Option<TableId>,
    },
    /// A version that somebody was told by a leader.
    InSql(Token),
    /// A look at the records.
    Look,
}

/// A version of a row that SQL is to have, and how long that is waited for.
#[derive(Debug)]
pub(crate) struct Token {
    pub row: RowKeyBuf,
    pub version: Version,
    pub until_ms: u64,
}

type Waiting = (Caller, Wanted);

#[derive(Debug)]
pub(crate) struct Reads {
    /// Unique for ever: the incarnation in the upper half, a counter in the lower.
    next_context: u64,
    gathered: Vec<Waiting>,
    rounds: VecDeque<(u64, Vec<Waiting>)>,
    confirmed: Vec<(u64, Vec<Waiting>)>,
}

impl Reads {
    pub fn new(incarnation: u64) -> Self {
        let next_context = incarnation << 32;
        Self { next_context, gathered: Vec::new(), rounds: VecDeque::new(), confirmed: Vec::new() }
    }

    pub fn wants_round(&self) -> bool {
        !self.gathered.is_empty()
    }

    pub fn confirm(&mut self, done: ReadDone) {
        // Contexts are confirmed in order; an older one that was dropped on the way is covered by a newer one.
        while self.rounds.front().is_some_and(|(context, _)| *context <= done.context) {
            let (_, waiting) = self.rounds.pop_front().expect("just looked");
            self.confirmed.push((done.index, waiting));
        }
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        let rounds = self.rounds.drain(..).map(|(_, waiting)| waiting);
        let confirmed = self.confirmed.drain(..).map(|(_, waiting)| waiting);
        let all = rounds.chain(confirmed).flatten().chain(self.gathered.drain(..));
        all.map(|(caller, _)| caller).collect()
    }
}

impl Replica {
    /// Reads a row on the spot if nothing stands in the way. Ownership and leadership are checked here, at the answer.
    #[inline]
    pub fn read_now(&self, position: Position, row: RowKey<'_>) -> ReadNow<'_> {
        if !self.may_read_at_once() || !self.records.bounds().contains(position, row) || self.is_touched(row) {
            return ReadNow::Later;
        }
        match self.records.get(position, row) {
            Lookup::Live(view) if view.expires_at.is_some_and(|at| at <= self.stamp()) => ReadNow::Later,
            Lookup::Live(view) => {
                self.evictor.touch(row);
                ReadNow::Live(view)
            }
            Lookup::Absent { version, sql_version } => ReadNow::Absent { version, sql_version },
            Lookup::NotResident | Lookup::UnknownTable => ReadNow::Later,
        }
    }

    #[inline]
    pub(crate) fn may_read_at_once(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::LocalReads) {
            return self.is_serving();
        }
        self.is_serving() && self.is_alone() && !self.records.is_suspended()
    }

    /// Whether nobody else could have been elected without this replica's vote.
    #[inline]
    fn is_alone(&self) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::OutgoingNotCounted) {
            return self.member.group.membership().voters == [self.options.replica];
        }
        self.member.group.is_alone()
    }

    /// Whether a change of the row is on its way, or waits for a load: a read must not overtake it (records 52, 58).
    #[inline]
    pub(crate) fn is_touched(&self, row: RowKey<'_>) -> bool {
        self.gathering.touches(row)
            || self.member.proposals.iter().any(|proposal| proposal.touched.contains(row))
            || self.loads.holds(row)
            || self.early.touches(row)
    }

    /// Reads a row, waiting for whatever it takes. The answer is one reply with the whole row.
    pub fn read(&mut self, caller: Caller, row: RowKey<'_>, actions: &mut Actions) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(self.absent_leader())));
        }
        if self.records.is_suspended() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Suspended)));
        }
        if !self.records.bounds().contains(row.position(), row) {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::StaleRoute)));
        }
        let expired = match self.records.get(row.position(), row) {
            Lookup::UnknownTable => return actions.answers.push((caller, Answer::Failed(ErrorCode::UnknownTable))),
            Lookup::NotResident => return self.park_read(caller, row, actions),
            Lookup::Live(view) => view.expires_at.is_some_and(|at| at <= self.stamp()),
            Lookup::Absent { .. } => false,
        };
        self.evictor.touch(row);
        if expired || self.is_touched(row) {
            // Through the log, behind the change: an expiry is decided by an entry, never by looking at a clock.
            let request = Request { origin: None, body: Body::Read(row) };
            return self.submit(caller, &request, self.records.epoch(), actions);
        }
        if self.may_read_at_once() {
            let reply = read_reply(self.records.get(row.position(), row));
            return actions.answers.push((caller, Answer::One(reply)));
        }
        self.reads.gathered.push((caller, Wanted::Row(row.to_owned())));
    }

    /// Lets somebody look at all records, as they are when a majority has confirmed that this replica leads. Whether the shard is
    /// suspended is not looked at: that is for those who serve clients.
    pub fn read_barrier(&mut self, caller: Caller) -> ReadBarrier {
        if !self.is_serving() {
            return ReadBarrier::Refused(self.absent_leader());
        }
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::LocalScans) {
            return ReadBarrier::Passed;
        }
        if self.is_alone() {
            return ReadBarrier::Passed;
        }
        self.reads.gathered.push((caller, Wanted::Look));
        ReadBarrier::Waiting
    }

    /// Whether somebody waits for a round that has not begun.
    #[inline]
    #[must_use]
    pub fn wants_read_round(&self) -> bool {
        self.reads.wants_round()
    }

    /// Begins one round for all reads that have gathered. The host calls it at the end of every turn, whether or not its log is
    /// free: a read waits for the peers, not for the disk.
    pub fn begin_read_round(&mut self, actions: &mut Actions) {
        if self.reads.gathered.is_empty() || self.member.group.role() != Role::Leader {
            return;
        }
        let context = self.next_context();
        if self.member.group.read_index(context) {
            let waiting = std::mem::take(&mut self.reads.gathered);
            self.reads.rounds.push_back((context, waiting));
            self.drain(actions);
        }
    }

    fn next_context(&mut self) -> u64 {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::ReusedReadContext) {
            return self.reads.next_context;
        }
        self.reads.next_context += 1;
        self.reads.next_context
    }

    /// Answers reads whose index is applied. A row may have been kicked meanwhile: then it is loaded like any other.
    pub(crate) fn answer_confirmed_reads(&mut self, actions: &mut Actions) {
        if self.reads.confirmed.is_empty() {
            return;
        }
        let applied = self.applied();
        let (ready, later) =
            std::mem::take(&mut self.reads.confirmed).into_iter().partition(|(index, _)| *index <= applied);
        self.reads.confirmed = later;
        let ready: Vec<(u64, Vec<Waiting>)> = ready;
        for (caller, wanted) in ready.into_iter().flat_map(|(_, waiting)| waiting) {
            match wanted {
                Wanted::Flush { row, table } => self.begin_flush(caller, row, table, actions),
                Wanted::InSql(token) => self.begin_wait(caller, token, actions),
                Wanted::Row(_) if self.records.is_suspended() => {
                    actions.answers.push((caller, Answer::Failed(ErrorCode::Suspended)));
                }
                Wanted::Look => actions.passed.push(caller),
                Wanted::Row(row) => match self.records.get(row.as_ref().position(), row.as_ref()) {
                    Lookup::NotResident => self.park_read(caller, row.as_ref(), actions),
                    // Its time has ended while the round was waited for, or was over when the row was written.
                    Lookup::Live(view) if view.expires_at.is_some_and(|at| at <= self.stamp()) => {
                        let request = Request { origin: None, body: Body::Read(row.as_ref()) };
                        self.submit(caller, &request, self.records.epoch(), actions);
                    }
                    found => actions.answers.push((caller, Answer::One(read_reply(found)))),
                },
            }
        }
    }

    /// Answers once SQL holds what is current now (records 31). `row` of `None` means all dirty rows of `table`, or
    /// of all tables.
    pub fn flush_rows(
        &mut self,
        caller: Caller,
        row: Option<RowKey<'_>>,
        table: Option<TableId>,
        actions: &mut Actions,
    ) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        if row.is_some_and(|row| self.is_stray(caller, row, actions)) {
            return;
        }
        let row = row.map(RowKey::to_owned);
        if !self.is_alone() {
            return self.reads.gathered.push((caller, Wanted::Flush { row, table }));
        }
        self.begin_flush(caller, row, table, actions);
        self.drain(actions);
        self.write_back(actions);
    }

    /// Answers once SQL holds this version of the row, or a newer one, and at the latest in time (records 32).
    pub fn await_sql(
        &mut self,
        caller: Caller,
        row: RowKey<'_>,
        version: Version,
        within_ms: Option<u64>,
        actions: &mut Actions,
    ) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        if self.is_stray(caller, row, actions) {
            return;
        }
        let until_ms = within_ms.map_or(u64::MAX, |within| self.time.monotonic_ms.saturating_add(within));
        let token = Token { row: row.to_owned(), version, until_ms };
        // A leader that was replaced may not know of the version, and would take the row for one that SQL has.
        if !self.is_alone() {
            return self.reads.gathered.push((caller, Wanted::InSql(token)));
        }
        self.begin_wait(caller, token, actions);
    }
}

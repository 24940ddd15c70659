//! Planted bugs, for proving that the simulator's checkers can fail. Compiled only with the feature `mutants`.

use shardine_model::codec::Reader;
use shardine_model::command::Body;
use shardine_model::table::KV;
use shardine_model::{Action, Answer, Bound, Request};

use crate::command::content_of;
use crate::record::Versions;
use crate::segment::{Segment, walk_slot};
use crate::state::Records;

/// One bug each. Those of the replica are carried here too, so that there is one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Log writes count as done before they are on disk.
    AnswerBeforeSync,
    /// SQL is written without looking at versions. (Planted in the simulated SQL.)
    NoSqlFence,
    /// Dirty records may be kicked.
    KickDirty,
    /// A repeated request is executed again.
    NoDedup,
    /// A snapshot is laid over the old state.
    SnapshotDoesNotClear,
    /// A leader reads without asking a majority.
    LocalReads,
    /// Every read-index round has the same context.
    ReusedReadContext,
    /// Of two increments of one record in one entry, the first is answered by the second's outcome only.
    MergedIncrementsForgetOne,
    /// A loaded row replaces one that is in memory. Without tickets too, for with them no such row is ever proposed.
    LoadOverwrites,
    /// The log is cut before its snapshot is on disk. (Planted in the simulated host.)
    TruncateBeforeSnapshot,
    /// Any answer of SQL to a load is taken, whatever was asked since.
    NoLoadTickets,
    /// A read that may be old is answered however old it is.
    StaleWithoutBound,
    /// A row that SQL refused counts as written.
    RefusedIsForgotten,
    /// Dirty records leave memory when it is full.
    EvictDirty,
    /// A flush is answered before SQL has anything.
    AckBeforeSql,
    /// A statement whose outcome is unknown counts as done.
    UnknownCountsAsWritten,
    /// A row that SQL holds in a newer version counts as written.
    ConflictIsWritten,
    /// Tombstones are deleted in SQL before the floor of their table is raised.
    PurgeWithoutFloor,
    /// A change that waits for SQL is answered before `Written` is applied.
    ThroughBeforeWritten,
    /// The age of a stale read counts from the leader's last word, whatever the replica lacks.
    StaleByTouch,
    /// While a joint configuration is in force, its outgoing voters are not counted.
    OutgoingNotCounted,
    /// What is proposed while the lead is handed over is forgotten.
    ForgottenProposal,
    /// A snapshot from a peer takes the log's place while earlier writes of the same group wait. (Planted in the storage.)
    InstallBeforeEarlierWrites,
    /// The log is reset before the snapshot that takes its place has its name. (Planted in the storage.)
    ResetBeforeRename,
    /// A lane that is asked for a snapshot of another lane's shard keeps that to itself. (Planted in the simulated host.)
    QuietLane,
    /// A scan looks at a leader's memory without asking a majority.
    LocalScans,
    /// Whatever the wall clock shows is believed. (Planted in the simulated clocks.)
    BelievesAllClocks,
    /// A node that starts again takes its wall clock's word before others have spoken. (Planted there too.)
    BelievesWallAtStart,
    /// A machine whose disk was lost goes on as the replicas that it was, as if Raft's ids were those of nodes. (Planted in the
    /// simulated host.)
    SameNumberAgain,
    /// Whoever learns counts where majorities are counted. (Planted in consensus.)
    CountsLearners,
    /// Whoever is suspicious of its leader forgets its vote. (Planted there too.)
    ForgetsVotes,
    /// A request that another node has sent is sent on. (Planted in the simulated lanes.)
    ForwardOfForward,
    /// A request that is given back goes behind those that have come since. (Planted in the router.)
    GivenBackLast,
    /// A change whose link broke is sent again. (Planted there too.)
    RetryInDoubt,
    /// Whoever leads takes the lease, though another one may still trust it.
    LeaseNotWaitedFor,
    /// What is born of a split begins with nothing, whatever its disk has of its term, its vote and its log.
    ForgottenInfancy,
    /// It goes on with its log, and has forgotten its term and its vote.
    InfantVotesAgain,
    /// Kept results stay with the left half.
    DedupLeftBehind,
    /// What is dirty counts as clean in the right half: the mark stays with the left one.
    DirtyLeftBehind,
    /// Requests go into the log behind a split, and whether they belong there is checked when they come only.
    EpochOnArrivalOnly,
    /// A shard that was parted may cut snapshots, and so lets go of its log, before what was born of it has one.
    ParentTrimmedEarly,
    /// The right half begins as soon as the map has its number, before the split is applied. (Planted in the simulated host.)
    BornBeforeApplied,
}

impl Mutant {
    /// Those that the simulator hunts. The others need what it does not do: scans, and a joint configuration in which one voter alone
    /// could be deceived. Tests of `shard` see them caught.
    pub const ALL: [Mutant; 39] = [
        Mutant::AnswerBeforeSync,
        Mutant::NoSqlFence,
        Mutant::KickDirty,
        Mutant::NoDedup,
        Mutant::SnapshotDoesNotClear,
        Mutant::LocalReads,
        Mutant::ReusedReadContext,
        Mutant::MergedIncrementsForgetOne,
        Mutant::LoadOverwrites,
        Mutant::TruncateBeforeSnapshot,
        Mutant::NoLoadTickets,
        Mutant::StaleWithoutBound,
        Mutant::RefusedIsForgotten,
        Mutant::EvictDirty,
        Mutant::AckBeforeSql,
        Mutant::UnknownCountsAsWritten,
        Mutant::ConflictIsWritten,
        Mutant::PurgeWithoutFloor,
        Mutant::ThroughBeforeWritten,
        Mutant::StaleByTouch,
        Mutant::ForgottenProposal,
        Mutant::InstallBeforeEarlierWrites,
        Mutant::ResetBeforeRename,
        Mutant::QuietLane,
        Mutant::BelievesAllClocks,
        Mutant::BelievesWallAtStart,
        Mutant::SameNumberAgain,
        Mutant::CountsLearners,
        Mutant::ForgetsVotes,
        Mutant::ForwardOfForward,
        Mutant::GivenBackLast,
        Mutant::RetryInDoubt,
        Mutant::LeaseNotWaitedFor,
        Mutant::ForgottenInfancy,
        Mutant::InfantVotesAgain,
        Mutant::DedupLeftBehind,
        Mutant::DirtyLeftBehind,
        Mutant::EpochOnArrivalOnly,
        Mutant::BornBeforeApplied,
    ];
}

impl Records {
    /// Puts the rows of a snapshot over those that are there.
    pub(crate) fn lay_over(&mut self, segments: &[(Bound, Segment)]) {
        let (mut rows, mut packed) = (Vec::new(), Vec::new());
        for slot in segments.iter().flat_map(|(_, segment)| segment.slots()) {
            walk_slot(slot, |row, view| {
                packed.clear();
                view.fields.pack(&mut packed);
                rows.push((row.to_owned(), content_of(row, Versions::of(&view), &packed, row.table == KV)));
            });
        }
        for (row, content) in rows {
            self.put_row(row.as_ref().position(), row.as_ref(), Some(content));
        }
    }

    /// What a bug of this run leaves behind in a split.
    pub(crate) fn leave_behind(&mut self) {
        match self.mutant {
            Some(Mutant::DedupLeftBehind) => self.remembered = crate::remembered::Remembered::default(),
            Some(Mutant::DirtyLeftBehind) => {
                for dirty in self.dirty_versions(None) {
                    self.apply_written(dirty.row.as_ref(), dirty.version);
                }
            }
            _ => {}
        }
    }

    /// What this mutant answers, without executing it, to an update that is followed, in the same entry, by another of
    /// the same record.
    pub(crate) fn forgotten_increment(&self, request: &Request<'_>, rest: &[u8]) -> Option<Answer> {
        if self.mutant != Some(Mutant::MergedIncrementsForgetOne) {
            return None;
        }
        let (row, next) = (update_row(request)?, Request::decode(&mut Reader::new(rest)).ok()?);
        if update_row(&next) != Some(row) {
            return None;
        }
        Some(Answer::One(crate::read_reply(self.get(row.position(), row))))
    }
}

fn update_row<'a>(request: &Request<'a>) -> Option<shardine_model::RowKey<'a>> {
    match &request.body {
        Body::One(command) if matches!(command.action, Action::Update { .. }) => Some(command.row),
        Body::One(_) | Body::Read(_) | Body::Batch(_) => None,
    }
}

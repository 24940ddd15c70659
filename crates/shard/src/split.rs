//! A shard parted in two: what its leader does before, what every replica does when the entry is applied, and what is born of it.
//!
//! From the moment at which a leader proposes a split until it is applied, no request goes into the log behind it: whatever comes
//! meanwhile is gathered, and is given back when the split is done, with everything else that waits here. So nobody is overtaken,
//! and a split holds requests up for one commit. Knows nothing of seats and disks: whoever owns the replica sees to it that what is
//! born gets a seat, that the log of the parent stays until there is a snapshot of it on disk, and that a log that the child has
//! already is found again.

use std::fmt;

use bytes::Bytes;
use shardine_consensus::Restored;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite, Membership, SnapshotMeta};
use shardine_model::split::{BIRTH_INDEX, BIRTH_TERM};
use shardine_model::{Answer, ConfVersion, Entry, ErrorCode, ReplicaId, RowKey, ShardId, Split};
use shardine_records::Records;

use crate::actions::{Actions, Caller, Returned};
use crate::gather::Then;
use crate::replica::{Options, Replica, fail};
use crate::writeback::Passed;

/// A replica of a shard that was parted off, as it was at that moment.
pub struct Newborn {
    pub parent: ShardId,
    pub split: Split,
    options: Options,
    records: Records,
    membership: Membership,
    passed: Passed,
}

/// How a split that the map wants stands, as the shard's leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitProgress {
    UnderWay,
    Done,
    /// The shard is another one than it was when that was decided, and will not be split by it any more.
    Overtaken,
}

/// What the disk has of a replica that has no snapshot of its birth yet.
#[derive(Clone, Debug, Default)]
pub struct Infancy {
    pub hard_state: HardState,
    pub entries: Vec<LogEntry>,
}

impl fmt::Debug for Newborn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Newborn")
            .field("parent", &self.parent)
            .field("split", &self.split)
            .finish_non_exhaustive()
    }
}

impl Newborn {
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.options.shard
    }

    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.options.replica
    }

    /// What has to be on disk before anything else of it is.
    #[must_use]
    pub fn first_write(&self) -> LogWrite {
        let (index, term) = (BIRTH_INDEX, BIRTH_TERM);
        let first = LogEntry { index, term, kind: LogEntryKind::Normal, data: Bytes::new() };
        let hard_state = HardState { term, commit: index, ..HardState::default() };
        let (shard, replica) = (self.shard(), self.replica());
        LogWrite { shard, replica, entries: vec![first], hard_state: Some(hard_state) }
    }

    /// Begins to live. What the disk has of its log, its term and its vote stays as it is (sharding P-7).
    #[must_use]
    pub fn bear(self, found: Option<Infancy>) -> Replica {
        let Self { options, records, membership, passed, .. } = self;
        let snapshot = SnapshotMeta { index: BIRTH_INDEX, term: BIRTH_TERM, membership, conf_index: 0 };
        #[cfg(feature = "mutants")]
        let found = spoilt(found, options.mutant);
        let Infancy { hard_state, mut entries } = found.unwrap_or_default();
        entries.retain(|entry| entry.index > BIRTH_INDEX);
        let mut replica = Replica::new(options, records, Restored { snapshot, hard_state, entries });
        replica.time = passed.time;
        replica.writeback.inherit(passed);
        replica.member.lacks_snapshot();
        replica
    }
}

impl Replica {
    /// Proposes a split that the map wants, or says what has come of it. To be asked again until it is over.
    pub fn advance_split(&mut self, split: &Split, actions: &mut Actions) -> SplitProgress {
        let is_done = self.records.epoch().owner() == split.epochs().0.owner()
            && self.records.bounds().hi.as_ref() == Some(&split.at);
        let waits = self.is_handing_over() || self.member.is_handing_over() || self.is_splitting();
        // Whoever serves has applied whatever was in its log when it was elected.
        if !self.is_serving() || waits || self.member.group.membership().is_joint() {
            return SplitProgress::UnderWay;
        }
        match (is_done, self.is_meant(split)) {
            (true, _) => return SplitProgress::Done,
            (false, false) => return SplitProgress::Overtaken,
            (false, true) => {}
        }
        // Those who came before it go before it.
        self.propose_gathered(actions);
        let entry = Entry::Split(Box::new(split.clone()));
        self.upkeep.splitting = self.propose(&entry, Vec::new(), Then::Split);
        self.drain(actions);
        SplitProgress::UnderWay
    }

    /// Whether a split is on its way through the log.
    #[must_use]
    pub fn is_splitting(&self) -> bool {
        self.upkeep.splitting
    }

    /// Whether a split that was decided is meant for the group as it is now.
    fn is_meant(&self, split: &Split) -> bool {
        let membership = self.member.group.membership();
        let conf = ConfVersion(self.member.group.conf_index().max(1));
        conf == split.epoch.conf && !membership.is_joint() && self.records.is_split_by(split)
    }

    /// Parts the shard, on every replica alike. Where the bounds or the members have changed since it was decided nothing happens.
    pub(crate) fn apply_split(&mut self, split: Split, actions: &mut Actions) {
        if !self.is_meant(&split) {
            return;
        }
        self.member.abandon_cut(&mut self.records);
        let membership = born_of(self.member.group.membership(), &split);
        self.send_away(actions);
        let mut records = self.records.split_off(&split.at).right;
        self.evictor.begin_again();
        // Whoever comes anew has other bounds than the log began with.
        self.member.group.begin_with_snapshots();
        let lease = self.records.lease().filter(|lease| lease.holder == self.options.replica);
        let (passed, asked) = self.writeback.pass(self.time, lease.is_some(), |row| records.owns(row));
        fail(actions, asked, ErrorCode::StaleRoute);
        let Some(replica) = split.child_of(self.options.replica) else { return };
        records.pass_lease(|holder| split.child_of(holder));
        let seed = self.options.seed ^ u64::from(split.child.0).rotate_left(32);
        let options = Options { shard: split.child, replica, seed, ..self.options };
        let parent = self.options.shard;
        // At once: a snapshot that is begun by this very entry would have only one half. The host says when it is over.
        self.pin(true);
        actions.newborn.push(Newborn { parent, split, options, records, membership, passed });
    }

    /// Everybody who waits here is sent away, in the order in which they came: to come back, or to go to the other half.
    fn send_away(&mut self, actions: &mut Actions) {
        while let Some(entry) = self.gathering.take() {
            let catalogue = entry.epoch.catalogue;
            let why = ErrorCode::StaleRoute;
            let requests = entry.give_back(true);
            actions.returned.extend(requests.into_iter().map(|(caller, request)| Returned {
                caller,
                request,
                catalogue,
                why,
            }));
        }
        actions.returned.extend(self.early.give_back());
        self.loads.give_back(actions);
        fail(actions, self.reads.give_up(), ErrorCode::StaleRoute);
        fail(actions, self.writeback.send_away(), ErrorCode::StaleRoute);
    }

    /// Whether a row is another shard's, and whoever asks for it is told so.
    pub(crate) fn is_stray(&self, caller: Caller, row: RowKey<'_>, actions: &mut Actions) -> bool {
        let is_stray = !self.records.owns(row);
        if is_stray {
            actions.answers.push((caller, Answer::Failed(ErrorCode::StaleRoute)));
        }
        is_stray
    }
}

/// What the disk has of a replica, with the bug of this run.
#[cfg(feature = "mutants")]
fn spoilt(found: Option<Infancy>, mutant: Option<shardine_records::Mutant>) -> Option<Infancy> {
    match mutant {
        Some(shardine_records::Mutant::ForgottenInfancy) => None,
        Some(shardine_records::Mutant::InfantVotesAgain) => {
            let hard_state = HardState { term: BIRTH_TERM, commit: BIRTH_INDEX, ..HardState::default() };
            found.map(|found| Infancy { hard_state, ..found })
        }
        _ => found,
    }
}

/// The members of the child: those of the parent, under their numbers there.
fn born_of(parent: &Membership, split: &Split) -> Membership {
    let born = |list: &[ReplicaId]| list.iter().filter_map(|replica| split.child_of(*replica)).collect();
    Membership { voters: born(&parent.voters), learners: born(&parent.learners), ..Membership::default() }
}

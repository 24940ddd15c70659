//! Looking for replicas that have silently parted from the others: now and then a leader marks an index in the log; every replica
//! sums up its state as it is there, by a cut whose chunks are hashed and not kept, and tells the leader; what a majority has found
//! becomes an entry, too. Whoever has found something else is set aside, the leader itself if it is the one, and gets a snapshot of
//! another's state in place of its own (`shardine_consensus`, `aside.rs`).
//!
//! A replica that could not look (it was cutting a snapshot, or only came later) says nothing, and is not judged.

use std::collections::BTreeMap;

use shardine_consensus::Told;
use shardine_model::ReplicaId;
use shardine_model::checksum::{CHECKSUM_FORM, Sum};
use shardine_model::group_entry::GroupEntry;
use shardine_model::log::LogEntry;

use super::machine::Machine;
use super::{At, Member};

/// How often what was found is told again, until a verdict comes: whoever leads may have changed, and messages get lost.
const TELL_EVERY_MS: u64 = 2_000;
const TELL_TIMES: u32 = 30;

/// How long those who are slow may take to tell once the leader has looked, where no interval says it.
const PATIENCE_MS: u64 = 60_000;
/// The part of the interval that they may take, and after which a round that came to nothing is tried again; and what it is at least,
/// unless the interval itself is shorter.
const PATIENCE_PART: u64 = 10;
const PATIENCE_MS_MIN: u64 = 10_000;

/// A replica that is so many entries behind leaves a mark: the round is over before it could tell anything.
const BEHIND_MAX: u64 = 10_000;

/// What looking for differences has come to, since the replica began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Rounds at whose end this replica was found to agree.
    pub agreed: u64,
    /// Rounds of this leader in which all had told, and no majority found the same.
    pub unsettled: u64,
    /// How often this replica differed.
    pub differed: u64,
    /// How often it got another state in place of one that differed.
    pub rebuilt: u64,
    /// The mark at which it last differed.
    pub differed_at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Checking {
    /// 0 means that this replica begins no round.
    every_ms: u64,
    /// When the last round began as far as this replica knows, or when it heard the time first.
    last_ms: Option<u64>,
    has_new_mark: bool,
    mark: Option<Mark>,
    verdict: Option<Verdict>,
    round: Option<Round>,
    /// Rounds up to this mark are not taken up again.
    closed: u64,
    checks: Checks,
}

/// The newest mark that is applied.
#[derive(Clone, Copy, Debug)]
struct Mark {
    index: u64,
    found: Found,
    told: u32,
    tell_at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Summing,
    Sum(Sum),
    /// It could not look.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Verdict {
    index: u64,
    sum: Sum,
}

/// What a leader knows of a mark.
#[derive(Debug)]
struct Round {
    index: u64,
    /// When it is given up, if that is known by now.
    until_ms: Option<u64>,
    sums: BTreeMap<ReplicaId, Sum>,
    /// The verdict was proposed in this term.
    proposed_in: u64,
}

impl Checking {
    /// Another state has taken the place of what was looked at.
    pub fn replaced(&mut self) {
        (self.mark, self.verdict) = (None, None);
        self.checks.rebuilt = self.checks.differed;
    }

    fn patience_ms(&self) -> u64 {
        match self.every_ms {
            0 => PATIENCE_MS,
            every_ms => (every_ms / PATIENCE_PART).max(PATIENCE_MS_MIN.min(every_ms)),
        }
    }

    fn note(&mut self, index: u64, found: Found) {
        self.mark = Some(Mark { index, found, told: 0, tell_at_ms: 0 });
        self.verdict = None;
        self.has_new_mark = true;
    }

    fn is_summing(&self) -> bool {
        self.mark.is_some_and(|mark| mark.found == Found::Summing)
    }

    /// Whether this replica has found something else than a majority. Asked once for every verdict.
    fn judge(&mut self) -> bool {
        let (Some(mark), Some(verdict)) = (self.mark, self.verdict) else { return false };
        let Found::Sum(sum) = mark.found else { return false };
        if mark.index != verdict.index {
            return false;
        }
        self.mark = None;
        if sum == verdict.sum {
            self.checks.agreed += 1;
            return false;
        }
        self.checks.differed += 1;
        self.checks.differed_at = mark.index;
        true
    }

    /// What is to be told to the leader now.
    fn tell_now(&mut self, now_ms: u64) -> Option<(u64, Sum)> {
        let mark = self.mark.as_mut()?;
        let Found::Sum(sum) = mark.found else { return None };
        if mark.told >= TELL_TIMES || now_ms < mark.tell_at_ms {
            return None;
        }
        mark.told += 1;
        mark.tell_at_ms = now_ms + TELL_EVERY_MS;
        Some((mark.index, sum))
    }

    fn close(&mut self, index: u64) {
        self.closed = self.closed.max(index);
        self.round.take_if(|round| round.index <= index);
    }

    fn hear(&mut self, told: Told, now_ms: u64) {
        let is_of_round = self.round.as_ref().is_some_and(|round| round.index == told.index);
        let is_of_mark = self.mark.is_some_and(|mark| mark.index == told.index);
        // A leader that has come since the mark takes the round up where the one before it has left it.
        if !is_of_round && is_of_mark && told.index > self.closed {
            let until_ms = Some(now_ms + self.patience_ms());
            self.round = Some(Round { index: told.index, until_ms, sums: BTreeMap::new(), proposed_in: 0 });
        }
        if let Some(round) = self.round.as_mut().filter(|round| round.index == told.index) {
            round.sums.insert(told.by, Sum(told.sum));
        }
    }
}

impl<T> Member<T> {
    /// How often this member, where it leads, begins a round; 0 means never.
    pub fn compare_every(&mut self, every_ms: u64) {
        self.checking.every_ms = every_ms;
    }

    /// What looking for differences has come to.
    pub fn checks(&self) -> Checks {
        self.checking.checks
    }

    /// An entry of the group itself is applied.
    pub fn apply_group_entry(&mut self, machine: &mut impl Machine, entry: &LogEntry, of: GroupEntry) {
        match of {
            GroupEntry::Mark { form } => {
                self.cutting.abandon_sum(machine);
                // What is replayed at a start is long over.
                let is_now = self.checking.last_ms.is_some() && entry.index + BEHIND_MAX > self.group.commit();
                let at = At { index: entry.index, term: entry.term };
                let looks = is_now && form == CHECKSUM_FORM && !self.group.is_aside();
                let begun = looks && self.cutting.begin_sum(machine, &self.group, at);
                self.checking.note(entry.index, if begun { Found::Summing } else { Found::Nothing });
            }
            GroupEntry::Verdict { index, sum } => {
                self.checking.verdict = Some(Verdict { index, sum: Sum(sum) });
                self.judge(machine);
                self.checking.close(index);
            }
        }
    }

    /// The state at the last mark is summed up.
    pub(super) fn summed(&mut self, machine: &mut impl Machine, index: u64, sum: Sum) {
        if let Some(mark) = self.checking.mark.as_mut().filter(|mark| mark.index == index) {
            mark.found = Found::Sum(sum);
            self.judge(machine);
        }
    }

    fn judge(&mut self, machine: &mut impl Machine) {
        if !self.checking.judge() {
            return;
        }
        self.cutting.abandon(machine);
        let right = self.checking.verdict.take().expect("there was one to differ from").sum;
        let sums = self.checking.round.take().map(|round| round.sums).unwrap_or_default();
        self.group.set_aside(|heir| sums.get(&heir).is_none_or(|sum| *sum == right));
    }

    /// Takes part in looking for differences: tells what was found, and, where this member leads, begins rounds and ends them.
    pub fn check(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.checking.has_new_mark) || self.checking.last_ms.is_none() {
            self.checking.last_ms = Some(now_ms);
        }
        for told in self.group.take_told() {
            self.checking.hear(told, now_ms);
        }
        if let Some((index, sum)) = self.checking.tell_now(now_ms) {
            let own = self.group.id();
            match self.group.leader() {
                Some(leader) if leader == own => self.checking.hear(Told { by: own, index, sum: sum.0 }, now_ms),
                Some(leader) => self.group.tell_sum(leader, index, sum.0),
                None => {}
            }
        }
        if !self.is_serving() || self.group.is_alone() || self.is_handing_over() {
            self.checking.round = None;
            return;
        }
        match self.checking.round.take() {
            Some(round) => self.checking.round = self.go_on(round, now_ms),
            None => self.begin_round_if_due(now_ms),
        }
    }

    fn begin_round_if_due(&mut self, now_ms: u64) {
        let every_ms = self.checking.every_ms;
        let is_due = self.checking.last_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) >= every_ms);
        if every_ms == 0 || !is_due || self.cutting.is_running() || self.group.membership().is_joint() {
            return;
        }
        let Ok(marked) = self.group.propose(GroupEntry::Mark { form: CHECKSUM_FORM }.to_bytes()) else { return };
        let round = Round { index: marked.index, until_ms: None, sums: BTreeMap::new(), proposed_in: 0 };
        (self.checking.round, self.checking.last_ms) = (Some(round), Some(now_ms));
    }

    /// Ends a round that has a majority, or one that will not come to it. What is found later is judged by the entry.
    fn go_on(&mut self, mut round: Round, now_ms: u64) -> Option<Round> {
        let membership = self.group.membership();
        let agreed = round.sums.values().find(|sum| membership.is_quorum(|voter| round.sums.get(&voter) == Some(*sum)));
        if let Some(sum) = agreed {
            let verdict = GroupEntry::Verdict { index: round.index, sum: sum.0 }.to_bytes();
            if round.proposed_in != self.group.term() && self.group.propose(verdict).is_ok() {
                round.proposed_in = self.group.term();
            }
            return Some(round);
        }
        let have_told = membership.members().all(|member| round.sums.contains_key(&member));
        // However long it takes to look, whoever is no slower than this leader will have told soon after.
        if round.until_ms.is_none() && self.applied() >= round.index && !self.checking.is_summing() {
            round.until_ms = Some(now_ms + self.checking.patience_ms());
        }
        if !have_told && round.until_ms.is_none_or(|until_ms| now_ms < until_ms) {
            return Some(round);
        }
        let first = round.sums.values().next();
        self.checking.checks.unsettled += u64::from(round.sums.values().any(|sum| Some(sum) != first));
        self.checking.close(round.index);
        let wait_ms = self.checking.every_ms.saturating_sub(self.checking.patience_ms());
        self.checking.last_ms = Some(now_ms.saturating_sub(wait_ms));
        None
    }
}

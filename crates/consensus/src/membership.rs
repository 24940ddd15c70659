//! Who takes part in a group, and how that changes: one step at a time, or several at once by a joint configuration, which the
//! leader leaves by itself (Raft's thesis, 4.3).
//!
//! A change is an entry in bytes of our own. It counts when the entry is *applied*, on every replica at the same index. What is
//! said of safety rests on two facts: a leader proposes no change before it has applied the last one, and whoever has a change
//! on disk has with it, as its commit index, all that the leader had committed before ([`crate::Ready::hard_state`]). So nobody
//! stands for election under a configuration that was left two changes ago.

use raft::Changer;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry, EntryType,
};
use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::log::{LogEntry, Membership};
use shardine_model::{ReplicaId, limits};
use thiserror::Error;

use crate::group::{Group, Proposed, Role};

/// One replica's part in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Votes from now on; one that learned so far is promoted.
    Vote(ReplicaId),
    /// Gets entries, and has no vote; one that voted so far is demoted.
    Learn(ReplicaId),
    Remove(ReplicaId),
}

/// A change of a group's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// One step, done when its entry is applied.
    Simple(Step),
    /// Any steps at once: until the configuration before is left, a majority of both is needed.
    Joint(Vec<Step>),
    /// Leaves the configuration before. The leader proposes it by itself.
    Leave,
}

/// Why a change was not proposed. Nothing of it has happened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeRefused {
    #[error("this replica does not lead")]
    NotLeader,
    #[error("the lead is being handed over")]
    HandingOver,
    #[error("another change of members is under way")]
    UnderWay,
    #[error("the change does not fit the members: {0}")]
    Unfit(String),
}

const FORM: u8 = 1;
const TAG_SIMPLE: u8 = 1;
const TAG_JOINT: u8 = 2;
const TAG_LEAVE: u8 = 3;
const STEP_VOTE: u8 = 1;
const STEP_LEARN: u8 = 2;
const STEP_REMOVE: u8 = 3;

impl Step {
    #[must_use]
    pub fn replica(self) -> ReplicaId {
        match self {
            Self::Vote(replica) | Self::Learn(replica) | Self::Remove(replica) => replica,
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Vote(_) => STEP_VOTE,
            Self::Learn(_) => STEP_LEARN,
            Self::Remove(_) => STEP_REMOVE,
        });
        put_varint(out, self.replica().0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8("step")?;
        let replica = ReplicaId(reader.varint("replica")?);
        match tag {
            STEP_VOTE => Ok(Self::Vote(replica)),
            STEP_LEARN => Ok(Self::Learn(replica)),
            STEP_REMOVE => Ok(Self::Remove(replica)),
            other => Err(DecodeError::Unknown { what: "step", value: u64::from(other) }),
        }
    }

    fn to_raft(self) -> ConfChangeSingle {
        let mut single = ConfChangeSingle { node_id: self.replica().0, ..ConfChangeSingle::default() };
        single.set_change_type(match self {
            Self::Vote(_) => ConfChangeType::AddNode,
            Self::Learn(_) => ConfChangeType::AddLearnerNode,
            Self::Remove(_) => ConfChangeType::RemoveNode,
        });
        single
    }
}

impl MembershipChange {
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        match self {
            Self::Simple(step) => std::slice::from_ref(step),
            Self::Joint(steps) => steps,
            Self::Leave => &[],
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORM];
        match self {
            Self::Simple(step) => {
                out.push(TAG_SIMPLE);
                step.encode(&mut out);
            }
            Self::Joint(steps) => {
                out.push(TAG_JOINT);
                put_varint(&mut out, steps.len() as u64);
                steps.iter().for_each(|step| step.encode(&mut out));
            }
            Self::Leave => out.push(TAG_LEAVE),
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        // raft-rs writes the entry by which a joint configuration is left, and leaves it empty.
        if bytes.is_empty() {
            return Ok(Self::Leave);
        }
        let mut reader = Reader::new(bytes);
        match reader.u8("form of a membership change")? {
            FORM => {}
            other => {
                return Err(DecodeError::Unknown { what: "form of a membership change", value: u64::from(other) });
            }
        }
        let change = match reader.u8("membership change")? {
            TAG_SIMPLE => Self::Simple(Step::decode(&mut reader)?),
            TAG_JOINT => Self::Joint(steps(&mut reader)?),
            TAG_LEAVE => Self::Leave,
            other => return Err(DecodeError::Unknown { what: "membership change", value: u64::from(other) }),
        };
        reader.finish("membership change")?;
        Ok(change)
    }

    fn to_raft(&self) -> ConfChangeV2 {
        let mut change = ConfChangeV2::default();
        change.set_transition(match self {
            Self::Simple(_) | Self::Leave => ConfChangeTransition::Auto,
            Self::Joint(_) => ConfChangeTransition::Implicit,
        });
        change.set_changes(self.steps().iter().map(|step| step.to_raft()).collect());
        change
    }

    /// What raft-rs would say to it, without doing it.
    fn check(&self, tracker: &raft::ProgressTracker) -> Result<(), ChangeRefused> {
        if self.steps().iter().any(|step| step.replica() == ReplicaId(0)) {
            return Err(ChangeRefused::Unfit("0 is no replica".to_owned()));
        }
        if self.steps().len() > limits::MEMBERS_MAX {
            return Err(ChangeRefused::Unfit(format!("more than {} steps", limits::MEMBERS_MAX)));
        }
        let steps = self.to_raft().take_changes();
        let mut changer = Changer::new(tracker);
        let fits = match self {
            Self::Simple(_) => changer.simple(&steps),
            Self::Joint(_) => changer.enter_joint(true, &steps),
            Self::Leave => changer.leave_joint(),
        };
        fits.map(drop).map_err(|error| ChangeRefused::Unfit(error.to_string()))
    }
}

fn steps(reader: &mut Reader<'_>) -> Result<Vec<Step>, DecodeError> {
    let count = reader.count("steps")?;
    if count > limits::MEMBERS_MAX {
        let limit = limits::MEMBERS_MAX as u64;
        return Err(DecodeError::TooLong { what: "steps", value: count as u64, limit });
    }
    (0..count).map(|_| Step::decode(reader)).collect()
}

/// Why this replica has no part in the group any longer: a committed configuration is without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The entry that made that configuration.
    pub conf_index: u64,
}

/// The configuration that the applied entries have made, kept at hand: it is asked for at every read. Invariant: `alone`
/// says what `membership` does.
#[derive(Debug)]
pub(crate) struct Members {
    membership: Membership,
    conf_index: u64,
    alone: bool,
    /// A configuration without this replica, as another member has told.
    told_removed: Option<u64>,
    /// The `Ready` whose write says that the newest change is committed, until it is on disk.
    pub recorded_by: Option<u64>,
}

impl Members {
    pub fn new(own: ReplicaId, membership: Membership, conf_index: u64) -> Self {
        let alone = membership.is_alone(own);
        Self { membership, conf_index, alone, told_removed: None, recorded_by: None }
    }

    pub fn note(&mut self, own: ReplicaId, membership: Membership, conf_index: u64) {
        self.alone = membership.is_alone(own);
        (self.membership, self.conf_index) = (membership, conf_index);
    }
}

impl Group {
    /// Who takes part, as far as entries are applied.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.members.membership
    }

    /// The entry that made the membership what it is.
    #[must_use]
    pub fn conf_index(&self) -> u64 {
        self.members.conf_index
    }

    /// Of a leader: whether a majority of those who vote now will still know after any crash that the configuration in force is
    /// committed. Until then whoever has left it must stay: a voter that comes back and does not know goes by the configuration before,
    /// and needs their votes.
    #[must_use]
    pub fn is_conf_settled(&self) -> bool {
        let (own, conf_index) = (self.id(), self.conf_index());
        let progress = self.progress();
        let knows = |replica: ReplicaId| match replica == own {
            true => self.members.recorded_by.is_none(),
            // What a follower says is on its disk; see `Group::ready` for the commit index beside a change.
            false => progress.iter().any(|one| one.replica == replica && one.committed >= conf_index),
        };
        self.role() == Role::Leader && self.membership().is_quorum(knows)
    }

    /// Whether this replica alone is the majority and nobody follows it, so that its own disk decides.
    #[inline]
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.members.alone
    }

    /// Whether this replica knows of a committed configuration without it. One that has not been given a membership yet
    /// is not removed.
    #[must_use]
    pub fn removed(&self) -> Option<Removed> {
        let membership = self.membership();
        let is_without = !membership.voters.is_empty() && !membership.contains(self.id());
        let conf_index = if is_without { Some(self.conf_index()) } else { self.members.told_removed };
        conf_index.map(|conf_index| Removed { conf_index })
    }

    /// Another member has applied a configuration without this replica. Replica numbers are not used twice, so that is for ever.
    pub(crate) fn hear_removed(&mut self, conf_index: u64) {
        if conf_index > self.conf_index() {
            self.members.told_removed = Some(conf_index);
        }
    }

    /// Proposes a change of members, if this replica leads and no other change is under way.
    pub fn propose_membership(&mut self, change: &MembershipChange) -> Result<Proposed, ChangeRefused> {
        self.stir();
        if self.role() != Role::Leader {
            return Err(ChangeRefused::NotLeader);
        }
        if self.transferee().is_some() {
            return Err(ChangeRefused::HandingOver);
        }
        let raft = &mut self.node.raft;
        if raft.has_pending_conf() {
            return Err(ChangeRefused::UnderWay);
        }
        change.check(raft.prs())?;
        // Not by raft-rs' own way in, which wants the change in protobuf's bytes, and turns one that does not fit into an
        // empty entry without a word.
        let mut entry = Entry { data: change.to_bytes().into(), ..Entry::default() };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        assert!(raft.append_entry(&mut [entry]), "the size of uncommitted entries has no limit");
        raft.pending_conf_index = raft.raft_log.last_index();
        raft.bcast_append();
        Ok(self.last_proposed())
    }

    /// Makes a committed change count. To be called in the order of the log, before [`Group::applied`]. Fails only where a
    /// newer version of this program wrote the entry.
    pub fn apply_membership(&mut self, entry: &LogEntry) -> Result<(), DecodeError> {
        let change = MembershipChange::decode(&entry.data)?;
        #[cfg(feature = "mutants")]
        let change = self.miscounted(change);
        // One that does not fit any more, as leaving twice after a change of leaders, does nothing, and on every replica alike.
        let Ok(state) = self.node.apply_conf_change(&change.to_raft()) else { return Ok(()) };
        let own = self.id();
        self.members.note(own, membership(&state), entry.index);
        // The founders' membership is in no entry. Whoever joins later begins with nothing, and must get a snapshot, never
        // the log from its first entry on.
        self.node.mut_store().forget_to(1.min(entry.index - 1));
        if self.role() == Role::Leader && !self.membership().is_voter(own) {
            self.leave_lead();
        }
        self.settle_timeout();
        Ok(())
    }
}

pub(crate) fn conf_state(membership: &Membership) -> ConfState {
    let mut state = ConfState::default();
    let numbers = |replicas: &[ReplicaId]| replicas.iter().map(|replica| replica.0).collect::<Vec<_>>();
    state.set_voters(numbers(&membership.voters));
    state.set_learners(numbers(&membership.learners));
    state.set_voters_outgoing(numbers(&membership.outgoing));
    state.set_learners_next(numbers(&membership.learners_next));
    state.auto_leave = membership.auto_leave;
    state
}

/// raft-rs keeps members in hash tables: here they are sorted, so that all replicas write the same.
pub(crate) fn membership(state: &ConfState) -> Membership {
    let replicas = |numbers: &[u64]| {
        let mut replicas: Vec<ReplicaId> = numbers.iter().copied().map(ReplicaId).collect();
        replicas.sort_unstable();
        replicas
    };
    Membership {
        voters: replicas(state.get_voters()),
        learners: replicas(state.get_learners()),
        outgoing: replicas(state.get_voters_outgoing()),
        learners_next: replicas(state.get_learners_next()),
        auto_leave: state.auto_leave,
    }
}

/// Whether a group can have these members, as they are written: raft-rs ends the process over a membership that contradicts
/// itself.
pub(crate) fn is_possible(membership: &Membership) -> bool {
    let Membership { voters, learners, outgoing, learners_next, auto_leave } = membership;
    let is_set = |list: &[ReplicaId]| list.first() != Some(&ReplicaId(0)) && list.is_sorted_by(|one, next| one < next);
    let is_apart = |list: &[ReplicaId], other: &[ReplicaId]| list.iter().all(|replica| !other.contains(replica));
    let demoted_fit = learners_next.iter().all(|replica| outgoing.contains(replica));
    [voters, learners, outgoing, learners_next].into_iter().all(|list| is_set(list))
        && !voters.is_empty()
        && is_apart(learners, voters)
        && is_apart(learners, outgoing)
        && is_apart(learners_next, voters)
        && demoted_fit
        && (membership.is_joint() || !auto_leave)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> [(MembershipChange, &'static [u8]); 5] {
        let (first, second) = (ReplicaId(7), ReplicaId(300));
        [
            (MembershipChange::Simple(Step::Vote(first)), &[1, 1, 1, 7]),
            (MembershipChange::Simple(Step::Learn(second)), &[1, 1, 2, 0xac, 2]),
            (MembershipChange::Simple(Step::Remove(first)), &[1, 1, 3, 7]),
            (MembershipChange::Joint(vec![Step::Vote(second), Step::Remove(first)]), &[1, 2, 2, 1, 0xac, 2, 3, 7]),
            (MembershipChange::Leave, &[1, 3]),
        ]
    }

    #[test]
    fn a_change_has_these_bytes_for_ever() {
        for (change, bytes) in changes() {
            assert_eq!(change.to_bytes(), bytes, "{change:?}");
            assert_eq!(MembershipChange::decode(bytes), Ok(change));
        }
        assert_eq!(MembershipChange::decode(&[]), Ok(MembershipChange::Leave), "as raft-rs writes it");
    }

    #[test]
    fn a_change_cut_anywhere_or_with_more_behind_it_is_refused() {
        for (change, bytes) in changes() {
            for len in 1..bytes.len() {
                assert!(MembershipChange::decode(&bytes[..len]).is_err(), "{change:?} in {len} bytes");
            }
            assert!(MembershipChange::decode(&[bytes, &[0]].concat()).is_err(), "{change:?} and more");
        }
    }
}

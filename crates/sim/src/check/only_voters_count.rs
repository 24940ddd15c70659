//! Promise: who leads was voted for by a majority of those who have a vote, and what is applied anywhere is on the disks of one; of
//! both configurations while there are two. Nobody else counts, and nobody votes twice in one term (reliability I4-I6).
//!
//! Knows the configurations from the log alone: what replicas take them for is not asked.

use std::collections::BTreeMap;

use shardine_consensus::{MembershipChange, Step};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership};
use shardine_model::{ConfVersion, ReplicaId};

use crate::check::{Violation, acknowledged_is_durable};

pub const NAME: &str = "only_voters_count";

/// Of one group.
#[derive(Clone, Debug)]
pub struct Members {
    /// Every configuration, with the entry that made it.
    configurations: Vec<(u64, Membership)>,
    /// By term: who has promised its vote to whom.
    votes: BTreeMap<u64, BTreeMap<ReplicaId, ReplicaId>>,
}

impl Members {
    #[must_use]
    pub fn new(founders: u64) -> Self {
        Self::among(Membership::of((1..=founders).map(ReplicaId)))
    }

    #[must_use]
    pub fn among(first: Membership) -> Self {
        Self { configurations: vec![(0, first)], votes: BTreeMap::new() }
    }

    /// The version of the configuration, as the map counts them. None while there are two at once.
    #[must_use]
    pub fn version(&self) -> Option<ConfVersion> {
        let (made_by, newest) = self.configurations.last().expect("the founders'");
        (!newest.is_joint()).then_some(ConfVersion((*made_by).max(1)))
    }

    /// An entry is applied for the first time anywhere.
    pub fn applied(&mut self, entry: &LogEntry) -> Option<&Membership> {
        if entry.kind != LogEntryKind::Membership {
            return None;
        }
        let change = MembershipChange::decode(&entry.data).expect("made by a replica of this run");
        let next = changed(&self.newest().clone(), &change);
        self.configurations.push((entry.index, next));
        Some(self.newest())
    }

    #[must_use]
    pub fn newest(&self) -> &Membership {
        &self.configurations.last().expect("the founders'").1
    }

    /// The configuration behind which an entry stands, and the one before that: a leader counts by those that it has applied, and
    /// one change at most is ever under way.
    fn in_force(&self, index: u64) -> impl Iterator<Item = &Membership> {
        self.configurations.iter().rev().filter(move |(made_by, _)| *made_by < index).take(2).map(|(_, one)| one)
    }

    /// An entry is being applied for the first time anywhere.
    pub fn check_commit(&self, (index, term): (u64, u64), holds: impl Fn(ReplicaId) -> bool) -> Result<(), Violation> {
        if self.in_force(index).any(|members| members.is_quorum(&holds)) {
            return Ok(());
        }
        let members = self.in_force(index).next().expect("the founders'");
        let holding: Vec<ReplicaId> = members.members().filter(|member| holds(*member)).collect();
        let detail = format!("entry {index} of term {term} is applied, and of {members:?} only {holding:?} hold it");
        Err(Violation::new(acknowledged_is_durable::NAME, detail))
    }

    /// A vote is on disk.
    pub fn votes(&mut self, replica: ReplicaId, state: HardState) -> Result<(), Violation> {
        if state.vote == ReplicaId(0) {
            return Ok(());
        }
        let before = self.votes.entry(state.term).or_default().insert(replica, state.vote);
        if before.is_none_or(|before| before == state.vote) {
            return Ok(());
        }
        let (term, vote) = (state.term, state.vote);
        Err(Violation::new(NAME, format!("replica {replica} has voted for {before:?} and for {vote} in term {term}")))
    }

    /// A replica leads for the first time in a term, and takes these for the members. Its own vote it need not write down first.
    pub fn leads(&self, term: u64, leader: ReplicaId, members: &Membership) -> Result<(), Violation> {
        let votes = self.votes.get(&term);
        let has_voted =
            |replica: ReplicaId| replica == leader || votes.and_then(|votes| votes.get(&replica)) == Some(&leader);
        let known = |other: &Membership| same(other, members);
        if !self.configurations.iter().any(|(_, one)| known(one)) {
            return Err(Violation::new(NAME, format!("replica {leader} leads among {members:?}, who never were it")));
        }
        if members.is_quorum(has_voted) && members.is_voter(leader) {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("replica {leader} leads in term {term} of {members:?} by {votes:?}")))
    }
}

fn same(one: &Membership, other: &Membership) -> bool {
    let sorted = |list: &[ReplicaId]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    sorted(&one.voters) == sorted(&other.voters) && sorted(&one.outgoing) == sorted(&other.outgoing)
}

/// What a change makes of a configuration. One that does not fit any more does nothing.
fn changed(members: &Membership, change: &MembershipChange) -> Membership {
    let mut next = members.clone();
    match change {
        MembershipChange::Simple(step) if !members.is_joint() => take(&mut next, *step),
        MembershipChange::Joint(steps) if !members.is_joint() => {
            next.outgoing.clone_from(&members.voters);
            steps.iter().for_each(|step| take(&mut next, *step));
        }
        MembershipChange::Leave => {
            next.outgoing.clear();
            let demoted = std::mem::take(&mut next.learners_next);
            next.learners.extend(demoted);
        }
        MembershipChange::Simple(_) | MembershipChange::Joint(_) => {}
    }
    next
}

fn take(members: &mut Membership, step: Step) {
    let replica = step.replica();
    let is_outgoing = members.outgoing.contains(&replica);
    for list in [&mut members.voters, &mut members.learners, &mut members.learners_next] {
        list.retain(|other| *other != replica);
    }
    match step {
        Step::Vote(_) => members.voters.push(replica),
        Step::Learn(_) if is_outgoing => members.learners_next.push(replica),
        Step::Learn(_) => members.learners.push(replica),
        Step::Remove(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, change: &MembershipChange) -> LogEntry {
        LogEntry { index, term: 1, kind: LogEntryKind::Membership, data: change.to_bytes().into() }
    }

    fn among(replicas: &'static [u64]) -> impl Fn(ReplicaId) -> bool {
        |replica| replicas.contains(&replica.0)
    }

    #[test]
    fn a_learner_does_not_count() {
        let mut members = Members::new(3);
        for index in [5, 6] {
            members.applied(&entry(index, &MembershipChange::Simple(Step::Learn(ReplicaId(index)))));
        }

        assert!(members.check_commit((9, 1), among(&[1, 5, 6])).is_err());
        assert_eq!(members.check_commit((9, 1), among(&[1, 3])), Ok(()));
    }

    #[test]
    fn both_configurations_count_while_there_are_two() {
        let mut members = Members::new(3);
        let steps = vec![
            Step::Vote(ReplicaId(4)),
            Step::Vote(ReplicaId(5)),
            Step::Remove(ReplicaId(2)),
            Step::Remove(ReplicaId(3)),
        ];
        members.applied(&entry(4, &MembershipChange::Simple(Step::Learn(ReplicaId(4)))));
        members.applied(&entry(5, &MembershipChange::Simple(Step::Learn(ReplicaId(5)))));
        members.applied(&entry(6, &MembershipChange::Joint(steps)));
        members.applied(&entry(7, &MembershipChange::Leave));

        let joint = members.in_force(7).next().expect("there is one").clone();
        assert!(
            !joint.is_quorum(among(&[1, 4, 5]))
                && !joint.is_quorum(among(&[1, 2, 3]))
                && joint.is_quorum(among(&[1, 2, 4]))
        );
        assert_eq!(members.newest().voters, [1, 4, 5].map(ReplicaId));
    }

    #[test]
    fn two_votes_in_one_term_are_seen() {
        let mut members = Members::new(3);
        let vote = |vote| HardState { term: 3, vote: ReplicaId(vote), commit: 0 };
        assert_eq!((members.votes(ReplicaId(1), vote(2)), members.votes(ReplicaId(1), vote(2))), (Ok(()), Ok(())));

        assert!(members.votes(ReplicaId(1), vote(3)).is_err());
    }

    #[test]
    fn a_leader_by_the_vote_of_a_stranger_is_seen() {
        let mut members = Members::new(3);
        members.votes(ReplicaId(7), HardState { term: 3, vote: ReplicaId(1), commit: 0 }).expect("its first");
        let known = members.newest().clone();

        assert!(members.leads(3, ReplicaId(1), &known).is_err());
        assert!(members.leads(3, ReplicaId(7), &known).is_err(), "it has no vote itself");
        members.votes(ReplicaId(2), HardState { term: 3, vote: ReplicaId(1), commit: 0 }).expect("its first");
        assert_eq!(members.leads(3, ReplicaId(1), &known), Ok(()));
    }
}

//! How far a leader's followers are, and which of them may follow it.

use std::cmp::Reverse;

use shardine_model::ReplicaId;

use crate::group::{Group, Role};

/// One follower, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub replica: ReplicaId,
    /// The last entry that it is known to have on disk.
    pub matched: u64,
    /// The entry that it is sent next.
    pub next: u64,
    /// The last entry that it is known to call committed.
    pub committed: u64,
    /// Whether it was heard of since the leader last looked whether a majority follows.
    pub is_active: bool,
    pub state: ProgressState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressState {
    /// Where its log parts from the leader's is being found out.
    Probe,
    /// It gets entries as they come.
    Replicate,
    /// It is behind the log, and gets a snapshot.
    Snapshot,
}

impl Group {
    /// The followers of this leader, learners among them, in the order of their numbers. Empty on anybody else.
    #[must_use]
    pub fn progress(&self) -> Vec<Progress> {
        if self.role() != Role::Leader {
            return Vec::new();
        }
        let own = self.id().0;
        let followers = self.node.raft.prs().iter().filter(|(id, _)| **id != own);
        let mut all: Vec<Progress> = followers.map(|(id, progress)| of_raft(ReplicaId(*id), progress)).collect();
        all.sort_unstable_by_key(|progress| progress.replica);
        all
    }

    /// Who may lead next, best first: those that will vote when the present change of members is done, the ones that were
    /// heard of lately before the others, and of these the ones with the longest log.
    #[must_use]
    pub fn heirs(&self) -> Vec<ReplicaId> {
        let may_lead = |progress: &Progress| self.membership().voters.contains(&progress.replica);
        let mut heirs: Vec<Progress> = self.progress().into_iter().filter(may_lead).collect();
        heirs.sort_by_key(|heir| Reverse((heir.is_active, heir.matched)));
        heirs.into_iter().map(|heir| heir.replica).collect()
    }
}

fn of_raft(replica: ReplicaId, progress: &raft::Progress) -> Progress {
    Progress {
        replica,
        matched: progress.matched,
        next: progress.next_idx,
        committed: progress.committed_index,
        is_active: progress.recent_active,
        state: match progress.state {
            raft::ProgressState::Probe => ProgressState::Probe,
            raft::ProgressState::Replicate => ProgressState::Replicate,
            raft::ProgressState::Snapshot => ProgressState::Snapshot,
        },
    }
}

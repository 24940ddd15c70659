//! Groups that rest: one that nobody wants anything of, and whose members all have what there is, needs a tick only now and then,
//! leader and followers alike. A thousand idle groups would else spend a node's idle time on telling each other that nothing has
//! happened. Whoever dies meanwhile is noticed by the pulses between nodes, as ever.
//!
//! Nobody has to agree to it. A follower that does not rest hears its resting leader every eight ticks, and would stand for election
//! after ten at the earliest; one that rests and whose leader does not, hears more than it needs. Any word but an empty heartbeat, and
//! whatever is asked of the replica itself, ends the rest at once.

use raft::{ProgressState, StateRole};

use crate::group::{ELECTION_TICKS, Group, HEARTBEAT_TICKS};
use crate::message::{Kind, RaftMessage};

/// One that rests needs one tick of so many. Invariant: a resting leader is heard before a follower that is awake would stand for
/// election.
pub const REST_PACE: u64 = 4;
const _: () = assert!(REST_PACE as usize * HEARTBEAT_TICKS < ELECTION_TICKS);

/// Quiet ticks before a follower rests, and before a leader does: followers first, so that they are seldom awake without it.
const FOLLOWER_TICKS: u64 = 20;
const LEADER_TICKS: u64 = 40;

/// For how many ticks nothing has happened.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    quiet_ticks: u64,
    is_resting: bool,
}

impl Group {
    /// Something was said or asked that is not said when nothing happens.
    pub(crate) fn stir(&mut self) {
        self.rest = Rest::default();
    }

    pub(crate) fn stir_by(&mut self, message: &RaftMessage) {
        let says_nothing = match message.kind {
            // With a context it asks for a majority's word on behalf of a read.
            Kind::Heartbeat | Kind::HeartbeatResponse => message.inner.context.is_empty(),
            Kind::Append
            | Kind::AppendResponse
            | Kind::Vote
            | Kind::VoteResponse
            | Kind::PreVote
            | Kind::PreVoteResponse
            | Kind::Snapshot
            | Kind::TimeoutNow => false,
        };
        if !says_nothing {
            self.stir();
        }
    }

    /// Whether one tick of [`REST_PACE`] is enough.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.rest.is_resting
    }

    /// A tick has come.
    pub(crate) fn settle_down(&mut self) {
        let patience = match self.node.raft.state {
            // The steady ticks of a group of one cost nobody else anything, and its owner relies on them.
            StateRole::Leader if !self.is_alone() && self.has_nothing_to_send() => LEADER_TICKS,
            StateRole::Follower if self.leader().is_some() && self.has_all_committed() => FOLLOWER_TICKS,
            StateRole::Leader | StateRole::Follower | StateRole::Candidate | StateRole::PreCandidate => {
                return self.stir();
            }
        };
        self.rest.quiet_ticks += 1;
        self.rest.is_resting = self.rest.quiet_ticks > patience;
    }

    fn has_all_committed(&self) -> bool {
        self.commit() == self.last_index()
    }

    /// Every member has all there is, as far as this leader can know.
    fn has_nothing_to_send(&self) -> bool {
        let last = self.last_index();
        let has_all =
            |progress: &raft::Progress| progress.matched == last && progress.state == ProgressState::Replicate;
        let own = self.id().0;
        self.transferee().is_none()
            && self.has_all_committed()
            && self.node.raft.prs().iter().all(|(id, progress)| *id == own || has_all(progress))
    }
}

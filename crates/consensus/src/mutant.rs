//! Planted bugs, for proving that the simulator's checkers can fail. Compiled only with the feature `mutants`.

use crate::group::Group;
use crate::membership::{MembershipChange, Step};

/// One bug each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Whoever learns counts where majorities are counted.
    CountsLearners,
    /// Whoever forgets its leader forgets its vote.
    ForgetsVotes,
}

impl Group {
    /// Plants a bug.
    pub fn spoil(&mut self, mutant: Option<Mutant>) {
        self.mutant = mutant;
    }

    /// A change as this mutant takes it.
    pub(crate) fn miscounted(&self, change: MembershipChange) -> MembershipChange {
        if let MembershipChange::Simple(Step::Learn(replica)) = change
            && self.mutant == Some(Mutant::CountsLearners)
        {
            return MembershipChange::Simple(Step::Vote(replica));
        }
        change
    }
}

//! Planted bugs, for proving that the simulator's checkers can fail. Compiled only with the feature `mutants`.

use crate::state::Coord;

/// One bug each. Those of the replica are carried here too, so that there is one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Log writes count as done before they are on disk.
    AnswerBeforeSync,
    /// A release hands over to the first two in the queue, whether or not both fit.
    GrantsBeyondTheLimit,
    /// The last in the queue is served first.
    LastComeFirstServed,
    /// A session that ends leaves its places in queues behind.
    GrantsToTheDead,
    /// An acquire takes the number above those of the present claims instead of one that was never given.
    OrderIdsComeAgain,
    /// A snapshot does not carry the last number that was given to an acquire.
    OrderIdsBeginAnew,
    /// Owners that come from the queue are not told to those who watch.
    SilentPromotions,
    /// A leader that is replaced forgets its streams without a word.
    SilentStepDown,
    /// Coming back to a session does not stop the clock of its expiry.
    ExpiresTheAttached,
    /// A leader ends sessions in its own memory, without the log.
    ExpiresWithoutTheLog,
    /// A new leader gives sessions their timeout only.
    NoGrace,
    /// A leader that cannot commit anything goes on as if it led.
    NoSelfCheck,
    /// STRICT describes are answered from memory.
    LocalStrictReads,
    /// The log is cut before its snapshot is on disk. (Planted in the simulated host.)
    TruncateBeforeSnapshot,
}

impl Mutant {
    pub const ALL: [Mutant; 14] = [
        Mutant::AnswerBeforeSync,
        Mutant::GrantsBeyondTheLimit,
        Mutant::LastComeFirstServed,
        Mutant::GrantsToTheDead,
        Mutant::OrderIdsComeAgain,
        Mutant::OrderIdsBeginAnew,
        Mutant::SilentPromotions,
        Mutant::SilentStepDown,
        Mutant::ExpiresTheAttached,
        Mutant::ExpiresWithoutTheLog,
        Mutant::NoGrace,
        Mutant::NoSelfCheck,
        Mutant::LocalStrictReads,
        Mutant::TruncateBeforeSnapshot,
    ];
}

impl Coord {
    #[must_use]
    pub fn with_mutant(self, mutant: Option<Mutant>) -> Self {
        Self { mutant, ..self }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

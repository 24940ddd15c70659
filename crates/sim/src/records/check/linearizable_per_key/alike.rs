//! Which of the items that may never have happened are as good as each other. Once their time to live may be over for all that is still to
//! come, it does not matter which of them was used, only how many.

use super::Tolerance;
use super::bits::Bits;
use super::resolve::Item;
use crate::records::ask::Ask;
use crate::records::model::State;

/// When the certain items that are not placed yet happen at the earliest, in milliseconds of the true wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// None of them has begun before.
    pub begun_ms: u64,
    /// None of them ends before.
    pub ends_ms: u64,
    pub tolerance: Tolerance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The row is gone after it, for whoever comes.
    Ends,
    /// The row may be gone at any time after it, and need not be.
    MayEnd,
    /// The same, and the row holds another value until then.
    Replaces,
}

impl Ahead {
    /// What an item does whenever it happens now. `None`: something of its own.
    #[must_use]
    pub fn kind(&self, item: &Item) -> Option<Kind> {
        let (end, kind) = match item.ask {
            Ask::Delete => return Some(Kind::Ends),
            Ask::Touch { expires } => (expires.end(item.moments()), Kind::MayEnd),
            Ask::Set { expires: Some(expires), .. } => (expires.end(item.moments()), Kind::Replaces),
            Ask::Get
            | Ask::Set { .. }
            | Ask::SetIf { .. }
            | Ask::Insert { .. }
            | Ask::Incr { .. }
            | Ask::Cas { .. } => {
                return None;
            }
        };
        if end.latest.saturating_add(self.tolerance.late_ms) < self.begun_ms {
            return Some(Kind::Ends);
        }
        (self.may_be_over(end.earliest) && end.latest == u64::MAX).then_some(kind)
    }

    /// Whether all that is to come may find that a time to live is over.
    fn may_be_over(&self, earliest: u64) -> bool {
        earliest <= self.ends_ms.saturating_add(self.tolerance.early_ms)
    }

    /// The same row, as those see it that are to come.
    #[must_use]
    pub fn seen(&self, state: State) -> State {
        let mut state = state;
        if let Some(expires) = state.expires.as_mut().filter(|expires| self.may_be_over(expires.earliest)) {
            expires.earliest = 0;
        }
        state
    }
}

/// The items that may never have happened and were used: of each kind how many, and which ones besides.
#[derive(Clone, Debug, Default)]
pub struct Used {
    ends: usize,
    may_end: usize,
    replaces: usize,
    others: Bits,
}

impl Used {
    #[must_use]
    pub fn of(used: &Bits, optional: &[&Item], ahead: &Ahead) -> Self {
        let mut sum = Self::default();
        for (number, item) in optional.iter().enumerate().filter(|(number, _)| used.has(*number)) {
            match ahead.kind(item) {
                Some(Kind::Ends) => sum.ends += 1,
                Some(Kind::MayEnd) => sum.may_end += 1,
                Some(Kind::Replaces) => sum.replaces += 1,
                None => sum.others.mark(number),
            }
        }
        sum
    }

    /// Whether whoever has used these can do all that whoever has used the others can. What may end a row can stand in for what ends it.
    #[must_use]
    pub fn is_as_good_as(&self, other: &Self) -> bool {
        self.may_end <= other.may_end
            && self.replaces <= other.replaces
            && self.ends <= other.ends + (other.may_end - self.may_end) + (other.replaces - self.replaces)
            && self.others.is_within(&other.others)
    }
}

//! A set of small numbers. Equal sets are equal values, whatever came and went.

/// The last word is never 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits(Vec<u64>);

impl Bits {
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub fn mark(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the other set has everything that this one has.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.len() <= other.0.len() && self.0.iter().zip(&other.0).all(|(own, others)| own & !others == 0)
    }

    /// Takes the unbroken run from 0 on away and counts the rest from its end. Says how long it was.
    pub fn drop_leading(&mut self) -> usize {
        let whole = self.0.iter().take_while(|word| **word == u64::MAX).count();
        self.0.drain(..whole);
        let rest = self.0.first().map_or(0, |word| word.trailing_ones());
        if rest > 0 {
            let mut carry = 0;
            for word in self.0.iter_mut().rev() {
                (*word, carry) = (*word >> rest | carry, *word << (64 - rest));
            }
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
        }
        whole * 64 + rest as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(numbers: impl IntoIterator<Item = usize>) -> Bits {
        let mut bits = Bits::default();
        numbers.into_iter().for_each(|number| bits.mark(number));
        bits
    }

    #[test]
    fn a_leading_run_is_taken_away_and_the_rest_moves_up() {
        for run in [0, 1, 63, 64, 65, 128, 200] {
            let mut set = bits((0..run).chain([run + 3, run + 70]));

            assert_eq!(set.drop_leading(), run);
            assert_eq!(set, bits([3, 70]), "after a run of {run}");
            assert_eq!((set.count(), set.has(3), set.has(4)), (2, true, false));
        }
    }

    #[test]
    fn a_set_is_within_a_larger_one() {
        assert!(bits([1, 70]).is_within(&bits([1, 2, 70])));
        assert!(!bits([1, 71]).is_within(&bits([1, 2, 70])));
        assert!(!bits([70]).is_within(&bits([1])));
        assert!(Bits::default().is_within(&Bits::default()));
    }
}

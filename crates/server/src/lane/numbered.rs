//! Entries that are found by a place and a number. Places are used again, numbers are not: whoever comes late, with the place
//! of an entry that is gone, finds nobody there, and never somebody else.

use slab::Slab;

pub(super) struct Numbered<T> {
    entries: Slab<(u64, T)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { entries: Slab::new() }
    }
}

impl<T> Numbered<T> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where the next entry will be.
    pub fn next_place(&self) -> usize {
        self.entries.vacant_key()
    }

    /// Takes an entry in under a number that no other has or ever had, and gives its place.
    pub fn insert(&mut self, number: u64, entry: T) -> usize {
        self.entries.insert((number, entry))
    }

    #[inline]
    pub fn get_mut(&mut self, place: usize, number: u64) -> Option<&mut T> {
        match self.entries.get_mut(place) {
            Some((found, entry)) if *found == number => Some(entry),
            Some(_) | None => None,
        }
    }

    #[inline]
    pub fn remove(&mut self, place: usize, number: u64) -> Option<T> {
        self.get_mut(place, number)?;
        self.entries.try_remove(place).map(|(_, entry)| entry)
    }

    /// Places and numbers of the entries that `wanted` picks out.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Vec<(usize, u64)> {
        self.entries
            .iter()
            .filter(|(_, (_, entry))| wanted(entry))
            .map(|(place, (number, _))| (place, *number))
            .collect()
    }

    /// Place and number of the entry with most of something.
    pub fn largest_by(&self, amount: impl Fn(&T) -> usize) -> Option<(usize, u64)> {
        let largest = self.entries.iter().max_by_key(|(_, (_, entry))| amount(entry))?;
        Some((largest.0, largest.1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_late_finds_nobody() {
        let mut entries = Numbered::default();
        let place = entries.insert(0, "first");
        assert_eq!(entries.remove(place, 0), Some("first"));

        // More successors than any count of few bits tells apart.
        for number in 1..100_000 {
            assert_eq!(entries.insert(number, "another"), place, "places are used again");
            assert_eq!(entries.get_mut(place, 0), None);
            assert_eq!(entries.remove(place, 0), None);
            assert_eq!(entries.remove(place, number), Some("another"));
        }
    }
}

//! A map from rows, for many of them: found by hash, told in their order.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use shardine_model::{RowKey, RowKeyBuf};

use crate::gather::fingerprint;

#[derive(Debug)]
pub(crate) struct RowMap<T> {
    rows: HashTable<(RowKeyBuf, T)>,
}

impl<T> Default for RowMap<T> {
    fn default() -> Self {
        Self { rows: HashTable::new() }
    }
}

impl<T> RowMap<T> {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn contains(&self, row: &RowKeyBuf) -> bool {
        self.get(row).is_some()
    }

    /// The same for a row that is not owned.
    pub fn contains_row(&self, row: RowKey<'_>) -> bool {
        self.rows.find(fingerprint(row), |(known, _)| known.as_ref() == row).is_some()
    }

    pub fn get(&self, row: &RowKeyBuf) -> Option<&T> {
        self.rows.find(hash(row), |(known, _)| known == row).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, row: &RowKeyBuf) -> Option<&mut T> {
        self.rows.find_mut(hash(row), |(known, _)| known == row).map(|(_, value)| value)
    }

    /// Puts a value in the place of the one before, which is given back.
    pub fn insert(&mut self, row: RowKeyBuf, value: T) -> Option<T> {
        match self.rows.entry(hash(&row), |(known, _)| *known == row, |(known, _)| hash(known)) {
            Entry::Occupied(mut held) => Some(std::mem::replace(&mut held.get_mut().1, value)),
            Entry::Vacant(place) => {
                place.insert((row, value));
                None
            }
        }
    }

    /// The value of a row, which is made if there is none.
    pub fn get_or_default(&mut self, row: &RowKeyBuf) -> &mut T
    where
        T: Default,
    {
        let entry = self.rows.entry(hash(row), |(known, _)| known == row, |(known, _)| hash(known));
        &mut entry.or_insert_with(|| (row.clone(), T::default())).into_mut().1
    }

    pub fn remove(&mut self, row: &RowKeyBuf) -> Option<T> {
        self.remove_if(row, |_| true)
    }

    /// Removes a row of whose value something holds.
    pub fn remove_if(&mut self, row: &RowKeyBuf, holds: impl FnOnce(&T) -> bool) -> Option<T> {
        let held = self.rows.find_entry(hash(row), |(known, _)| known == row).ok()?;
        holds(&held.get().1).then(|| held.remove().0.1)
    }

    /// The least of a number that every value has.
    #[allow(clippy::disallowed_methods, reason = "the least is the same in any order")]
    pub fn least(&self, number: impl Fn(&T) -> u64) -> Option<u64> {
        self.rows.iter().map(|(_, value)| number(value)).min()
    }

    /// Keeps the rows of which `keep` says so; asks for them in no order.
    pub fn retain(&mut self, mut keep: impl FnMut(&RowKeyBuf, &T) -> bool) {
        self.rows.retain(|(row, value)| keep(row, value));
    }

    /// All rows, in their order.
    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees them")]
    pub fn sorted_rows(&self) -> Vec<&RowKeyBuf> {
        let mut rows: Vec<&RowKeyBuf> = self.rows.iter().map(|(row, _)| row).collect();
        rows.sort_unstable();
        rows
    }

    /// Takes all values out, in the order of their rows.
    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees them")]
    pub fn drain_sorted(&mut self) -> impl Iterator<Item = T> + use<T> {
        let mut rows: Vec<(RowKeyBuf, T)> = self.rows.drain().collect();
        rows.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        rows.into_iter().map(|(_, value)| value)
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

impl<T> FromIterator<(RowKeyBuf, T)> for RowMap<T> {
    fn from_iter<I: IntoIterator<Item = (RowKeyBuf, T)>>(rows: I) -> Self {
        let rows = rows.into_iter();
        let mut map = Self { rows: HashTable::with_capacity(rows.size_hint().0) };
        rows.for_each(|(row, value)| drop(map.insert(row, value)));
        map
    }
}

fn hash(row: &RowKeyBuf) -> u64 {
    fingerprint(row.as_ref())
}

#[cfg(test)]
mod tests {
    use shardine_model::TableId;

    use super::*;

    fn row(key: &str, sort: &str) -> RowKeyBuf {
        RowKeyBuf { table: TableId(1), key: key.as_bytes().into(), sort: sort.as_bytes().into() }
    }

    #[test]
    fn a_row_has_one_value_and_rows_are_told_in_order() {
        let mut map: RowMap<u32> = [(row("b", ""), 1), (row("a", "2"), 2), (row("a", "1"), 3)].into_iter().collect();

        assert_eq!(map.insert(row("b", ""), 4), Some(1));
        assert_eq!((map.len(), map.get(&row("b", ""))), (3, Some(&4)));
        assert_eq!(map.sorted_rows(), [&row("a", "1"), &row("a", "2"), &row("b", "")]);

        assert_eq!(map.least(|value| u64::from(*value)), Some(2));
        assert_eq!(map.remove_if(&row("b", ""), |value| *value == 1), None);

        map.retain(|_, value| *value > 2);
        assert_eq!(map.remove(&row("a", "2")), None);
        assert_eq!(map.remove(&row("a", "1")), Some(3));
        assert_eq!(map.sorted_rows(), [&row("b", "")]);
    }
}

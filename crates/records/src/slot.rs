//! What a slot of the index is made of, taken apart and put together: rows in and out, and slots parted at a bound.

use std::cmp::Ordering;

use shardine_model::{Bound, Position, RowKey};

use crate::record::{Big, Partition, Slot, Versions, Wide, view};

/// What a row becomes, or was.
#[derive(Debug)]
pub(crate) enum Content {
    Packed(Box<[u8]>),
    Wide(Wide),
}

impl Content {
    /// Versions, and bytes as the shard counts them.
    pub fn measure(&self, sort_bytes: usize) -> (Versions, usize) {
        match self {
            Self::Packed(bytes) => (Versions::of(&view(bytes)), sort_bytes + bytes.len()),
            Self::Wide(wide) => (wide.versions, wide.bytes),
        }
    }

    /// The slot of a row without a sort key.
    pub fn into_slot(self) -> Slot {
        match self {
            Self::Packed(bytes) => Slot::Packed(bytes),
            Self::Wide(wide) => Slot::Big(Box::new(Big::Wide(wide))),
        }
    }
}

impl Slot {
    /// The row of a slot that is not a partition.
    pub fn into_content(self) -> Content {
        match self {
            Self::Packed(bytes) => Content::Packed(bytes),
            Self::Big(big) => match *big {
                Big::Wide(wide) => Content::Wide(wide),
                Big::Partition(_) => unreachable!("only called on the slot of one row"),
            },
        }
    }

    /// The address of its row, or of the partition: whichever of its rows is meant, it is found by this.
    #[inline]
    pub fn filed_under(&self) -> RowKey<'_> {
        let (table, key) = self.address();
        RowKey { table, key, sort: b"" }
    }

    /// The bytes of a packed row.
    pub fn packed(&self, sort: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Packed(bytes) => sort.is_empty().then_some(bytes),
            Self::Big(_) => self.partition()?.rows.get(sort).map(|bytes| &**bytes),
        }
    }

    /// The same, to be written over by as many.
    #[inline]
    pub fn packed_mut(&mut self, sort: &[u8]) -> Option<&mut [u8]> {
        match self {
            Self::Packed(bytes) => sort.is_empty().then_some(bytes),
            Self::Big(_) => self.partition_mut()?.rows.get_mut(sort).map(|bytes| &mut **bytes),
        }
    }

    pub fn wide(&self) -> Option<&Wide> {
        match self {
            Self::Packed(_) => None,
            Self::Big(big) => match &**big {
                Big::Wide(wide) => Some(wide),
                Big::Partition(_) => None,
            },
        }
    }

    #[inline]
    pub fn position(&self) -> Position {
        Position::of_key(self.address().1)
    }

    /// The place before all its rows.
    fn start(&self) -> Bound {
        let (table, key) = self.address();
        Bound { position: self.position(), key: key.into(), table, sort: Box::default() }
    }

    pub fn partition(&self) -> Option<&Partition> {
        match self {
            Self::Packed(_) => None,
            Self::Big(big) => match &**big {
                Big::Wide(_) => None,
                Big::Partition(partition) => Some(partition),
            },
        }
    }

    pub fn partition_mut(&mut self) -> Option<&mut Partition> {
        match self {
            Self::Packed(_) => None,
            Self::Big(big) => match &mut **big {
                Big::Wide(_) => None,
                Big::Partition(partition) => Some(partition),
            },
        }
    }

    /// Versions and bytes of every row.
    pub fn each_measure(&self, mut each: impl FnMut(Versions, usize)) {
        match self {
            Self::Packed(bytes) => each(Versions::of(&view(bytes)), bytes.len()),
            Self::Big(big) => match &**big {
                Big::Wide(wide) => each(wide.versions, wide.bytes),
                Big::Partition(partition) => {
                    let rows = partition.rows.iter();
                    rows.for_each(|(sort, bytes)| each(Versions::of(&view(bytes)), sort.len() + bytes.len()));
                }
            },
        }
    }

    /// What a slot weighs when its segment is parted.
    pub fn weigh(&self, by: Weight) -> usize {
        match (self, self.partition()) {
            (_, Some(partition)) => partition.rows.iter().map(|(sort, bytes)| by.of_row(sort, bytes)).sum(),
            (Self::Packed(bytes), None) => by.of_row(&[], bytes),
            (Self::Big(_), None) => self.measure(b"").map_or(0, |(_, bytes)| by.of(bytes)),
        }
    }

    /// The place that parts its weight in two, if it has more than one row.
    fn middle(&self, by: Weight) -> Option<Bound> {
        let partition = self.partition()?;
        let half = self.weigh(by) / 2;
        let mut below = 0;
        let behind_first = partition.rows.iter().skip_while(|row| {
            below += by.of_row(row.0, row.1);
            below <= half
        });
        let middle = behind_first.map(|(sort, _)| sort).find(|sort| Some(*sort) != partition.rows.keys().next());
        let sort = middle.or_else(|| partition.rows.keys().nth(1))?;
        Some(Bound { sort: sort.clone(), ..self.start() })
    }

    /// The rows before a bound, and those at and behind it.
    pub fn split_at(mut self, at: &Bound) -> (Option<Self>, Option<Self>) {
        let (table, key) = self.address();
        let place = (self.position(), key, table).cmp(&(at.position, &at.key, at.table));
        match (place, self.partition_mut()) {
            (Ordering::Less, _) => (Some(self), None),
            (Ordering::Greater, _) => (None, Some(self)),
            (Ordering::Equal, Some(partition)) => {
                let rows = partition.rows.split_off(&at.sort);
                let behind = Partition { table: partition.table, key: partition.key.clone(), rows };
                let has_before = !partition.rows.is_empty();
                let has_behind = !behind.rows.is_empty();
                let behind = Self::Big(Box::new(Big::Partition(behind)));
                (has_before.then_some(self), has_behind.then_some(behind))
            }
            // A row without a sort key stands before every bound that has one.
            (Ordering::Equal, None) if at.sort.is_empty() => (None, Some(self)),
            (Ordering::Equal, None) => (Some(self), None),
        }
    }
}

/// By what the middle of a segment is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Rows,
    Bytes,
}

impl Weight {
    fn of(self, bytes: usize) -> usize {
        match self {
            Self::Rows => 1,
            Self::Bytes => bytes,
        }
    }

    fn of_row(self, sort: &[u8], bytes: &[u8]) -> usize {
        self.of(sort.len() + bytes.len())
    }
}

/// The place that parts slots of one segment, so that both parts have rows and about the same weight: between two positions,
/// or inside one if all rows share it. `None` if there is but one row.
pub(crate) fn middle<'a>(slots: impl Iterator<Item = &'a Slot>, by: Weight) -> Option<Bound> {
    let mut slots: Vec<(Position, &Slot)> = slots.map(|slot| (slot.position(), slot)).collect();
    slots.sort_unstable_by(|(position, slot), (other_position, other)| {
        let by_address = || {
            let ((table, key), (other_table, other_key)) = (slot.address(), other.address());
            (key, table).cmp(&(other_key, other_table))
        };
        position.cmp(other_position).then_with(by_address)
    });
    let (lowest, _) = *slots.first()?;
    let half = slots.iter().map(|(_, slot)| slot.weigh(by)).sum::<usize>() / 2;
    let mut below = 0;
    let heavy = slots.iter().position(|(_, slot)| {
        below += slot.weigh(by);
        below > half
    });
    let heavy = heavy.expect("half is less than the whole");
    if let Some((position, _)) = slots[heavy..].iter().find(|(position, _)| *position > lowest) {
        return Some(Bound::at(*position));
    }
    slots[heavy].1.middle(by).or_else(|| slots.get(heavy.max(1)).map(|(_, slot)| slot.start()))
}

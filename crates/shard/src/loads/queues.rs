//! Who waits for rows that are not in memory. A request stands in one queue for all of its rows, and goes on when all are there
//! and nobody is ahead.

use std::collections::BTreeMap;

use shardine_model::command::{BatchItem, Body};
use shardine_model::{AckAfter, RequestEpoch, RowKey, RowKeyBuf, limits};

use super::decode;
use crate::actions::Caller;
use crate::hold::Wish;
use crate::row_map::RowMap;

#[derive(Debug)]
pub(super) struct Parked {
    pub caller: Caller,
    pub what: ParkedWork,
}

#[derive(Debug)]
pub(super) enum ParkedWork {
    Read(RowKeyBuf),
    /// An encoded request, what it was routed and read by, and when it wants to be answered.
    Request(Box<[u8]>, RequestEpoch, Wish),
}

impl ParkedWork {
    /// The request, unless it is a read, which is asked again by whoever wants to, or its answer waits for SQL.
    pub fn for_others(self) -> Option<Vec<u8>> {
        match self {
            Self::Request(bytes, _, wish) => (wish.after != AckAfter::Sql).then(|| bytes.into()),
            Self::Read(_) => None,
        }
    }

    /// Whether the rows that it waits for stay as they are.
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Read(_) => true,
            Self::Request(bytes, ..) => match decode(bytes).body {
                Body::Read(_) => true,
                Body::One(_) => false,
                Body::Batch(batch) => batch.commands.iter().all(|item| matches!(item, BatchItem::Read(_))),
            },
        }
    }
}

impl Parked {
    fn rows(&self) -> Vec<RowKeyBuf> {
        match &self.what {
            ParkedWork::Read(row) => vec![row.clone()],
            ParkedWork::Request(bytes, ..) => decode(bytes).rows().map(RowKey::to_owned).collect(),
        }
    }
}

/// Queues by the row that each is named for. Invariants: a row names a queue, or is held by one, or neither, never both; a row
/// that is awaited is one of a queue's.
#[derive(Debug, Default)]
pub(super) struct Queues {
    waiting: RowMap<Vec<Parked>>,
    /// Other rows that requests in a queue will touch, and whose queue that is. They stay in memory as long as it does.
    held: BTreeMap<RowKeyBuf, RowKeyBuf>,
    /// Rows that SQL is asked for, until they are in memory.
    awaited: RowMap<()>,
}

impl Queues {
    #[inline]
    pub fn holds(&self, row: RowKey<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let row = row.to_owned();
        self.waiting.contains(&row) || self.held.contains_key(&row)
    }

    pub fn are_full(&self) -> bool {
        self.waiting.len().max(self.awaited.len()) >= limits::LOADS_MAX
    }

    pub fn queue_of(&self, row: &RowKeyBuf) -> Option<RowKeyBuf> {
        if self.waiting.contains(row) { Some(row.clone()) } else { self.held.get(row).cloned() }
    }

    /// How many stand in the queue that a request of these rows would join.
    pub fn ahead_of(&self, rows: &[RowKeyBuf]) -> usize {
        let queue = rows.iter().find_map(|row| self.queue_of(row));
        queue.and_then(|queue| self.waiting.get(&queue)).map_or(0, Vec::len)
    }

    /// What the first of a queue needs; nothing if nobody stands in it.
    pub fn first_rows(&self, queue: &RowKeyBuf) -> Vec<RowKeyBuf> {
        self.waiting.get(queue).and_then(|parked| parked.first()).map(Parked::rows).unwrap_or_default()
    }

    /// Whether SQL is asked for anything.
    pub fn await_any(&self) -> bool {
        !self.awaited.is_empty()
    }

    pub fn awaits(&self, row: &RowKeyBuf) -> bool {
        self.awaited.contains(row)
    }

    pub fn await_row(&mut self, row: RowKeyBuf) {
        self.awaited.insert(row, ());
    }

    pub fn has_come(&mut self, row: &RowKeyBuf) {
        self.awaited.remove(row);
    }

    /// Lets a request wait, in the queue that its rows stand in, made one if they are several, or in that of `needed`.
    pub fn add(&mut self, needed: &RowKeyBuf, rows: &[RowKeyBuf], parked: Parked) -> RowKeyBuf {
        let queue = rows.iter().find_map(|row| self.queue_of(row)).unwrap_or_else(|| needed.clone());
        for row in rows {
            match self.queue_of(row) {
                Some(other) if other != queue => self.append(&other, &queue),
                Some(_) => {}
                None if *row == queue => {}
                None => {
                    self.held.insert(row.clone(), queue.clone());
                }
            }
        }
        self.waiting.get_or_default(&queue).push(parked);
        queue
    }

    fn append(&mut self, from: &RowKeyBuf, to: &RowKeyBuf) {
        let parked = self.waiting.remove(from).unwrap_or_default();
        self.waiting.get_or_default(to).extend(parked);
        self.held.values_mut().filter(|queue| *queue == from).for_each(|queue| queue.clone_from(to));
        self.held.insert(from.clone(), to.clone());
    }

    /// The row does not come: whoever needs it stops waiting, and the others stay.
    pub fn give_up_row(&mut self, queue: &RowKeyBuf, row: &RowKeyBuf) -> Vec<Caller> {
        self.awaited.remove(row);
        let Some(parked) = self.waiting.get_mut(queue) else { return Vec::new() };
        parked.extract_if(.., |parked| parked.rows().contains(row)).map(|parked| parked.caller).collect()
    }

    /// Ends a queue: who stood in it, and which of its rows are still awaited.
    pub fn take(&mut self, queue: &RowKeyBuf) -> (Vec<Parked>, Vec<RowKeyBuf>) {
        let held = self.held.extract_if(.., |_, holder| holder == queue).map(|(row, _)| row);
        let rows: Vec<RowKeyBuf> = held.chain([queue.clone()]).collect();
        let awaited = rows.into_iter().filter(|row| self.awaits(row)).collect();
        (self.waiting.remove(queue).unwrap_or_default(), awaited)
    }

    pub fn give_up(&mut self) -> Vec<Parked> {
        self.held.clear();
        self.awaited.clear();
        self.waiting.drain_sorted().flatten().collect()
    }
}

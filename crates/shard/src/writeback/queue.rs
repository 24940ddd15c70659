//! One table's way to SQL: which of its rows to look at, in which order, and what of them is under way.

use std::collections::BTreeMap;

use shardine_model::{RowKey, RowKeyBuf, Version};

use super::trouble::Pause;
use crate::actions::Trouble;
use crate::row_map::RowMap;

/// Rows of one table to look at. Invariant: a row has at most one mark (write-back 88), and stands in the list that its
/// mark names. A row under way may be marked again: it changed since.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    marks: RowMap<Mark>,
    /// Rows that may wait for more changes of theirs, the one that has waited longest first.
    patient: BTreeMap<Order, RowKeyBuf>,
    /// Rows that somebody waits for.
    urgent: BTreeMap<Order, RowKeyBuf>,
    /// Rows that are not to be tried before a time.
    put_off: BTreeMap<Order, RowKeyBuf>,
    next_number: u64,
    /// Patient ones that became dirty by then are due all the same: somebody has asked for the whole table.
    called_until_ms: Option<u64>,
    under_way: RowMap<Sent>,
    pub pause: Pause,
    pub written: u64,
    /// Rows that SQL held in a version of somebody else's.
    pub conflicts: u64,
    /// Refusals that found the list of dead letters full.
    pub unlisted: u64,
    pub last_trouble: Option<Trouble>,
}

/// A time, and a number that parts rows of the same time.
type Order = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Patient,
    Urgent,
    PutOff { until_ms: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub place: Urgency,
    /// When the row became dirty, as far as this leader knows.
    pub since_ms: u64,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub version: Version,
    pub place: Urgency,
    pub since_ms: u64,
}

impl Mark {
    fn order(&self) -> Order {
        match self.place {
            Urgency::Patient | Urgency::Urgent => (self.since_ms, self.number),
            Urgency::PutOff { until_ms } => (until_ms, self.number),
        }
    }
}

impl Queue {
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Marks a row that has changed.
    pub fn mark(&mut self, row: RowKey<'_>, now_ms: u64) {
        if !self.marks.contains_row(row) {
            self.put(row.to_owned(), Urgency::Patient, now_ms);
        }
    }

    /// Marks a row that somebody waits for.
    pub fn hurry(&mut self, row: RowKeyBuf, now_ms: u64) {
        self.file(row, Urgency::Urgent, now_ms);
    }

    /// Everything that is dirty now is due. Rows that are marked as changed need not be touched for that.
    pub fn call(&mut self, now_ms: u64) {
        self.called_until_ms = Some(now_ms);
    }

    /// Whether a call is enough for the row.
    pub fn heeds_calls(&self, row: &RowKeyBuf) -> bool {
        self.marks.get(row).is_some_and(|mark| mark.place == Urgency::Patient)
    }

    /// If this version is under way already, sees to it that it is urgent should it have to go again.
    pub fn hurry_sent(&mut self, row: &RowKeyBuf, version: Version) -> bool {
        let sent = self.under_way.get_mut(row).filter(|sent| sent.version == version);
        sent.map(|sent| sent.place = Urgency::Urgent).is_some()
    }

    /// Gives a row a place. One that has a mark already keeps the older of both times, and urgency once it is urgent.
    pub fn file(&mut self, row: RowKeyBuf, place: Urgency, since_ms: u64) {
        let known = self.unmark(&row);
        let place = if known.is_some_and(|mark| mark.place == Urgency::Urgent) { Urgency::Urgent } else { place };
        let since_ms = known.map_or(since_ms, |mark| mark.since_ms.min(since_ms));
        self.put(row, place, since_ms);
    }

    /// Gives a row its place that has no mark.
    fn put(&mut self, row: RowKeyBuf, place: Urgency, since_ms: u64) {
        self.next_number += 1;
        let mark = Mark { place, since_ms, number: self.next_number };
        self.list(place).insert(mark.order(), row.clone());
        self.marks.insert(row, mark);
    }

    pub fn unmark(&mut self, row: &RowKeyBuf) -> Option<Mark> {
        let mark = self.marks.remove(row)?;
        self.list(mark.place).remove(&mark.order());
        Some(mark)
    }

    fn list(&mut self, place: Urgency) -> &mut BTreeMap<Order, RowKeyBuf> {
        match place {
            Urgency::Patient => &mut self.patient,
            Urgency::Urgent => &mut self.urgent,
            Urgency::PutOff { .. } => &mut self.put_off,
        }
    }

    /// Takes out the next row whose time has come, with its mark.
    pub fn pop_due(&mut self, now_ms: u64, due_until_ms: Option<u64>) -> Option<(RowKeyBuf, Mark)> {
        let mark = *self.marks.get(self.next_due(now_ms, due_until_ms)?).expect("a row in a list has a mark");
        let row = self.list(mark.place).remove(&mark.order()).expect("it stands in the list that its mark names");
        self.marks.remove(&row);
        Some((row, mark))
    }

    /// The next row whose time has come. Patient ones are due that became dirty by `due_until_ms`; `None` means that they
    /// wait until they are called.
    pub fn next_due(&self, now_ms: u64, due_until_ms: Option<u64>) -> Option<&RowKeyBuf> {
        let urgent = || self.urgent.values().next();
        let put_off = || first_until(&self.put_off, now_ms);
        let patient = || first_until(&self.patient, due_until_ms.max(self.called_until_ms)?);
        urgent().or_else(put_off).or_else(patient)
    }

    /// Whether somebody waits for a row with this mark.
    pub fn is_awaited(&self, mark: &Mark) -> bool {
        match mark.place {
            Urgency::Urgent => true,
            Urgency::Patient => Some(mark.since_ms) <= self.called_until_ms,
            Urgency::PutOff { .. } => false,
        }
    }

    /// When the youngest of the due rows became dirty; those that were put off do not count.
    pub fn last_due_ms(&self, due_until_ms: Option<u64>) -> Option<u64> {
        let urgent = self.urgent.keys().next_back();
        let due_until_ms = due_until_ms.max(self.called_until_ms);
        let patient = due_until_ms.and_then(|until| self.patient.range(..=(until, u64::MAX)).next_back());
        urgent.into_iter().chain(patient.map(|(order, _)| order)).map(|(since, _)| *since).max()
    }

    pub fn send(&mut self, row: RowKeyBuf, sent: Sent) {
        let before = self.under_way.insert(row, sent);
        debug_assert!(before.is_none(), "a row is never written twice at once (write-back 91)");
    }

    /// SQL has answered for the row, or will not.
    pub fn returned(&mut self, row: &RowKeyBuf) -> Option<Sent> {
        self.under_way.remove(row)
    }

    /// When the row became dirty, if it has a mark.
    pub fn since_ms(&self, row: &RowKeyBuf) -> Option<u64> {
        self.marks.get(row).map(|mark| mark.since_ms)
    }

    /// When the oldest of the rows became dirty that are on their way to SQL or will be soon: not those put off.
    pub fn first_to_come_ms(&self) -> Option<u64> {
        let marked = [&self.patient, &self.urgent].into_iter().filter_map(|list| list.keys().next().map(|(at, _)| *at));
        marked.chain(self.under_way.least(|sent| sent.since_ms)).min()
    }

    /// When the row that has waited longest became dirty.
    pub fn oldest_since_ms(&self) -> Option<u64> {
        let put_off = self.put_off.values().filter_map(|row| self.since_ms(row));
        put_off.chain(self.first_to_come_ms()).min()
    }
}

fn first_until(list: &BTreeMap<Order, RowKeyBuf>, until_ms: u64) -> Option<&RowKeyBuf> {
    list.iter().next().filter(|((time, _), _)| *time <= until_ms).map(|(_, row)| row)
}

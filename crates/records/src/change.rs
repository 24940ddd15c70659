//! The ways in which rows change, and what is counted follows them there.

use shardine_model::{FieldsView, Position, RowKey, TableId, Timestamp};

use crate::derived::Change;
use crate::index::SlotHandle;
use crate::record::{Big, Slot, Versions, Wide, open_packed};
use crate::slot::Content;
use crate::state::Records;

impl Records {
    /// Puts or removes one row and keeps everything derived true. The only way records change, beside `overwrite` and
    /// `change_wide`.
    pub(crate) fn put_row(&mut self, position: Position, row: RowKey<'_>, content: Option<Content>) {
        let before = self.measure(position, row);
        self.exchange_row(position, row, before, content);
    }

    /// The same for a caller that has already looked at the row as it is.
    #[inline]
    pub(crate) fn exchange_row(
        &mut self,
        position: Position,
        row: RowKey<'_>,
        before: Option<(Versions, usize)>,
        content: Option<Content>,
    ) {
        let segment = self.index.segment_of(position, row);
        self.save_before_change(segment);
        let after = content.as_ref().map(|content| content.measure(row.sort.len()));
        self.count(segment, row, before, after);
        let hasher = self.index.hasher();
        let old = self.index.segment_mut(segment).exchange(hasher, row, content);
        if self.cut.is_some() {
            self.keep_for_cut(row, old);
        }
        self.balance(segment, before.is_some() && after.is_none());
    }

    /// Writes a packed row over the one that lies at a place, if it is as long: most changes leave a record as long as it was,
    /// and then need no memory, and nothing is filed anew. A running cut wants the old one, and gets it elsewhere.
    #[inline]
    pub(crate) fn overwrite(
        &mut self,
        place: SlotHandle,
        row: RowKey<'_>,
        before: (Versions, usize),
        versions: Versions,
        bytes: &[u8],
    ) -> bool {
        if self.cut.is_some() {
            return false;
        }
        let slot = self.index.at_mut(place).and_then(|slot| slot.packed_mut(row.sort));
        let Some(known) = slot.filter(|known| known.len() == bytes.len()) else { return false };
        known.copy_from_slice(bytes);
        self.count(place.segment, row, Some(before), Some((versions, before.1)));
        true
    }

    /// Gives a row other numbers, and leaves its fields as they are.
    pub(crate) fn renumber(
        &mut self,
        place: SlotHandle,
        position: Position,
        row: RowKey<'_>,
        before: (Versions, usize),
        versions: Versions,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let view = self.index.at(place).and_then(|slot| slot.row(row.sort));
        let is_done = match view.map(|view| view.fields) {
            Some(FieldsView::Packed(fields)) => {
                open_packed(&mut scratch, row, &versions);
                scratch.extend_from_slice(fields);
                self.overwrite(place, row, before, versions, &scratch)
            }
            Some(FieldsView::Wide(_)) | None => false,
        };
        self.scratch = scratch;
        if !is_done {
            let content = self.rewritten(position, row, &versions);
            self.exchange_row(position, row, Some(before), content);
        }
    }

    /// Changes a tree record in place, if `change` agrees, and keeps everything derived true. `names` are the fields that may
    /// change.
    pub(crate) fn change_wide<'a>(
        &mut self,
        position: Position,
        row: RowKey<'_>,
        names: impl Iterator<Item = &'a [u8]>,
        change: impl FnOnce(&mut Wide) -> bool,
    ) -> bool {
        let segment = self.index.segment_of(position, row);
        self.save_before_change(segment);
        self.keep_fields_for_cut(segment, row, names);
        let before = self.measure(position, row);
        let changed = match self.index.find_mut(segment, row) {
            Some(Slot::Big(big)) => match &mut **big {
                Big::Wide(wide) => change(wide),
                Big::Partition(_) => unreachable!("only called on a tree record"),
            },
            _ => unreachable!("only called on a tree record"),
        };
        let after = self.measure(position, row);
        self.count(segment, row, before, after);
        self.balance(segment, false);
        changed
    }

    fn measure(&self, position: Position, row: RowKey<'_>) -> Option<(Versions, usize)> {
        self.index.find(position, row)?.measure(row.sort)
    }

    /// Follows a change of one row in the counts of its segment and of the shard.
    #[inline]
    fn count(
        &mut self,
        segment: usize,
        row: RowKey<'_>,
        before: Option<(Versions, usize)>,
        after: Option<(Versions, usize)>,
    ) {
        let is_sql = self.sql_tables > 0 && self.is_sql(row.table);
        let change = Change { row, before, after, is_sql, now: self.clock };
        let segment = self.index.segment_mut(segment);
        let (counted, counts) = segment.count(&change);
        self.totals.follow(&change, counted, counts);
        if change.is_marked() || self.totals.marks.letters > 0 {
            let marked = segment.derived.marks();
            segment.derived.follow(&change);
            self.totals.marks.exchange(marked, segment.derived.marks());
        }
    }

    /// Keeps segments neither too large nor, once they lose rows, too small. A running cut has its own idea of which segments
    /// there are, so nothing is joined meanwhile.
    #[inline]
    fn balance(&mut self, segment: usize, has_lost: bool) {
        if self.index.segment(segment).is_full() {
            let catalogue = &self.catalogue;
            self.index.split(segment, |table| crate::state::has_sql(catalogue, table));
        } else if has_lost && self.cut.is_none() {
            self.index.join(segment);
        }
    }

    /// Joins a pair of small neighbours, if the next ones are such: rows may have gone while a cut forbade it.
    pub(crate) fn join_some(&mut self) {
        self.join_hand = if self.join_hand + 1 < self.index.segment_count() { self.join_hand + 1 } else { 0 };
        self.index.join(self.join_hand);
    }

    /// Looks when the next record expires, once some have.
    pub(crate) fn look_for_expiries(&mut self) {
        self.totals.no_expiry_before = self.next_expiry().unwrap_or(Timestamp(u64::MAX));
    }

    /// Lets go of marks around a row whose tombstone is gone, or has lived again. A replica made from a snapshot has them in
    /// another order than its leader, so one that is gone may stand behind one that is not; its turn comes.
    pub(crate) fn forget_purged(&mut self, row: RowKey<'_>) {
        let segment = self.index.segment_of(row.position(), row);
        while let Some(oldest) = self.index.segment(segment).derived.tombstones.front()
            && !self.is_at(oldest.row.as_ref(), oldest.version)
        {
            self.index.segment_mut(segment).derived.tombstones.pop_front();
            self.totals.marks.tombstones -= 1;
        }
        self.index.segment_mut(segment).derived.shrink();
    }

    /// Lets go of all marks of a table.
    pub(crate) fn forget_tombstones(&mut self, table: TableId) {
        for segment in 0..self.index.segment_count() {
            let derived = &mut self.index.segment_mut(segment).derived;
            let marked = derived.marks();
            derived.tombstones.retain(|tombstone| tombstone.row.table != table);
            derived.shrink();
            self.totals.marks.exchange(marked, derived.marks());
        }
    }
}

//! Writes a record's next version: its old fields with a plan's changes, packed, or as a tree where they are many.

use shardine_model::command::{Command, Give};
use shardine_model::{
    Backing, ChangedFields, ErrorCode, FieldRef, FieldValue, FieldsView, Outcome, Position, Reply, RowImage, RowKey,
    RowView, Table, ValueRef, limits,
};

use crate::apply::Sink;
use crate::evaluate::{Changes, NewValue, value_of};
use crate::index::SlotHandle;
use crate::merge::{Merged, merge_packed, merge_wide, needs_wide, widen};
use crate::record::{Big, Slot, Versions, Wide, open_packed};
use crate::slot::Content;
use crate::state::Records;

/// A change of one record that was found to be right, and what it is made of.
pub(crate) struct Put<'c, 'a> {
    pub table: &'c Table,
    pub position: Position,
    /// Where the record lies.
    pub place: Option<SlotHandle>,
    pub before: Versions,
    pub command: &'c Command<'a>,
    /// Starts from an empty record instead of what is there.
    pub clear: bool,
    pub changes: &'c Changes<'a>,
}

/// A record's next content.
enum Made<'s> {
    /// No field is left, and a dynamic record is nothing but fields.
    Nothing,
    Packed(&'s [u8]),
    Content(Content),
}

/// What is known of the next version beside its content.
struct Next {
    versions: Versions,
    merged: Merged,
    filled: u32,
    /// The record as it was, if somebody asked for it.
    old: Option<RowImage>,
    /// The record as it was, in numbers.
    measured: Option<(Versions, usize)>,
}

impl Put<'_, '_> {
    fn row(&self) -> RowKey<'_> {
        self.command.row
    }

    #[inline]
    pub fn run(&self, records: &mut Records, sink: &mut impl Sink) -> Reply {
        let versions = self.versions(records);
        let slot = self.place.and_then(|place| records.index.at(place));
        let measured = slot.and_then(|slot| slot.measure(self.row().sort));
        let current = slot.and_then(|slot| slot.row(self.row().sort)).filter(|view| view.version.is_live());
        let old = give_old(self.command.give, current.as_ref());
        let fields = current.filter(|_| !self.clear).map_or(FieldsView::EMPTY, |view| view.fields);
        let packed = match fields {
            FieldsView::Packed(packed) => packed,
            FieldsView::Wide(_) => return self.run_wide(records, versions, old, sink),
        };

        let mut scratch = std::mem::take(&mut records.scratch);
        scratch.clear();
        let (made, merged) = if self.table.dynamic && needs_wide(&fields, self.changes) {
            let (content, merged) = make_wide(self.row(), versions, &fields, self.changes, &mut scratch);
            (content.map_or(Made::Nothing, Made::Content), merged)
        } else {
            open_packed(&mut scratch, self.row(), &versions);
            let head = scratch.len();
            let merged = merge_packed(packed, self.changes, &mut scratch);
            let is_empty = self.table.dynamic && scratch.len() == head;
            (if is_empty { Made::Nothing } else { Made::Packed(&scratch) }, merged)
        };
        let reply = if self.touches_nothing(merged, versions) {
            self.unchanged(records, old)
        } else {
            let filled = if self.table.dynamic { 0 } else { self.filled(fields) };
            self.file(records, made, Next { versions, merged, filled, old, measured }, sink)
        };
        records.scratch = scratch;
        reply
    }

    /// Fields that were NULL and are not any longer: as if they had not been there.
    fn filled(&self, fields: FieldsView<'_>) -> u32 {
        let is_filled = |field: FieldRef<'_>, new: &NewValue<'_>| {
            let FieldRef::Id(id) = field else { return false };
            let Some(field) = self.table.field_by_id(id).filter(|field| field.nullable) else { return false };
            let before = fields.get(FieldRef::Id(id)).unwrap_or(field.default.as_ref());
            before == ValueRef::Null && new.as_value().is_some_and(|value| value != ValueRef::Null)
        };
        let is_last =
            |place: usize, field: FieldRef<'_>| self.changes[place + 1..].iter().all(|(later, _)| *later != field);
        let filled = self
            .changes
            .iter()
            .enumerate()
            .filter(|(place, (field, new))| is_filled(*field, new) && is_last(*place, *field));
        u32::try_from(filled.count()).unwrap_or(u32::MAX)
    }

    /// Lets what was made take the place of what is there.
    #[inline]
    fn file(&self, records: &mut Records, made: Made<'_>, next: Next, sink: &mut impl Sink) -> Reply {
        let Next { versions, merged, filled, old, measured } = next;
        let (bytes, content) = match made {
            Made::Nothing => return self.empty(records, merged, old, sink),
            Made::Packed(bytes) => (bytes, None),
            Made::Content(content) => (&[][..], Some(content)),
        };
        if content.as_ref().map_or(bytes.len(), |content| content.measure(0).1) > limits::RECORD_BYTES_MAX {
            return self.too_large();
        }
        let is_done = match (self.place, measured, &content) {
            (Some(place), Some(measured), None) => records.overwrite(place, self.row(), measured, versions, bytes),
            _ => false,
        };
        if !is_done {
            let content = content.unwrap_or_else(|| Content::Packed(bytes.into()));
            records.exchange_row(self.position, self.row(), measured, Some(content));
        }
        if self.table.backing == Backing::Sql {
            sink.dirty(self.row());
        }
        let created = if self.table.dynamic || !self.before.version.is_live() { merged.created } else { filled };
        self.done(records, versions, Merged { created, ..merged }, old)
    }

    /// The same for a record that is a tree, changed in place. Tables with SQL behind them are not dynamic, and have none.
    fn run_wide(
        &self,
        records: &mut Records,
        versions: Versions,
        old: Option<RowImage>,
        sink: &mut impl Sink,
    ) -> Reply {
        let found = records.index.find(self.position, self.row()).and_then(|slot| slot.row(self.row().sort));
        let Some(RowView { fields: FieldsView::Wide(fields), .. }) = found else {
            unreachable!("the caller saw a wide record");
        };
        let removes_nothing = self.changes.iter().all(|(field, new)| match field {
            FieldRef::Name(name) => new.as_value().is_none() && !fields.contains_key(*name),
            FieldRef::Id(_) => false,
        });
        if removes_nothing && versions.expires_at == self.before.expires_at {
            return self.unchanged(records, old);
        }
        let mut merged = Merged::default();
        let too_many = fields.len() + self.changes.len() > limits::DYNAMIC_FIELDS_MAX;
        let added: usize = self.changes.iter().filter_map(|(_, new)| new.as_value()).map(ValueRef::size).sum();
        let fits = records.change_wide(self.position, self.row(), names(self.changes), |wide| {
            if too_many || wide.bytes + added > limits::RECORD_BYTES_MAX {
                return false;
            }
            (wide.versions, merged) = (versions, merge_wide(wide, self.changes));
            true
        });
        if !fits {
            return self.too_large();
        }
        if records.index.find(self.position, self.row()).is_some_and(Slot::is_bare) {
            return self.empty(records, merged, old, sink);
        }
        records.narrow(self.position, self.row(), versions);
        self.done(records, versions, merged, old)
    }

    /// The numbers of the record's next version.
    fn versions(&self, records: &Records) -> Versions {
        let version = records.base(self.row().table, self.before).next_live();
        let expires_at = self.command.ttl.resolve(self.before.expires_at, records.clock);
        Versions { version, sql_version: self.before.sql_version, expires_at, changed: self.changed() }
    }

    /// What will have changed since SQL's version. Counted where SQL has the row and shares it with others; a record that is made
    /// anew, or from nothing, is written whole.
    fn changed(&self) -> ChangedFields {
        let Versions { version, sql_version, changed, .. } = self.before;
        if !self.table.sql.is_guest() || self.clear || !version.is_live() || !sql_version.is_live() {
            return ChangedFields::ALL;
        }
        let before = if version == sql_version { ChangedFields::NONE } else { changed };
        self.changes.iter().fold(before, |changed, (field, _)| match field {
            FieldRef::Id(id) => changed.with(*id),
            FieldRef::Name(_) => ChangedFields::ALL,
        })
    }

    fn touches_nothing(&self, merged: Merged, versions: Versions) -> bool {
        let names_nothing = merged == Merged::default() && self.changes.iter().all(|(_, new)| new.as_value().is_none());
        let is_same = !self.clear && versions.expires_at == self.before.expires_at && self.before.version.is_live();
        names_nothing && is_same
    }

    fn unchanged(&self, records: &Records, old: Option<RowImage>) -> Reply {
        let row = self.given(records, old);
        self.before.reply(Outcome::Done { changed: 0, row })
    }

    fn too_large(&self) -> Reply {
        self.before.reply(Outcome::Refused { code: ErrorCode::TooLarge, row: None })
    }

    /// The last field of a dynamic record is gone, and the record with it, as in Redis. No fields for no record: nothing came of
    /// it, and nothing to bury.
    fn empty(&self, records: &mut Records, merged: Merged, old: Option<RowImage>, sink: &mut impl Sink) -> Reply {
        if !self.before.version.is_live() {
            return self.before.reply(Outcome::Done { changed: 0, row: None });
        }
        let version = records.bury(self.position, self.row(), self.before, sink);
        self.before.buried(version).reply(Outcome::Done { changed: merged.removed, row: old })
    }

    fn done(&self, records: &Records, versions: Versions, merged: Merged, old: Option<RowImage>) -> Reply {
        let row = self.given(records, old);
        let changed = if self.changes.is_empty() { 1 } else { merged.created + merged.removed };
        versions.reply(Outcome::Done { changed, row })
    }

    /// What the command asked to be given, from the record as it is now, or as it was, which the caller has kept.
    fn given(&self, records: &Records, old: Option<RowImage>) -> Option<RowImage> {
        let view = || records.index.find(self.position, self.row()).and_then(|slot| slot.row(self.row().sort));
        match self.command.give {
            Give::Nothing | Give::Old => old,
            Give::New => view().map(|view| view.fields.to_image()),
            Give::Touched => Some(self.touched(&view().expect("the row was put, or was there"))),
        }
    }

    fn touched(&self, view: &RowView<'_>) -> RowImage {
        let mut fields: Vec<FieldValue<'_>> = Vec::new();
        for (field, _) in self.changes {
            if fields.iter().any(|known| known.field == *field) {
                continue;
            }
            if let Some(value) = value_of(self.table, view, *field) {
                fields.push(FieldValue { field: *field, value });
            }
        }
        RowImage::of(&fields)
    }
}

impl Records {
    /// Packs a tree that has become small. A record's form must follow from its fields alone: it shows in the order in
    /// which an answer lists them, and a replica made from a snapshot knows nothing else of its past.
    fn narrow(&mut self, position: Position, row: RowKey<'_>, versions: Versions) {
        let Some(Slot::Big(big)) = self.index.find(position, row) else { return };
        let Big::Wide(wide) = &**big else { return };
        if wide.fields.len() > limits::PACKED_FIELDS_MAX {
            return;
        }
        let mut bytes = Vec::new();
        open_packed(&mut bytes, row, &versions);
        wide.view().fields.pack(&mut bytes);
        self.put_row(position, row, Some(Content::Packed(bytes.into_boxed_slice())));
    }
}

/// The fields of a dynamic record that a plan may change.
fn names<'c>(changes: &'c Changes<'_>) -> impl Iterator<Item = &'c [u8]> {
    changes.iter().filter_map(|(field, _)| match field {
        FieldRef::Name(name) => Some(*name),
        FieldRef::Id(_) => None,
    })
}

pub(crate) fn make_wide(
    row: RowKey<'_>,
    versions: Versions,
    old: &FieldsView<'_>,
    changes: &Changes<'_>,
    scratch: &mut Vec<u8>,
) -> (Option<Content>, Merged) {
    let mut wide = Wide::new(row, versions, widen(old));
    let merged = merge_wide(&mut wide, changes);
    if wide.fields.is_empty() {
        return (None, merged);
    }
    if wide.fields.len() <= limits::PACKED_FIELDS_MAX {
        open_packed(scratch, row, &versions);
        FieldsView::Wide(&wide.fields).pack(scratch);
        return (Some(Content::Packed(scratch.as_slice().into())), merged);
    }
    (Some(Content::Wide(wide)), merged)
}

fn give_old(give: Give, current: Option<&RowView<'_>>) -> Option<RowImage> {
    match give {
        Give::Old => current.map(|view| view.fields.to_image()),
        Give::Nothing | Give::New | Give::Touched => None,
    }
}

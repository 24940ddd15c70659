//! Executes one command on one row.

use shardine_model::command::{Command, Give, Ttl};
use shardine_model::{
    Backing, ErrorCode, FieldRef, FieldValue, FieldsView, Outcome, Position, Reply, RowImage, RowKey, RowView, Table,
    TableId, Timestamp, ValueRef, Version, limits,
};

use crate::apply::{Sink, Unexecuted, refused};
use crate::evaluate::{Changes, Plan, fits_kind, plan, value_of};
use crate::merge::{Merged, merge_packed, merge_wide, needs_wide, widen};
use crate::record::{Big, Slot, Versions, Wide, open_packed, view};
use crate::slot::Content;
use crate::state::Records;

impl Records {
    #[inline]
    pub(crate) fn execute_command(&mut self, command: &Command<'_>, sink: &mut impl Sink) -> Result<Reply, Unexecuted> {
        let row = command.row;
        let position = row.position();
        if !self.bounds.contains(position, row) {
            return Err(Unexecuted::STRAY);
        }
        let Some(table) = self.catalogue.get(row.table).cloned() else {
            return Ok(refused(Version::NEVER, Version::NEVER, ErrorCode::UnknownTable));
        };
        if row.sort.is_empty() == table.has_sort() {
            return Ok(refused(Version::NEVER, Version::NEVER, ErrorCode::BadRequest));
        }
        if table.sql.is_read_only() {
            // Its SQL table has no version column, so no write to it could be fenced.
            return Ok(refused(Version::NEVER, Version::NEVER, ErrorCode::Unsupported));
        }
        self.expire_if_due(self.clock, position, row, sink);
        let found = self.index.find(position, row).and_then(|slot| slot.row(row.sort));
        let before = match found {
            Some(view) => Versions::of(&view),
            None if table.backing == Backing::Sql => return Err(Unexecuted::NotResident(vec![row.to_owned()])),
            None => Versions::default(),
        };
        let current = found.filter(|view| view.version.is_live());
        if command.if_version.is_some_and(|wanted| wanted != before.version) {
            let row = give_row(command.give, current.as_ref());
            let outcome = Outcome::Refused { code: ErrorCode::VersionMismatch, row };
            return Ok(before.reply(outcome));
        }
        if table.dynamic && !fits_kind(current.as_ref(), command) {
            return Ok(before.reply(Outcome::Refused { code: ErrorCode::WrongType, row: Some(RowImage::default()) }));
        }
        match plan(&table, current.as_ref(), command) {
            Err(code) => Ok(refuse(&table, before, current.as_ref(), command, code)),
            Ok(Plan::Nothing) => {
                let outcome = Outcome::Done { changed: 0, row: give_row(command.give, current.as_ref()) };
                Ok(before.reply(outcome))
            }
            Ok(Plan::Delete | Plan::Put { .. }) if !self.base(row.table, before).has_next() => {
                Ok(refuse(&table, before, current.as_ref(), command, ErrorCode::Overflow))
            }
            Ok(Plan::Delete) => {
                let given = give_row(command.give, current.as_ref());
                let version = self.bury(position, row, before, sink);
                let outcome = Outcome::Done { changed: 1, row: given };
                Ok(before.buried(version).reply(outcome))
            }
            Ok(Plan::Put { clear, changes }) => Ok(self.put(&table, position, before, command, clear, &changes, sink)),
        }
    }

    /// Writes the record's next version. Seven things are needed to do it, and this is the one place that has them all.
    #[allow(clippy::too_many_arguments, reason = "private, called once; a struct for it would only rename the call")]
    fn put(
        &mut self,
        table: &Table,
        position: Position,
        before: Versions,
        command: &Command<'_>,
        clear: bool,
        changes: &Changes<'_>,
        sink: &mut impl Sink,
    ) -> Reply {
        let row = command.row;
        let base = self.base(row.table, before);
        let expires_at = match command.ttl {
            Ttl::Keep => before.expires_at,
            Ttl::Clear => None,
            Ttl::At(at) => Some(at),
        };
        let versions = Versions { version: base.next_live(), sql_version: before.sql_version, expires_at };
        let slot = self.index.find(position, row);
        let measured = slot.and_then(|slot| slot.measure(row.sort));
        let current = slot.and_then(|slot| slot.row(row.sort)).filter(|view| view.version.is_live());
        let old = give_old(command.give, current.as_ref());
        if !clear && matches!(current.map(|view| view.fields), Some(FieldsView::Wide(_))) {
            return self.put_wide(table, position, before, versions, command, changes, old, sink);
        }
        let fields = current.filter(|_| !clear).map_or(FieldsView::EMPTY, |view| view.fields);

        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let (content, merged) = if table.dynamic && needs_wide(&fields, changes) {
            make_wide(row, versions, &fields, changes, &mut scratch)
        } else {
            open_packed(&mut scratch, row, &versions);
            let head = scratch.len();
            let FieldsView::Packed(packed) = fields else { unreachable!("wide records were dealt with above") };
            let merged = merge_packed(packed, changes, &mut scratch);
            let is_empty = table.dynamic && scratch.len() == head;
            ((!is_empty).then(|| Content::Packed(scratch.as_slice().into())), merged)
        };
        self.scratch = scratch;

        let touches_nothing = merged == Merged::default() && changes.iter().all(|(_, new)| new.as_value().is_none());
        if touches_nothing && !clear && expires_at == before.expires_at && before.version.is_live() {
            let row = self.given(command, table, position, changes, old);
            let outcome = Outcome::Done { changed: 0, row };
            return before.reply(outcome);
        }
        let Some(content) = content else {
            if !before.version.is_live() {
                // No fields for no record: nothing came of it, and nothing to bury.
                let outcome = Outcome::Done { changed: 0, row: None };
                return before.reply(outcome);
            }
            // The last field of a dynamic record is gone, and the record with it, as in Redis.
            let version = self.bury(position, row, before, sink);
            let outcome = Outcome::Done { changed: merged.removed, row: old };
            return before.buried(version).reply(outcome);
        };
        if content.measure(0).1 > limits::RECORD_BYTES_MAX {
            return before.reply(Outcome::Refused { code: ErrorCode::TooLarge, row: None });
        }
        self.exchange_row(position, row, measured, Some(content));
        if table.backing == Backing::Sql {
            sink.dirty(row);
        }
        let given = self.given(command, table, position, changes, old);
        let created = if table.dynamic || !before.version.is_live() { merged.created } else { 0 };
        let changed = if changes.is_empty() { 1 } else { created + merged.removed };
        versions.reply(Outcome::Done { changed, row: given })
    }

    /// The same for a record that is a tree, changed in place.
    #[allow(clippy::too_many_arguments, reason = "the second half of `put`, for one kind of record")]
    fn put_wide(
        &mut self,
        table: &Table,
        position: Position,
        before: Versions,
        versions: Versions,
        command: &Command<'_>,
        changes: &Changes<'_>,
        old: Option<RowImage>,
        sink: &mut impl Sink,
    ) -> Reply {
        let row = command.row;
        let Some(RowView { fields: FieldsView::Wide(fields), .. }) =
            self.index.find(position, row).and_then(|slot| slot.row(row.sort))
        else {
            unreachable!("the caller saw a wide record");
        };
        let removes_nothing = changes.iter().all(|(field, new)| match field {
            FieldRef::Name(name) => new.as_value().is_none() && !fields.contains_key(*name),
            FieldRef::Id(_) => false,
        });
        if removes_nothing && versions.expires_at == before.expires_at {
            let row = self.given(command, table, position, changes, old);
            let outcome = Outcome::Done { changed: 0, row };
            return before.reply(outcome);
        }
        let mut merged = Merged::default();
        let too_many = fields.len() + changes.len() > limits::DYNAMIC_FIELDS_MAX;
        let added: usize = changes.iter().filter_map(|(_, new)| new.as_value()).map(ValueRef::size).sum();
        let fits = self.change_wide(position, row, names(changes), |wide| {
            if too_many || wide.bytes + added > limits::RECORD_BYTES_MAX {
                return false;
            }
            (wide.versions, merged) = (versions, merge_wide(wide, changes));
            true
        });
        if !fits {
            return before.reply(Outcome::Refused { code: ErrorCode::TooLarge, row: None });
        }
        if self.index.find(position, row).is_some_and(Slot::is_bare) {
            let version = self.bury(position, row, before, sink);
            let outcome = Outcome::Done { changed: merged.removed, row: old };
            return before.buried(version).reply(outcome);
        }
        self.narrow(position, row, versions);
        let given = self.given(command, table, position, changes, old);
        let changed = if changes.is_empty() { 1 } else { merged.created + merged.removed };
        versions.reply(Outcome::Done { changed, row: given })
    }

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

    /// The version that the record's next one is counted from: its own, or, if it has none, its table's floor.
    fn base(&self, table: TableId, before: Versions) -> Version {
        if before.version == Version::NEVER { self.floor(table) } else { before.version }
    }

    /// What the command asked to be given, from the record as it is now, or as it was, which the caller has kept.
    fn given(
        &self,
        command: &Command<'_>,
        table: &Table,
        position: Position,
        changes: &Changes<'_>,
        old: Option<RowImage>,
    ) -> Option<RowImage> {
        let row = command.row;
        match command.give {
            Give::Nothing | Give::Old => old,
            Give::New => self.index.find(position, row).and_then(|slot| slot.row(row.sort)).map(image),
            Give::Touched => Some(self.touched(table, position, row, changes)),
        }
    }

    fn touched(&self, table: &Table, position: Position, row: RowKey<'_>, changes: &Changes<'_>) -> RowImage {
        let slot = self.index.find(position, row).expect("the row was put, or was there");
        let view = slot.row(row.sort).expect("the row was put, or was there");
        let mut fields: Vec<FieldValue<'_>> = Vec::new();
        for (field, _) in changes {
            if fields.iter().any(|known| known.field == *field) {
                continue;
            }
            if let Some(value) = value_of(table, &view, *field) {
                fields.push(FieldValue { field: *field, value });
            }
        }
        RowImage::of(&fields)
    }

    /// Leaves a tombstone. It keeps no fields and no expiry, only the version (records 3, 4).
    pub(crate) fn bury(
        &mut self,
        position: Position,
        row: RowKey<'_>,
        before: Versions,
        sink: &mut impl Sink,
    ) -> Version {
        let version = before.version.next_tombstone();
        let versions = before.buried(version);
        let mut bytes = Vec::new();
        open_packed(&mut bytes, row, &versions);
        self.put_row(position, row, Some(Content::Packed(bytes.into_boxed_slice())));
        if self.is_sql(row.table) {
            sink.dirty(row);
        }
        version
    }

    /// Deletes a record whose time is over by the leader's stamp; never by this replica's clock (write-back 119).
    pub(crate) fn expire_if_due(&mut self, now: Timestamp, position: Position, row: RowKey<'_>, sink: &mut impl Sink) {
        if self.totals.no_expiry_before > now {
            return;
        }
        let Some(versions) = self.versions(position, row) else { return };
        let is_over = versions.expires_at.is_some_and(|at| at <= now);
        if versions.version.is_live() && is_over && versions.version.has_next() {
            self.bury(position, row, versions, sink);
        }
    }

    /// A row's content as it is, for undoing.
    pub(crate) fn copy_row(&self, row: RowKey<'_>) -> Option<Content> {
        let slot = self.index.find(row.position(), row)?;
        match slot {
            Slot::Packed(bytes) => row.sort.is_empty().then(|| Content::Packed(bytes.clone())),
            Slot::Big(big) => match &**big {
                Big::Wide(wide) => row.sort.is_empty().then(|| Content::Wide(wide.clone())),
                Big::Partition(partition) => partition.rows.get(row.sort).cloned().map(Content::Packed),
            },
        }
    }

    /// The same fields under other versions.
    pub(crate) fn rewritten(&self, position: Position, row: RowKey<'_>, versions: &Versions) -> Option<Content> {
        let slot = self.index.find(position, row)?;
        if let Slot::Big(big) = slot
            && let Big::Wide(wide) = &**big
        {
            return Some(Content::Wide(Wide { versions: *versions, ..wide.clone() }));
        }
        let mut bytes = Vec::new();
        open_packed(&mut bytes, row, versions);
        slot.row(row.sort)?.fields.pack(&mut bytes);
        Some(Content::Packed(bytes.into_boxed_slice()))
    }
}

/// The fields of a dynamic record that a plan may change.
fn names<'c>(changes: &'c Changes<'_>) -> impl Iterator<Item = &'c [u8]> {
    changes.iter().filter_map(|(field, _)| match field {
        FieldRef::Name(name) => Some(*name),
        FieldRef::Id(_) => None,
    })
}

fn make_wide(
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

fn refuse(
    table: &Table,
    before: Versions,
    current: Option<&RowView<'_>>,
    command: &Command<'_>,
    code: ErrorCode,
) -> Reply {
    let row = match (code, &command.action) {
        // The value that stood in the way (records 19).
        (ErrorCode::CasMismatch, shardine_model::Action::Cas { field, .. }) => {
            current.and_then(|view| value_of(table, view, *field)).map(|value| one_field(*field, value))
        }
        (ErrorCode::Exists, _) => current.map(|view| view.fields.to_image()),
        _ => give_row(command.give, current),
    };
    before.reply(Outcome::Refused { code, row })
}

fn image(view: RowView<'_>) -> RowImage {
    view.fields.to_image()
}

fn one_field(field: FieldRef<'_>, value: ValueRef<'_>) -> RowImage {
    RowImage::of(&[FieldValue { field, value }])
}

fn give_old(give: Give, current: Option<&RowView<'_>>) -> Option<RowImage> {
    match give {
        Give::Old => current.map(|view| view.fields.to_image()),
        Give::Nothing | Give::New | Give::Touched => None,
    }
}

/// What a command that changes nothing, or deletes, gives: old and new are the same then.
fn give_row(give: Give, current: Option<&RowView<'_>>) -> Option<RowImage> {
    match give {
        Give::Nothing => None,
        Give::Old | Give::New | Give::Touched => current.map(|view| view.fields.to_image()),
    }
}

/// Opens a row from its packed bytes; for the snapshot reader.
pub(crate) fn content_of(row: RowKey<'_>, versions: Versions, packed: &[u8], dynamic: bool) -> Content {
    let fields = FieldsView::Packed(packed);
    if dynamic && may_be_tree(packed) && fields.count() > limits::PACKED_FIELDS_MAX {
        let mut scratch = Vec::new();
        if let (Some(content), _) = make_wide(row, versions, &fields, &Changes::new(), &mut scratch) {
            return content;
        }
    }
    let mut bytes = Vec::with_capacity(row.key.len() + packed.len() + 16);
    open_packed(&mut bytes, row, &versions);
    bytes.extend_from_slice(packed);
    debug_assert_eq!(view(&bytes).version, versions.version);
    Content::Packed(bytes.into_boxed_slice())
}

/// Whether there may be more fields than a packed record of a dynamic table has: each takes four bytes at least.
#[inline]
pub(crate) fn may_be_tree(packed: &[u8]) -> bool {
    packed.len() / 4 > limits::PACKED_FIELDS_MAX
}

//! Executes one command on one row.

use shardine_model::command::{Command, Give};
use shardine_model::{
    Backing, ErrorCode, FieldRef, FieldValue, FieldsView, Outcome, Position, Reply, RowImage, RowKey, RowView, Table,
    TableId, Timestamp, ValueRef, Version, limits,
};

use crate::apply::{Sink, Unexecuted, refused};
use crate::evaluate::{Changes, Plan, fits_kind, plan, value_of};
use crate::put::{Put, make_wide};
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
        let place = self.index.place(position, row);
        let found = place.and_then(|place| self.index.at(place)).and_then(|slot| slot.row(row.sort));
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
            Ok(Plan::Put { clear, changes }) => {
                let put = Put { table: &table, position, place, before, command, clear, changes: &changes };
                Ok(put.run(self, sink))
            }
        }
    }

    /// The version that the record's next one is counted from: its own, or, if it has none, its table's floor.
    pub(crate) fn base(&self, table: TableId, before: Versions) -> Version {
        if before.version == Version::NEVER { self.floor(table) } else { before.version }
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

fn one_field(field: FieldRef<'_>, value: ValueRef<'_>) -> RowImage {
    RowImage::of(&[FieldValue { field, value }])
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

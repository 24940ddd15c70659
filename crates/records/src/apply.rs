//! Applies committed entries. A function of state and entry alone; every check is made here, when the entry is applied.

use shardine_model::codec::{DecodeError, Reader};
use shardine_model::command::{Batch, BatchItem, BatchMode, Body};
use shardine_model::entry::LoadedRow;
use shardine_model::{
    Answer, CatalogueVersion, ChangedFields, Entry, ErrorCode, Outcome, Position, Reply, Request, RowKey, RowKeyBuf,
    Table, TableId, Version, limits,
};
use smallvec::SmallVec;
use thiserror::Error;

use crate::record::{Versions, open_packed};
use crate::remembered::Recall;
use crate::slot::Content;
use crate::state::{EpochFit, Lease, Lookup, Records};

/// Requests of an entry whose rows are looked for together ([`Index::look_ahead`](crate::index::Index::look_ahead)): about as many
/// questions as a core asks of memory at once.
const LOOK_AHEAD: usize = 8;

/// Where the outcomes of an entry go. Followers pass [`Nobody`].
pub trait Sink {
    /// The answer to the next request of the entry, in order.
    fn answer(&mut self, answer: Answer);

    /// The next request of the entry met rows that are not in memory: it must be proposed again after they are loaded.
    fn not_resident(&mut self, request: &[u8], missing: Vec<RowKeyBuf>);

    /// The next request of the entry was routed by bounds that the shard has no more: nothing was done, and it belongs elsewhere.
    fn stray(&mut self, request: &[u8]) {
        let _ = request;
        self.answer(Answer::Failed(ErrorCode::StaleRoute));
    }

    /// A row now differs from what SQL is known to hold.
    fn dirty(&mut self, row: RowKey<'_>);
}

/// A sink for entries that nobody here waits for.
pub struct Nobody;

impl Sink for Nobody {
    fn answer(&mut self, _: Answer) {}
    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}
    fn dirty(&mut self, _: RowKey<'_>) {}
}

/// An entry that this replica must not skip and cannot apply: it stops instead of guessing (records 62, 73).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fatal {
    #[error(
        "the entry cannot be read: {0}; it was written by a newer version or is damaged: upgrade this node, or restore it from a peer"
    )]
    Unreadable(DecodeError),
    #[error(
        "the log was written by an early version, whose form is not read any more: begin with an empty data directory"
    )]
    Retired,
    #[error(
        "a kick names a record that is not in memory, so this replica has parted from its leader: restore it from a peer"
    )]
    KickedNotResident,
    #[error("a split is an affair of the replica, and this is nobody's")]
    NotOfRecords,
}

impl From<DecodeError> for Fatal {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Retired { .. } => Self::Retired,
            error => Self::Unreadable(error),
        }
    }
}

/// Why a request was left alone. Nothing is remembered of it: sent again, it may be executed.
pub(crate) enum Unexecuted {
    /// It needs rows that memory does not hold.
    NotResident(Vec<RowKeyBuf>),
    /// It came to the wrong shard, or at the wrong time.
    Refused(ErrorCode),
}

impl Unexecuted {
    pub const STRAY: Self = Self::Refused(ErrorCode::StaleRoute);
}

/// A request of an entry that is to be executed soon.
struct Read<'a> {
    request: Request<'a>,
    /// Its bytes.
    span: &'a [u8],
    /// Those behind it.
    #[cfg(feature = "mutants")]
    rest: &'a [u8],
}

impl<'a> Read<'a> {
    fn next(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let before = reader.rest();
        let request = Request::decode(reader)?;
        let rest = reader.rest();
        Ok(Self {
            request,
            span: &before[..before.len() - rest.len()],
            #[cfg(feature = "mutants")]
            rest,
        })
    }
}

impl Records {
    /// Applies one entry. Outcomes go to `sink` in the order of the requests.
    pub fn apply(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Fatal> {
        match Entry::decode(bytes)? {
            Entry::Commands { proposed_at, epoch, requests } => {
                self.clock = self.clock.max(proposed_at);
                #[cfg(feature = "mutants")]
                if self.mutant == Some(crate::Mutant::EpochOnArrivalOnly) {
                    return self.apply_commands(requests, sink);
                }
                return match self.epoch_fits(epoch) {
                    EpochFit::Fits => self.apply_commands(requests, sink),
                    EpochFit::Stale if epoch.owner() != self.epoch().owner() => pass_on_all(requests, sink),
                    EpochFit::Stale | EpochFit::Ahead => refuse_all(requests, sink),
                };
            }
            Entry::Load(rows) => rows.iter().for_each(|loaded| self.apply_load(loaded)),
            Entry::Kick(rows) => return self.apply_kick(&rows),
            Entry::Lease { holder, term, length_ms } => self.lease = Some(Lease { holder, term, length_ms }),
            Entry::Written(rows) => rows.into_iter().for_each(|(row, version)| self.apply_written(row, version)),
            Entry::Schema { catalogue, table } => self.apply_schema(catalogue, *table),
            Entry::Purge(rows) => self.apply_purge(&rows),
            Entry::Expire { at, rows } => {
                self.clock = self.clock.max(at);
                rows.iter().for_each(|row| self.apply_expire(*row, sink));
                self.look_for_expiries();
            }
            Entry::Clear { .. } if self.suspended => sink.answer(Answer::Failed(ErrorCode::Suspended)),
            Entry::Clear { table } => self.apply_clear(table),
            Entry::Suspend => self.suspended = true,
            Entry::Resume => self.suspended = false,
            Entry::Refused { at, rows } => {
                self.clock = self.clock.max(at);
                rows.iter().for_each(|refused| self.apply_refused(refused));
            }
            Entry::Settle(settled) => self.apply_settle(&settled, sink),
            Entry::Floor { table, floor } => self.raise_floor(table, floor),
            Entry::Raise(rows) => rows.iter().for_each(|raised| self.apply_raise(raised, sink)),
            // Who takes part in the group is not known here, and the other half has to go somewhere ([`Records::split_off`]).
            Entry::Split(_) => return Err(Fatal::NotOfRecords),
        }
        Ok(())
    }

    fn apply_commands(&mut self, requests: &[u8], sink: &mut impl Sink) -> Result<(), Fatal> {
        let mut reader = Reader::new(requests);
        let mut next: SmallVec<[Read<'_>; LOOK_AHEAD]> = SmallVec::new();
        while !reader.is_empty() {
            while next.len() < LOOK_AHEAD && !reader.is_empty() {
                next.push(Read::next(&mut reader)?);
            }
            if next.len() > 1 {
                self.index.look_ahead(next.iter().filter_map(|read| read.request.first_row()));
            }
            next.drain(..).for_each(|read| self.apply_request(&read, sink));
        }
        Ok(())
    }

    #[inline]
    fn apply_request(&mut self, read: &Read<'_>, sink: &mut impl Sink) {
        #[cfg(feature = "mutants")]
        if let Some(answer) = self.forgotten_increment(&read.request, read.rest) {
            sink.answer(answer);
            return;
        }
        match self.execute_once(&read.request, sink) {
            Ok(answer) => sink.answer(answer),
            Err(Unexecuted::NotResident(missing)) => sink.not_resident(read.span, missing),
            Err(Unexecuted::Refused(ErrorCode::StaleRoute)) => sink.stray(read.span),
            Err(Unexecuted::Refused(code)) => sink.answer(Answer::Failed(code)),
        }
    }

    /// Executes a request, or recalls its result if it was executed before.
    fn execute_once(&mut self, request: &Request<'_>, sink: &mut impl Sink) -> Result<Answer, Unexecuted> {
        if self.suspended {
            return Err(Unexecuted::Refused(ErrorCode::Suspended));
        }
        let Some(origin) = request.origin else { return self.execute(&request.body, sink) };
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::NoDedup) {
            return self.execute(&request.body, sink);
        }
        match self.remembered.recall(origin) {
            Recall::New => {}
            Recall::Answered(answer) => return Ok(answer),
            Recall::Refused(code) => return Err(Unexecuted::Refused(code)),
        }
        let answer = self.execute(&request.body, sink)?;
        let position = request.first_row().map_or(self.bounds.lo.position, |row| row.position());
        self.remembered.remember(origin, position, &answer);
        Ok(answer)
    }

    fn execute(&mut self, body: &Body<'_>, sink: &mut impl Sink) -> Result<Answer, Unexecuted> {
        match body {
            Body::One(command) => self.execute_command(command, sink).map(Answer::One),
            Body::Read(row) => {
                self.check_rows(std::iter::once(*row))?;
                Ok(Answer::One(self.execute_read(*row, sink)))
            }
            Body::Batch(batch) => self.execute_batch(batch, sink),
        }
    }

    fn execute_batch(&mut self, batch: &Batch<'_>, sink: &mut impl Sink) -> Result<Answer, Unexecuted> {
        let items = batch.commands.iter().map(BatchItem::row);
        self.check_rows(items.chain(batch.conditions.iter().map(|(row, _)| *row)))?;
        for (row, version) in &batch.conditions {
            self.expire_if_due(self.clock, row.position(), *row, sink);
            if self.current_version(*row) != *version {
                return Ok(Answer::ConditionFailed);
            }
        }
        let mut undo: Vec<(RowKeyBuf, Option<Content>)> = Vec::new();
        let mut replies = Vec::with_capacity(batch.commands.len());
        let mut given_bytes = 0;
        for item in &batch.commands {
            let reply = match item {
                // Every one of a thousand could give a record of 64 MiB, and none of it is told before the last is done.
                item if given_bytes > limits::REPLY_BYTES_MAX && item.may_give() => self.too_much(item.row()),
                BatchItem::Read(row) => self.execute_read(*row, sink),
                BatchItem::Change(command) => {
                    if batch.mode == BatchMode::AllOrNone {
                        undo.push((command.row.to_owned(), self.copy_row(command.row)));
                    }
                    self.execute_command(command, sink)?
                }
            };
            given_bytes += reply.row().map_or(0, |row| row.packed.len());
            let refused = reply.refusal().is_some() && matches!(item, BatchItem::Change(_));
            replies.push(reply);
            if refused && batch.mode == BatchMode::AllOrNone {
                self.undo(undo);
                return Ok(Answer::Many(replies));
            }
        }
        Ok(Answer::Many(replies))
    }

    /// The reply of an item that would give more than a batch may, and is not executed.
    fn too_much(&self, row: RowKey<'_>) -> Reply {
        let versions = self.versions(row.position(), row).unwrap_or_default();
        versions.reply(Outcome::Refused { code: ErrorCode::TooLarge, row: None })
    }

    /// A batch happens at one moment or not at all: every row must be owned and in memory before the first one changes.
    fn check_rows<'a>(&self, rows: impl Iterator<Item = RowKey<'a>>) -> Result<(), Unexecuted> {
        let mut missing = Vec::new();
        for row in rows {
            let position = row.position();
            if !self.bounds.contains(position, row) {
                return Err(Unexecuted::STRAY);
            }
            if matches!(self.get(position, row), Lookup::NotResident) {
                missing.push(row.to_owned());
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(Unexecuted::NotResident(missing)) }
    }

    fn undo(&mut self, undo: Vec<(RowKeyBuf, Option<Content>)>) {
        for (row, content) in undo.into_iter().rev() {
            self.put_row(row.as_ref().position(), row.as_ref(), content);
        }
    }

    fn current_version(&self, row: RowKey<'_>) -> Version {
        match self.get(row.position(), row) {
            Lookup::Live(view) => view.version,
            Lookup::Absent { version, .. } => version,
            Lookup::NotResident | Lookup::UnknownTable => Version::NEVER,
        }
    }

    fn execute_read(&mut self, row: RowKey<'_>, sink: &mut impl Sink) -> Reply {
        self.expire_if_due(self.clock, row.position(), row, sink);
        read_reply(self.get(row.position(), row))
    }

    /// Whether a row is this shard's. Entries of a leader's own making may name rows that went to another shard between the
    /// proposal and now: there is nothing to be done about them here, on every replica alike (records 139).
    #[must_use]
    pub fn owns(&self, row: RowKey<'_>) -> bool {
        self.bounds.contains(row.position(), row)
    }

    fn apply_expire(&mut self, row: RowKey<'_>, sink: &mut impl Sink) {
        if self.owns(row) {
            self.expire_if_due(self.clock, row.position(), row, sink);
        }
    }

    /// Inserts a row as SQL held it, unless memory already has one: what is in memory is never older (reliability I47).
    fn apply_load(&mut self, loaded: &LoadedRow<'_>) {
        if !self.owns(loaded.row) {
            return;
        }
        let position = loaded.row.position();
        let is_resident = !matches!(self.get(position, loaded.row), Lookup::NotResident);
        #[cfg(feature = "mutants")]
        let is_resident = is_resident && self.mutant != Some(crate::Mutant::LoadOverwrites);
        if is_resident {
            return;
        }
        let versions = Versions { version: loaded.version, sql_version: loaded.version, ..Versions::default() };
        let mut bytes = Vec::new();
        open_packed(&mut bytes, loaded.row, &versions);
        if loaded.version.is_live() {
            bytes.extend_from_slice(loaded.fields);
        }
        self.put_row(position, loaded.row, Some(Content::Packed(bytes.into_boxed_slice())));
    }

    /// Drops clean records. One that changed since the leader looked stays; one that is not here at all means that this
    /// replica is not what it should be.
    fn apply_kick(&mut self, rows: &[(RowKey<'_>, Version)]) -> Result<(), Fatal> {
        for (row, version) in rows {
            if !self.owns(*row) {
                continue;
            }
            let (current, sql_version) = match self.get(row.position(), *row) {
                Lookup::Live(view) => (view.version, view.sql_version),
                Lookup::Absent { version, sql_version } => (version, sql_version),
                // The table was dropped between the proposal and now, and took its rows along, on every replica.
                Lookup::UnknownTable => continue,
                Lookup::NotResident => return Err(Fatal::KickedNotResident),
            };
            let is_clean = current == *version && current == sql_version;
            #[cfg(feature = "mutants")]
            let is_clean =
                is_clean || matches!(self.mutant, Some(crate::Mutant::KickDirty | crate::Mutant::EvictDirty));
            if is_clean && self.is_sql(row.table) {
                self.put_row(row.position(), *row, None);
            }
        }
        Ok(())
    }

    /// Raises what SQL is known to hold; a late or repeated confirmation changes nothing (records 64).
    pub(crate) fn apply_written(&mut self, row: RowKey<'_>, version: Version) {
        let position = row.position();
        let place = self.index.place(position, row).filter(|_| self.bounds.contains(position, row));
        let measured = place.and_then(|place| self.index.at(place)?.measure(row.sort));
        let (Some(place), Some((before, bytes))) = (place, measured) else { return };
        if version.magnitude() > before.sql_version.magnitude() {
            // What changed since is among what had changed before, which is enough to know.
            let changed = if version == before.version { ChangedFields::ALL } else { before.changed };
            if version.0 < 0 && self.is_guest(row.table) {
                // SQL has no row any more that could remember it: a record made anew begins above.
                self.raise_floor(row.table, version.magnitude());
            }
            self.renumber(place, position, row, (before, bytes), Versions { sql_version: version, changed, ..before });
        }
    }

    fn apply_schema(&mut self, version: CatalogueVersion, table: Table) {
        let (id, dropped) = (table.id, table.dropped);
        let is_newer = self.catalogue.get(id).is_some_and(|known| known.version < table.version);
        if dropped && is_newer {
            // While the definition still stands: what is counted by it must be uncounted by it.
            self.drop_rows(id);
        }
        self.put_table(version, table);
    }

    fn apply_purge(&mut self, rows: &[(RowKey<'_>, Version)]) {
        for &(row, version) in rows {
            if !self.owns(row) {
                continue;
            }
            if self.is_at(row, version) && version.0 < 0 {
                self.raise_floor(row.table, version.magnitude());
                self.put_row(row.position(), row, None);
            }
            self.forget_purged(row);
        }
    }

    /// Whether the table's rows are shared in SQL with others who know nothing of versions.
    fn is_guest(&self, table: TableId) -> bool {
        self.catalogue.get(table).is_some_and(|table| table.sql.is_guest())
    }

    pub(crate) fn is_at(&self, row: RowKey<'_>, version: Version) -> bool {
        self.versions(row.position(), row).is_some_and(|known| known.version == version)
    }

    /// Empties a table that has no SQL behind it. Versions go on above the highest one dropped.
    fn apply_clear(&mut self, table: TableId) {
        if self.is_sql(table) || self.catalogue.get(table).is_none() {
            return;
        }
        let highest = self.drop_rows(table);
        self.raise_floor(table, highest);
    }

    fn raise_floor(&mut self, table: TableId, magnitude: u64) {
        let floor = self.floors.entry(table).or_insert(0);
        *floor = (*floor).max(magnitude);
    }

    /// Removes all rows of a table; says the highest version among them.
    fn drop_rows(&mut self, table: TableId) -> u64 {
        let mut highest = 0;
        let mut segment = self.index.segment_count();
        while segment > 0 {
            // From the end, for segments that lose rows may join those before them.
            segment = segment.min(self.index.segment_count()) - 1;
            let mut rows = Vec::new();
            self.walk_segment(segment, |position, row, view| {
                if row.table == table {
                    highest = highest.max(view.version.magnitude());
                    rows.push((position, row.to_owned()));
                }
            });
            for (position, row) in rows {
                self.put_row(position, row.as_ref(), None);
            }
        }
        self.forget_tombstones(table);
        highest
    }
}

/// An entry whose requests were routed by an older map: none of them is executed.
fn pass_on_all(requests: &[u8], sink: &mut impl Sink) -> Result<(), Fatal> {
    let mut reader = Reader::new(requests);
    while !reader.is_empty() {
        sink.stray(Read::next(&mut reader)?.span);
    }
    Ok(())
}

/// An entry whose epoch does not hold: none of its requests is executed, and none is forgotten.
fn refuse_all(requests: &[u8], sink: &mut impl Sink) -> Result<(), Fatal> {
    let mut reader = Reader::new(requests);
    while !reader.is_empty() {
        Request::decode(&mut reader)?;
        sink.answer(Answer::Failed(ErrorCode::StaleRoute));
    }
    Ok(())
}

/// A read as a reply: the whole row, or `not_found` with the version to build a condition on (records 9, 10).
#[must_use]
pub fn read_reply(found: Lookup<'_>) -> Reply {
    match found {
        Lookup::Live(view) => {
            Versions::of(&view).reply(Outcome::Done { changed: 0, row: Some(view.fields.to_image()) })
        }
        Lookup::Absent { version, sql_version } => refused(version, sql_version, ErrorCode::NotFound),
        Lookup::NotResident => refused(Version::NEVER, Version::NEVER, ErrorCode::Busy),
        Lookup::UnknownTable => refused(Version::NEVER, Version::NEVER, ErrorCode::UnknownTable),
    }
}

pub(crate) fn refused(version: Version, sql_version: Version, code: ErrorCode) -> Reply {
    Reply { version, sql_version, expires_at: None, outcome: Outcome::Refused { code, row: None } }
}

impl Records {
    pub(crate) fn versions(&self, position: Position, row: RowKey<'_>) -> Option<Versions> {
        let slot = self.index.find(position, row)?;
        slot.row(row.sort).map(|view| Versions::of(&view))
    }
}

//! Walks over many rows: `SCAN`, `KEYS`, `RANDOMKEY`, `REC.SCAN`. Rows come in pages; a page is never larger than the engine allows.

mod records;

use shardine_model::table::KV;
use shardine_model::{Catalogue, RowKey, TableId, limits};
use shardine_router::{LocalEngine, RowCall, ScanCall, ScanPage, ScannedRow, Ticket};

use crate::address;
use crate::command::read::{Context, kind_of};
use crate::failure::{Failure, INVALID_CURSOR, NOT_AN_INTEGER, SYNTAX};
use crate::frame::Line;
use crate::glob;
use crate::value::{cursor, integer, is};
use crate::waiting::Progress;
use crate::wire;

pub(crate) use records::RecordPage;

/// Rows of a `SCAN` page when the client does not say, as in Redis.
const COUNT_DEFAULT: usize = 10;

/// A page of `SCAN`. Its cursor is a position, so pages end between positions only.
pub(crate) struct Page {
    pattern: Option<Box<[u8]>>,
    kind: Option<Box<[u8]>>,
}

impl Page {
    pub(super) fn plan<H: LocalEngine>(line: Line<'_>, engine: &H) -> Result<(ScanCall, Self), Failure> {
        let cursor = cursor(line.word(1)).ok_or(INVALID_CURSOR)?;
        let (mut page, mut limit) = (Page { pattern: None, kind: None }, COUNT_DEFAULT);
        let mut words = line.words(2);
        while let Some(word) = words.next() {
            let argument = words.next().ok_or(SYNTAX)?;
            if is(word, "MATCH") {
                page.pattern = Some(argument.into());
            } else if is(word, "COUNT") {
                let count = integer(argument).ok_or(NOT_AN_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
                limit = count.min(limits::SCAN_ROWS_MAX);
            } else if is(word, "TYPE") {
                page.kind = Some(argument.to_ascii_lowercase().into());
            } else {
                return Err(SYNTAX);
            }
        }
        let table = page.pattern.as_deref().and_then(|pattern| table_of(pattern, engine.catalogue()));
        let cursor = (cursor != 0).then(|| cursor.to_be_bytes().to_vec());
        Ok((ScanCall { table, limit, cursor, whole_positions: true, ..ScanCall::default() }, page))
    }

    pub(super) fn finish(&self, page: &ScanPage, catalogue: &Catalogue) -> Progress {
        let (mut keys, mut count, mut name) = (Vec::new(), 0, Vec::new());
        for row in page.rows.iter().filter(|row| self.wants_kind(row, catalogue)) {
            name.clear();
            address::print(row.row.as_ref(), catalogue, &mut name);
            if self.pattern.as_deref().is_none_or(|pattern| glob::matches(pattern, &name)) {
                wire::bulk(&mut keys, &name);
                count += 1;
            }
        }
        Progress::written(|out| {
            wire::array(out, 2);
            wire::bulk(out, itoa::Buffer::new().format(position_of(page.next.as_deref())).as_bytes());
            wire::array(out, count);
            out.extend_from_slice(&keys);
        })
    }

    fn wants_kind(&self, row: &ScannedRow, catalogue: &Catalogue) -> bool {
        let Some(kind) = self.kind.as_deref() else { return true };
        let is_typed = catalogue.get(row.row.table).is_some_and(|table| !table.dynamic);
        kind == kind_of(is_typed, &row.fields.view()).as_bytes()
    }
}

/// The position that a cursor begins with; 0, which Redis takes for the end, if there is none.
fn position_of(cursor: Option<&[u8]>) -> u64 {
    cursor.and_then(|cursor| cursor.first_chunk::<8>()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The one table whose rows a pattern can match, if there is only one.
fn table_of(pattern: &[u8], catalogue: &Catalogue) -> Option<TableId> {
    let prefix = glob::literal_prefix(pattern);
    let colon = memchr::memchr(b':', prefix)?;
    let table = catalogue.named(std::str::from_utf8(&prefix[..colon]).ok()?);
    // What begins with a prefix that names no table can only be a key of `kv`.
    Some(table.map_or(KV, |table| table.id))
}

/// `KEYS`: the whole answer in one piece, refused when that would be large.
pub(crate) struct Keys {
    pattern: Box<[u8]>,
    table: Option<TableId>,
    found: Vec<u8>,
    count: usize,
    seen: usize,
    rows_max: usize,
}

impl Keys {
    pub(super) fn plan<H: LocalEngine>(line: Line<'_>, engine: &H, rows_max: usize) -> (ScanCall, Self) {
        let pattern = line.word(1);
        let table = table_of(pattern, engine.catalogue());
        let keys = Keys { pattern: pattern.into(), table, found: Vec::new(), count: 0, seen: 0, rows_max };
        (keys.page(None), keys)
    }

    fn page(&self, cursor: Option<Vec<u8>>) -> ScanCall {
        ScanCall { table: self.table, limit: limits::SCAN_ROWS_MAX, cursor, ..ScanCall::default() }
    }

    pub(super) fn advance<H: LocalEngine>(&mut self, page: ScanPage, ticket: Ticket, engine: &mut H) -> Progress {
        let mut name = Vec::new();
        for row in &page.rows {
            name.clear();
            address::print(row.row.as_ref(), engine.catalogue(), &mut name);
            if glob::matches(&self.pattern, &name) {
                wire::bulk(&mut self.found, &name);
                self.count += 1;
            }
        }
        self.seen += page.rows.len();
        let is_over = self.seen > self.rows_max || page.next.is_some() && self.seen == self.rows_max;
        if is_over {
            let limit = self.rows_max;
            let sentence = format!("KEYS looks at no more than {limit} rows and there are more: use SCAN");
            return Progress::failed(&Failure::new(shardine_model::ErrorCode::TooLarge, sentence));
        }
        if page.next.is_some() {
            engine.call(RowCall::Scan(self.page(page.next)).into(), ticket);
            return Progress::Wait;
        }
        Progress::written(|out| {
            wire::array(out, self.count);
            out.extend_from_slice(&self.found);
        })
    }
}

/// `RANDOMKEY`: the first row after a random position, from the beginning again if there is none.
pub(crate) struct RandomKey {
    is_second_round: bool,
}

/// Rows to choose among, so that a key behind a wide gap does not win every time.
const RANDOM_ROWS: usize = 16;

impl RandomKey {
    pub(super) fn plan(chance: u64) -> (ScanCall, Self) {
        (Self::page(Some(chance.to_be_bytes().to_vec())), Self { is_second_round: false })
    }

    fn page(cursor: Option<Vec<u8>>) -> ScanCall {
        ScanCall { limit: RANDOM_ROWS, cursor, whole_positions: true, ..ScanCall::default() }
    }

    pub(super) fn advance<H: LocalEngine>(
        &mut self,
        page: ScanPage,
        context: Context,
        ticket: Ticket,
        engine: &mut H,
    ) -> Progress {
        if page.rows.is_empty() {
            if page.next.is_none() && self.is_second_round {
                return Progress::written(|out| wire::null(out, context.protocol));
            }
            self.is_second_round |= page.next.is_none();
            engine.call(RowCall::Scan(Self::page(page.next)).into(), ticket);
            return Progress::Wait;
        }
        let row: RowKey<'_> = page.rows[(context.chance % page.rows.len() as u64) as usize].row.as_ref();
        let mut name = Vec::new();
        address::print(row, engine.catalogue(), &mut name);
        Progress::written(|out| wire::bulk(out, &name))
    }
}

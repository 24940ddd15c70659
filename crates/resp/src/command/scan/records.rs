//! `REC.SCAN table[:key] [FROM s] [TO s] [DESC] [LIMIT n] [CURSOR c]`: whole records with their versions, page by page.

use shardine_model::{Catalogue, ErrorCode, RowImage, Table, limits};
use shardine_router::{Bound, ScanCall, ScanPage};

use crate::address;
use crate::command::read::Context;
use crate::command::record;
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::frame::Line;
use crate::value::{integer, is, quote};
use crate::waiting::Progress;
use crate::wire;

/// Rows of a page when the client does not say.
const LIMIT_DEFAULT: usize = 100;

/// A page of records. Carries nothing: the rows say which table they are of.
pub(crate) struct RecordPage;

impl RecordPage {
    pub(in crate::command) fn plan(line: Line<'_>, catalogue: &Catalogue) -> Result<(ScanCall, Self), Failure> {
        let (table, partition) = target(line.word(1), catalogue)?;
        let mut call = ScanCall {
            table: Some(table.id),
            partition: partition.map(Into::into),
            limit: LIMIT_DEFAULT,
            ..ScanCall::default()
        };
        let mut words = line.words(2);
        while let Some(word) = words.next() {
            if is(word, "DESC") {
                call.descending = true;
                continue;
            }
            let argument = words.next().ok_or(SYNTAX)?;
            if is(word, "FROM") {
                call.range.from = bound(argument, table)?;
            } else if is(word, "TO") {
                call.range.to = bound(argument, table)?;
            } else if is(word, "LIMIT") {
                let limit = integer(argument).ok_or(NOT_AN_INTEGER)?;
                let limit = usize::try_from(limit).ok().filter(|&limit| limit > 0).ok_or(SYNTAX)?;
                call.limit = limit.min(limits::SCAN_ROWS_MAX);
            } else if is(word, "CURSOR") {
                call.cursor = (!argument.is_empty()).then(|| argument.to_vec());
            } else {
                return Err(SYNTAX);
            }
        }
        let is_ordered = call.descending || call.range.from != Bound::Open || call.range.to != Bound::Open;
        if is_ordered && call.partition.is_none() {
            let sentence = "FROM, TO and DESC order the rows of one key: name it as table:key";
            return Err(Failure::bad_request(sentence));
        }
        Ok((call, Self))
    }

    pub(in crate::command) fn finish(&self, page: &ScanPage, context: Context, catalogue: &Catalogue) -> Progress {
        Progress::written(|out| {
            wire::array(out, 2);
            match &page.next {
                Some(cursor) => wire::bulk(out, cursor),
                None => wire::null(out, context.protocol),
            }
            wire::array(out, page.rows.len());
            for row in &page.rows {
                let mut name = Vec::new();
                address::print(row.row.as_ref(), catalogue, &mut name);
                wire::array(out, 4);
                wire::bulk(out, &name);
                wire::integer(out, row.version.0);
                wire::integer(out, row.sql_version.0);
                let fields: &RowImage = &row.fields;
                record::write_fields(&fields.view(), catalogue.get(row.row.table), context.protocol, out);
            }
        })
    }
}

/// A table by its name, or one key of a table with a sort key.
fn target<'a, 'c>(text: &'a [u8], catalogue: &'c Catalogue) -> Result<(&'c Table, Option<&'a [u8]>), Failure> {
    let colon = memchr::memchr(b':', text);
    let name = &text[..colon.unwrap_or(text.len())];
    let table = std::str::from_utf8(name).ok().and_then(|name| catalogue.named(name));
    let table =
        table.ok_or_else(|| Failure::new(ErrorCode::UnknownTable, format!("there is no table {}", quote(name))))?;
    if colon.is_none() {
        return Ok((table, None));
    }
    if !table.has_sort() {
        let name = &table.name;
        return Err(Failure::bad_request(format!("a key of {name} is one row, it has no sort key: use REC.GET")));
    }
    Ok((table, Some(address::parse_partition(text, catalogue)?.key)))
}

/// `s` includes the bound, `(s` excludes it.
fn bound(text: &[u8], table: &Table) -> Result<Bound, Failure> {
    let (text, excludes) = match text {
        [b'(', rest @ ..] => (rest, true),
        text => (text, false),
    };
    let bytes = address::parse_sort(text, table)?.into_vec().into_boxed_slice();
    Ok(if excludes { Bound::Excluding(bytes) } else { Bound::Including(bytes) })
}

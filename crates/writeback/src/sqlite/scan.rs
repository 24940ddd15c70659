//! Reading rows in order, a page at a time.

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use shardine_model::RowKeyBuf;

use super::fault::classify;
use super::read;
use super::text::SqliteText;
use crate::columns;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::{Found, ScanJob};
use crate::pages::{self, Page, Parameter};

pub(super) fn scan(connection: &Connection, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
    let selected = SqliteText.names(&columns::selected(&job.table));
    let (query, parameters) = pages::select(&SqliteText, job, &selected)?;
    let mut statement = connection.prepare_cached(&query).map_err(classify)?;
    let parameters = parameters.into_iter().map(|parameter| match parameter {
        Parameter::Integer(value) => Stored::Integer(value),
        Parameter::Bytes(bytes) => Stored::Blob(bytes),
        Parameter::Text(text) => Stored::Text(text),
    });
    let mut answers = statement.query(rusqlite::params_from_iter(parameters)).map_err(classify)?;
    let mut page = Page::new(job);
    while let Some(answer) = answers.next().map_err(classify)? {
        let row = read::row_key(&job.table, answer).map_err(classify)?;
        let position: Option<i64> = answer.get(pages::position_at(&job.table)).map_err(classify)?;
        let take = |found: &mut Found| read::take(found, &job.table, row.clone(), answer);
        if !page.push(row.clone(), position, take) {
            break;
        }
    }
    Ok(page.finish())
}

//! Promise: a numbered request takes effect at most once, and a retry is told what the first attempt did (I19,
//! record-cache 35).

use std::collections::BTreeMap;

use crate::check::Violation;
use crate::check::versions_only_grow::Contents;
use crate::history::History;
use crate::universe::Row;

const NAME: &str = "each_request_once";

/// `is_edited` says of which rows the versions were raised from outside: their contents stand under several.
pub fn check(
    history: &History,
    contents: &Contents,
    rows: &[Row],
    is_edited: impl Fn(&Row) -> bool,
) -> Result<(), Violation> {
    check_answers(history)?;
    check_effects(contents, rows, is_edited)
}

fn check_answers(history: &History) -> Result<(), Violation> {
    for (number, operation) in history.operations.iter().enumerate() {
        let mut told = operation.answers.iter();
        let Some(first) = told.next() else { continue };
        if let Some(other) = told.find(|other| **other != *first) {
            let detail = format!("operation {number} was answered {first:?} and then {other:?}");
            return Err(Violation::new(NAME, detail));
        }
    }
    Ok(())
}

/// Every write brings a value of its own, so a value that stands under two versions was written twice.
fn check_effects(contents: &Contents, rows: &[Row], is_edited: impl Fn(&Row) -> bool) -> Result<(), Violation> {
    let mut versions: BTreeMap<(usize, i64), i64> = BTreeMap::new();
    for ((row, version), content) in contents.iter() {
        // A new time to live makes a version with the old value.
        let is_meant = !rows[*row].expires && !is_edited(&rows[*row]);
        let Some(content) = content.filter(|content| content.value != 0 && is_meant) else { continue };
        if let Some(first) = versions.insert((*row, content.value), *version) {
            let detail = format!("value {} of row {row} stands under versions {first} and {version}", content.value);
            return Err(Violation::new(NAME, detail));
        }
    }
    Ok(())
}

//! Promise: a numbered request takes effect at most once, and a retry is told what the first attempt did (reliability
//! I19, records 35). And each request that reaches a node is answered once.

use std::collections::BTreeMap;

use shardine_model::{Answer, Version};

use crate::check::Violation;
use crate::records::check::versions_only_grow::Contents;
use crate::records::history::History;
use crate::records::universe::Row;

pub const NAME: &str = "each_request_once";

/// `has_twice` says of which rows contents may stand under several versions: they were raised from outside, or SQL's
/// content came back.
pub fn check(
    history: &History,
    contents: &Contents,
    rows: &[Row],
    has_twice: impl Fn(usize) -> bool,
) -> Result<(), Violation> {
    check_answers(history)?;
    check_effects(contents, rows, has_twice)
}

fn check_answers(history: &History) -> Result<(), Violation> {
    for (number, answers) in history.numbered_answers() {
        let mut told = answers.into_iter();
        let Some(first) = told.next() else { continue };
        if let Some(other) = told.find(|other| without_sql(other) != without_sql(first)) {
            let detail = format!("operation {number} was answered {first:?} and then {other:?}");
            return Err(Violation::new(NAME, detail));
        }
    }
    Ok(())
}

/// An answer but for how far SQL was, which may be further when it is told again.
fn without_sql(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    match &mut answer {
        Answer::One(reply) => reply.sql_version = Version::NEVER,
        Answer::Many(replies) => replies.iter_mut().for_each(|reply| reply.sql_version = Version::NEVER),
        Answer::ConditionFailed | Answer::Failed(_) => {}
    }
    answer
}

/// Every write brings a value of its own, so a value that stands under two versions was written twice.
fn check_effects(contents: &Contents, rows: &[Row], has_twice: impl Fn(usize) -> bool) -> Result<(), Violation> {
    let mut versions: BTreeMap<(usize, i64), i64> = BTreeMap::new();
    for ((row, version), content) in contents.iter() {
        // A new time to live makes a version with the old value.
        let is_meant = !rows[*row].expires && !has_twice(*row);
        let Some(content) = content.filter(|content| content.value != 0 && is_meant) else { continue };
        if let Some(first) = versions.insert((*row, content.value), *version) {
            let detail = format!("value {} of row {row} stands under versions {first} and {version}", content.value);
            return Err(Violation::new(NAME, detail));
        }
    }
    Ok(())
}

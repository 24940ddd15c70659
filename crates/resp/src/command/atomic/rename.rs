//! `RENAME`, `RENAMENX`, `COPY`: a row's fields and its time to live under another key.

use shardine_model::command::{Action, Command, Ttl};
use shardine_model::row::FieldValue;
use shardine_router::LocalEngine;

use super::{Halt, Outcome, Scene, Taken};
use crate::address::ResolvedKey;
use crate::failure::{Failure, SYNTAX};
use crate::value::{integer, is};
use crate::verb::Verb;
use crate::wire;

const NO_SUCH_KEY: Failure = Failure::of_redis("ERR no such key");

pub(super) fn rename<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let (from, to) = (scene.place(1)?, scene.place(2)?);
    let keeps_target = scene.verb == Verb::Renamenx;
    let Some(taken) = scene.take(&from)? else { return Err(NO_SUCH_KEY.into()) };
    if from.row() == to.row() {
        return scene.reply(|out| if keeps_target { wire::integer(out, 0) } else { wire::ok(out) });
    }
    check_tables(&from, &to)?;
    if keeps_target && scene.take(&to)?.is_some() {
        return scene.reply(|out| wire::integer(out, 0));
    }
    let changes = vec![put(&to, &taken), Command::plain(from.row(), Action::Delete)];
    scene.change(changes, |out| if keeps_target { wire::integer(out, 1) } else { wire::ok(out) })
}

pub(super) fn copy<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let (from, to) = (scene.place(1)?, scene.place(2)?);
    let (mut replaces, mut words) = (false, scene.line.words(3));
    while let Some(word) = words.next() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "DB")
            && let Some(number) = words.next()
        {
            match integer(number) {
                Some(0) => {}
                Some(_) => return Err(Failure::line("ERR DB index is out of range").into()),
                None => return Err(Failure::line("ERR value is not an integer or out of range").into()),
            }
        } else {
            return Err(SYNTAX.into());
        }
    }
    if from.row() == to.row() {
        return Err(Failure::line("ERR source and destination objects are the same").into());
    }
    let Some(taken) = scene.take(&from)? else { return scene.reply(|out| wire::integer(out, 0)) };
    check_tables(&from, &to)?;
    if !replaces && scene.take(&to)?.is_some() {
        return scene.reply(|out| wire::integer(out, 0));
    }
    scene.change(vec![put(&to, &taken)], |out| wire::integer(out, 1))
}

/// Fields are known by their table's numbers.
fn check_tables(from: &ResolvedKey<'_>, to: &ResolvedKey<'_>) -> Result<(), Halt> {
    if from.table_id() == to.table_id() {
        return Ok(());
    }
    Err(Failure::bad_request("both keys must be rows of the same table").into())
}

fn put<'a>(to: &'a ResolvedKey<'_>, taken: &'a Taken) -> Command<'a> {
    let fields =
        taken.fields.view().iter().map(|entry| FieldValue { field: entry.field, value: entry.value }).collect();
    let ttl = taken.expires_at.map_or(Ttl::Clear, Ttl::At);
    Command { ttl, ..Command::plain(to.row(), Action::Replace(fields)) }
}

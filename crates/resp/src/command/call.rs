//! Commands that ask the engine for something that is not one row: counts, scans, status, kicks, flushes.
//!
//! They run alone: what came before is answered first and what comes after waits, so that a count or a scan sees the
//! writes that the same connection sent before it.

use shardine_model::Version;
use shardine_model::table::KV;
use shardine_router::{Call, Explanation, LocalEngine, NodeCall, Residence, Response, RowCall, ShardsCall, Ticket};

use crate::address;
use crate::command::read::Context;
use crate::command::reply_format::failure_of;
use crate::command::scan::{Keys, Page, RandomKey, RecordPage};
use crate::command::{functions, info};
use crate::connection::{RespConnection, Step};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::frame::{Line, OwnedLine};
use crate::value::{integer, is};
use crate::verb::Verb;
use crate::waiting::{Progress, Waiting};
use crate::wire;

/// What was asked, as far as the answer needs it.
pub(crate) enum Asked {
    /// The answer is `OK`.
    Deed,
    Count,
    Info {
        sections: OwnedLine,
        about: info::About,
    },
    Explain,
    /// The reply, once it is done.
    Libraries(Vec<u8>),
    Page(Page),
    Keys(Keys),
    RandomKey(RandomKey),
    RecordPage(RecordPage),
}

pub(crate) fn call<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    // A status needs no order, and a health check should not wait behind slow commands.
    if verb != Verb::Info && connection.waiting() > 0 {
        return Step::NotYet;
    }
    match plan(connection, verb, line, engine) {
        Err(failure) => connection.fail(&failure, out),
        Ok((call, asked)) => {
            let id = connection.queue.wait(connection.protocol, Waiting::Call(Box::new(asked)));
            engine.call(call, connection.ticket(id, 0));
            if verb != Verb::Info {
                connection.blocked = Some(id);
            }
            Step::Taken
        }
    }
}

fn plan<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Result<(Call, Asked), Failure> {
    match verb {
        Verb::Dbsize => Ok((ShardsCall::Count { table: None }.into(), Asked::Count)),
        Verb::Flushdb | Verb::Flushall => flush_kv(line),
        Verb::Info => {
            let about = info::About::of(connection);
            Ok((NodeCall::Status.into(), Asked::Info { sections: line.to_owned(), about }))
        }
        Verb::Function => functions::plan(connection, line),
        Verb::Scan => Page::plan(line, engine).map(|(call, page)| (RowCall::Scan(call).into(), Asked::Page(page))),
        Verb::Keys => {
            let (call, keys) = Keys::plan(line, engine, connection.options.keys_rows_max);
            Ok((RowCall::Scan(call).into(), Asked::Keys(keys)))
        }
        Verb::Randomkey => {
            let (call, random) = RandomKey::plan(connection.context(engine).chance);
            Ok((RowCall::Scan(call).into(), Asked::RandomKey(random)))
        }
        Verb::RecScan => RecordPage::plan(line, engine.catalogue())
            .map(|(call, page)| (RowCall::Scan(call).into(), Asked::RecordPage(page))),
        Verb::RecKick => kick(line, engine),
        Verb::RecFlush => flush(line, engine),
        Verb::RecExplain => {
            let place = address::parse(line.word(1), engine.catalogue())?;
            Ok((RowCall::Explain { row: place.row().to_owned() }.into(), Asked::Explain))
        }
        other => Err(Failure::unsupported(other.name())),
    }
}

/// Empties `kv` alone: nobody loses rows that belong to SQL by a word that is harmless elsewhere.
fn flush_kv(line: Line<'_>) -> Result<(Call, Asked), Failure> {
    let fits = line.len() == 1 || line.len() == 2 && (is(line.word(1), "ASYNC") || is(line.word(1), "SYNC"));
    if fits { Ok((ShardsCall::Clear { table: KV }.into(), Asked::Deed)) } else { Err(SYNTAX) }
}

fn kick<H: LocalEngine>(line: Line<'_>, engine: &H) -> Result<(Call, Asked), Failure> {
    let nowait = match line.len() {
        2 => false,
        3 if is(line.word(2), "NOWAIT") => true,
        _ => return Err(SYNTAX),
    };
    let place = address::parse(line.word(1), engine.catalogue())?;
    Ok((RowCall::Kick { row: place.row().to_owned(), nowait }.into(), Asked::Deed))
}

fn flush<H: LocalEngine>(line: Line<'_>, engine: &H) -> Result<(Call, Asked), Failure> {
    let call = match line.len() {
        1 => ShardsCall::Flush { table: None }.into(),
        2 => {
            let table = std::str::from_utf8(line.word(1)).ok().and_then(|name| engine.catalogue().named(name));
            match table {
                Some(table) => ShardsCall::Flush { table: Some(table.id) }.into(),
                None => {
                    let row = address::parse(line.word(1), engine.catalogue())?.row().to_owned();
                    RowCall::Flush { row }.into()
                }
            }
        }
        _ => return await_sql(line, engine),
    };
    Ok((call, Asked::Deed))
}

/// `REC.FLUSH key VERSION v [TIMEOUT ms]`.
fn await_sql<H: LocalEngine>(line: Line<'_>, engine: &H) -> Result<(Call, Asked), Failure> {
    let number = |place: usize| integer(line.word(place)).ok_or(NOT_AN_INTEGER);
    let within_ms = match line.len() {
        4 => None,
        6 if is(line.word(4), "TIMEOUT") => Some(u64::try_from(number(5)?).map_err(|_| NOT_AN_INTEGER)?),
        _ => return Err(SYNTAX),
    };
    if !is(line.word(2), "VERSION") {
        return Err(SYNTAX);
    }
    let row = address::parse(line.word(1), engine.catalogue())?.row().to_owned();
    Ok((RowCall::AwaitSql { row, version: Version(number(3)?), within_ms }.into(), Asked::Deed))
}

impl Asked {
    pub(crate) fn advance<H: LocalEngine>(
        &mut self,
        response: Response,
        context: Context,
        ticket: Ticket,
        engine: &mut H,
    ) -> Progress {
        match (self, response) {
            (Self::Deed, Response::Done) => Progress::written(wire::ok),
            (Self::Count, Response::Count(count)) => {
                Progress::written(|out| wire::integer(out, i64::try_from(count).unwrap_or(i64::MAX)))
            }
            (Self::Info { sections, about }, Response::Status(status)) => {
                let text = info::text(sections.line(), about, &status, engine);
                Progress::written(|out| wire::text(out, &text, context.protocol))
            }
            (Self::Explain, Response::Explanation(explanation)) => {
                Progress::written(|out| write_explanation(&explanation, context, out))
            }
            (Self::Libraries(reply), response) => functions::changed(reply, &response),
            (Self::Page(page), Response::Page(rows)) => page.finish(&rows, engine.catalogue()),
            (Self::Keys(keys), Response::Page(rows)) => keys.advance(rows, ticket, engine),
            (Self::RandomKey(random), Response::Page(rows)) => random.advance(rows, context, ticket, engine),
            (Self::RecordPage(page), Response::Page(rows)) => page.finish(&rows, context, engine.catalogue()),
            (_, other) => Progress::failed(&failure_of(&other)),
        }
    }
}

fn write_explanation(explanation: &Explanation, context: Context, out: &mut Vec<u8>) {
    let residence = match explanation.residence {
        Residence::Live => "live",
        Residence::Absent => "absent",
        Residence::NotInMemory => "not_in_memory",
    };
    let shard = &explanation.shard;
    let text = |out: &mut Vec<u8>, name: &str, value: &[u8]| {
        wire::bulk(out, name.as_bytes());
        wire::bulk(out, value);
    };
    let number = |out: &mut Vec<u8>, name: &str, value: i64| {
        wire::bulk(out, name.as_bytes());
        wire::integer(out, value);
    };
    wire::map(out, 10, context.protocol);
    text(out, "table", explanation.table.as_bytes());
    text(out, "partition_key", &explanation.partition_key);
    text(out, "position", format!("{:016x}", explanation.position.0).as_bytes());
    text(out, "route", b"SINGLE_SHARD");
    number(out, "shard", i64::from(shard.shard.0));
    number(out, "leader", shard.leader.map_or(0, |leader| leader.0 as i64));
    text(out, "residence", residence.as_bytes());
    number(out, "version", explanation.version.0);
    number(out, "sql_version", explanation.sql_version.0);
    wire::bulk(out, b"expires_at");
    match explanation.expires_at {
        Some(at) => wire::integer(out, i64::try_from(at.0).unwrap_or(i64::MAX)),
        None => wire::null(out, context.protocol),
    }
}

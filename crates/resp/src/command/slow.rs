//! `SLOWLOG` and `LATENCY`: what took long on this node.

use crate::command::describe;
use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::{Failure, NOT_AN_INTEGER};
use crate::frame::Line;
use crate::value::{integer, is};
use crate::verb::Verb;
use crate::wire;

/// Entries that are shown if nobody says how many.
const SHOWN: usize = 10;

pub(super) fn slow_log(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (what, log) = (line.word(1), &connection.options.slow_log);
    match line.len() {
        2 if is(what, "LEN") => wire::integer(out, log.len() as i64),
        2 if is(what, "RESET") => {
            log.clear();
            wire::ok(out);
        }
        2 if is(what, "GET") => write(connection, SHOWN, out),
        3 if is(what, "GET") => match integer(line.word(2)).ok_or(NOT_AN_INTEGER)? {
            -1 => write(connection, usize::MAX, out),
            count => {
                let count = usize::try_from(count)
                    .map_err(|_| Failure::of_redis("ERR count should be greater than or equal to -1"))?;
                write(connection, count, out);
            }
        },
        2 if is(what, "HELP") => describe::help(
            &[
                "SLOWLOG GET [<count>] | LEN | RESET",
                "What was answered late, the newest first, and how long it took in microseconds.",
            ],
            out,
        ),
        _ if ["GET", "LEN", "RESET", "HELP"].iter().any(|known| is(what, known)) => {
            return Err(wrong_arity(&format!("slowlog|{}", String::from_utf8_lossy(what).to_ascii_lowercase())));
        }
        _ => return Err(describe::no_subcommand(Verb::Slowlog, line)),
    }
    Ok(())
}

fn write(connection: &RespConnection, count: usize, out: &mut Vec<u8>) {
    let entries = connection.options.slow_log.newest(count);
    wire::array(out, entries.len());
    for entry in entries {
        wire::array(out, 6);
        wire::integer(out, entry.id as i64);
        wire::integer(out, (entry.at.0 / 1_000) as i64);
        wire::integer(out, entry.took_us as i64);
        wire::array(out, entry.words.len());
        entry.words.iter().for_each(|word| wire::bulk(out, word));
        wire::bulk(out, entry.address.map_or_else(|| "?:0".to_owned(), |address| address.to_string()).as_bytes());
        wire::bulk(out, &entry.name);
    }
}

/// As a Redis answers whose monitor is off, which it is from the start. The times themselves are in `/metrics`.
pub(super) fn latency(line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let what = line.word(1);
    match line.len() {
        2 if is(what, "LATEST") => wire::array(out, 0),
        2 if is(what, "DOCTOR") => {
            wire::bulk(
                out,
                b"No events are kept: SLOWLOG has commands that took long, /metrics how long all of them take.",
            );
        }
        3 if is(what, "HISTORY") => wire::array(out, 0),
        _ if is(what, "RESET") => wire::integer(out, 0),
        2 if is(what, "HELP") => describe::help(&["LATENCY LATEST | HISTORY <event> | RESET | DOCTOR"], out),
        _ if is(what, "HISTOGRAM") || is(what, "GRAPH") => {
            return Err(Failure::unsupported("how long commands take is in /metrics of the HTTP door"));
        }
        _ if ["LATEST", "DOCTOR", "HISTORY", "HELP"].iter().any(|known| is(what, known)) => {
            return Err(wrong_arity(&format!("latency|{}", String::from_utf8_lossy(what).to_ascii_lowercase())));
        }
        _ => return Err(describe::no_subcommand(Verb::Latency, line)),
    }
    Ok(())
}

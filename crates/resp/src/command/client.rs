//! `CLIENT …`: what a connection says about itself. Those about others stand in `others`.

use shardine_model::Timestamp;

use crate::command::reply_format::wrong_arity;
use crate::command::{describe, others};
use crate::connection::RespConnection;
use crate::failure::{Failure, SYNTAX};
use crate::frame::Line;
use crate::value::{is, quote};
use crate::wire;

/// Bytes of a name or of library information; it is kept for the life of the connection.
const NAME_BYTES_MAX: usize = 256;

/// Subcommands that are all here, whose fault can only be the number of their words.
const HERE: [&str; 10] =
    ["getname", "getredir", "help", "id", "info", "setinfo", "setname", "trackinginfo", "unblock", "unpause"];
/// Subcommands that Redis has, and that are not here or not in every form.
const ELSEWHERE: [&str; 5] = ["CACHING", "NO-EVICT", "NO-TOUCH", "REPLY", "TRACKING"];

pub(super) fn answer(
    connection: &mut RespConnection,
    line: Line<'_>,
    now: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let (what, words) = (line.word(1), line.len());
    match words {
        _ if is(what, "LIST") => others::list(connection, line, now, out)?,
        _ if is(what, "KILL") => others::kill(connection, line, now, out)?,
        _ if is(what, "PAUSE") => others::pause(connection, line, now, out)?,
        2 if is(what, "UNPAUSE") => {
            connection.options.roster.end_pause();
            wire::ok(out);
        }
        2 if is(what, "INFO") => {
            connection.show(now);
            wire::text(out, &others::describe(&connection.seat.card, now), connection.protocol);
        }
        2 | 3 if is(what, "TRACKINGINFO") || is(what, "GETREDIR") || is(what, "TRACKING") => {
            tracking(connection, line, out)?;
        }
        // No command here waits for what others do.
        3 if is(what, "UNBLOCK") => wire::integer(out, 0),
        2 if is(what, "HELP") => describe::help(&HELP, out),
        2 if is(what, "ID") => wire::integer(out, connection.peer.number()),
        2 if is(what, "GETNAME") && connection.name.is_empty() => wire::null(out, connection.protocol),
        2 if is(what, "GETNAME") => wire::bulk(out, &connection.name),
        3 if is(what, "SETNAME") => {
            set_name(connection, line.word(2))?;
            wire::ok(out);
        }
        4 if is(what, "SETINFO") => {
            set_library(connection, line.word(2), line.word(3))?;
            wire::ok(out);
        }
        // There is nothing to evict and no access time to keep: what they ask for is so already.
        3 if is(what, "NO-EVICT") || is(what, "NO-TOUCH") => match line.word(2) {
            word if is(word, "ON") || is(word, "OFF") => wire::ok(out),
            _ => return Err(SYNTAX),
        },
        3 if is(what, "REPLY") && is(line.word(2), "ON") => wire::ok(out),
        _ if HERE.iter().any(|name| is(what, name)) => {
            let name = String::from_utf8_lossy(what).to_ascii_lowercase();
            return Err(wrong_arity(&format!("client|{name}")));
        }
        _ if ELSEWHERE.iter().any(|name| is(what, name)) => {
            return Err(Failure::unsupported(format!("Shardine has no CLIENT {} of this form", quote(what))));
        }
        _ => return Err(Failure::line([b"ERR unknown subcommand '", what, b"'. Try CLIENT HELP."].concat())),
    }
    Ok(())
}

const HELP: [&str; 4] = [
    "CLIENT ID | GETNAME | SETNAME <name> | SETINFO <option> <value> | INFO",
    "CLIENT LIST [TYPE <type> | ID <id> ...] | KILL <filters>",
    "CLIENT PAUSE <milliseconds> [WRITE | ALL] | UNPAUSE",
    "CLIENT NO-EVICT | NO-TOUCH <ON | OFF>",
];

/// Nobody's keys are tracked, and to turn off what is off is no mistake.
fn tracking(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (what, words) = (line.word(1), line.len());
    if words == 2 && is(what, "GETREDIR") {
        wire::integer(out, -1);
    } else if words == 2 && is(what, "TRACKINGINFO") {
        wire::map(out, 3, connection.protocol);
        wire::bulk(out, b"flags");
        wire::set(out, 1, connection.protocol);
        wire::bulk(out, b"off");
        wire::bulk(out, b"redirect");
        wire::integer(out, -1);
        wire::bulk(out, b"prefixes");
        wire::array(out, 0);
    } else if words == 3 && is(what, "TRACKING") && is(line.word(2), "OFF") {
        wire::ok(out);
    } else {
        return Err(Failure::unsupported("Shardine does not tell clients which keys have changed"));
    }
    Ok(())
}

pub(super) fn set_name(connection: &mut RespConnection, name: &[u8]) -> Result<(), Failure> {
    connection.name = checked(name, "Client names")?;
    connection.show_names();
    Ok(())
}

fn set_library(connection: &mut RespConnection, which: &[u8], value: &[u8]) -> Result<(), Failure> {
    let index = match which {
        word if is(word, "LIB-NAME") => 0,
        word if is(word, "LIB-VER") => 1,
        other => return Err(Failure::line([b"ERR Unrecognized option '", other, b"'"].concat())),
    };
    connection.library[index] = checked(value, "Library names and versions")?;
    connection.show_names();
    Ok(())
}

fn checked(text: &[u8], what: &str) -> Result<Vec<u8>, Failure> {
    if text.len() <= NAME_BYTES_MAX && text.iter().all(u8::is_ascii_graphic) {
        return Ok(text.to_vec());
    }
    Err(Failure::line(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

//! `CLIENT …`: what a connection says about itself. Knows no other connection.

use std::net::SocketAddr;

use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::{Failure, SYNTAX};
use crate::frame::Line;
use crate::value::{is, quote};
use crate::wire;

/// Bytes of a name or of library information; it is kept for the life of the connection.
const NAME_BYTES_MAX: usize = 256;

/// Subcommands that are all here, whose fault can only be the number of their words.
const HERE: [&str; 5] = ["getname", "id", "info", "setinfo", "setname"];
/// Subcommands that Redis has, and that are not here or not in every form.
const ELSEWHERE: [&str; 12] = [
    "CACHING",
    "GETREDIR",
    "HELP",
    "KILL",
    "NO-EVICT",
    "NO-TOUCH",
    "PAUSE",
    "REPLY",
    "TRACKING",
    "TRACKINGINFO",
    "UNBLOCK",
    "UNPAUSE",
];

pub(super) fn answer(connection: &mut RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (what, words) = (line.word(1), line.len());
    match words {
        2 if is(what, "ID") => wire::integer(out, connection.peer.number()),
        2 if is(what, "GETNAME") && connection.name.is_empty() => wire::null(out, connection.protocol),
        2 if is(what, "GETNAME") => wire::bulk(out, &connection.name),
        2 if is(what, "INFO") => wire::text(out, &describe(connection), connection.protocol),
        _ if is(what, "LIST") => wire::text(out, &describe(connection), connection.protocol),
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

pub(super) fn set_name(connection: &mut RespConnection, name: &[u8]) -> Result<(), Failure> {
    connection.name = checked(name, "Client names")?;
    Ok(())
}

fn set_library(connection: &mut RespConnection, which: &[u8], value: &[u8]) -> Result<(), Failure> {
    let index = match which {
        word if is(word, "LIB-NAME") => 0,
        word if is(word, "LIB-VER") => 1,
        other => return Err(Failure::line([b"ERR Unrecognized option '", other, b"'"].concat())),
    };
    connection.library[index] = checked(value, "Library names and versions")?;
    Ok(())
}

fn checked(text: &[u8], what: &str) -> Result<Vec<u8>, Failure> {
    if text.len() <= NAME_BYTES_MAX && text.iter().all(u8::is_ascii_graphic) {
        return Ok(text.to_vec());
    }
    Err(Failure::line(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

fn address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "?:0".to_owned(), |address| address.to_string())
}

/// The line of `CLIENT LIST`. Libraries expect every name that Redis has; what the connection cannot know is zero, and so is
/// what waits to be sent, which would only tell how the network cut the commands before this one.
fn describe(connection: &RespConnection) -> String {
    let [library, version] = &connection.library;
    format!(
        "id={} addr={} laddr={} fd=0 name={} age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi={} watch={} qbuf=0 \
         qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=rw cmd=client user=default \
         redir=-1 resp={} lib-name={} lib-ver={}\n",
        connection.peer.id,
        address(connection.peer.address),
        address(connection.peer.local),
        String::from_utf8_lossy(&connection.name),
        connection.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64),
        connection.watched.len(),
        connection.protocol.number(),
        String::from_utf8_lossy(library),
        String::from_utf8_lossy(version),
    )
}

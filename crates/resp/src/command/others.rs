//! `CLIENT LIST|KILL|PAUSE|UNPAUSE`: what a client may know of the node's others, and do to them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use shardine_model::Timestamp;

use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::{Failure, SYNTAX};
use crate::frame::Line;
use crate::roster::{Card, Scope};
use crate::value::{integer, is};
use crate::wire;

const BAD_NUMBER: Failure = Failure::of_redis("ERR client-id should be greater than 0");

/// Which clients are meant: all that every part given fits.
#[derive(Default)]
struct Filter<'a> {
    ids: Option<Vec<u64>>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    nobody: bool,
    spares: Option<u64>,
    older_than_ms: Option<u64>,
}

impl Filter<'_> {
    fn takes(&self, card: &Card, now: Timestamp) -> bool {
        let is_at = |wanted: Option<&[u8]>, at: Option<SocketAddr>| wanted.is_none_or(|it| shown(at).as_bytes() == it);
        let age_ms = now.0.saturating_sub(card.since_ms.load(Ordering::Relaxed));
        !self.nobody
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&card.peer.id))
            && is_at(self.address, card.peer.address)
            && is_at(self.local, card.peer.local)
            && self.spares != Some(card.peer.id)
            && self.older_than_ms.is_none_or(|limit| age_ms >= limit)
    }
}

/// Whether clients of that kind are here at all: none are replicas, and none listen to channels.
fn is_normal(kind: &[u8]) -> Result<bool, Failure> {
    match kind {
        kind if is(kind, "NORMAL") => Ok(true),
        kind if ["MASTER", "REPLICA", "SLAVE", "PUBSUB"].iter().any(|known| is(kind, known)) => Ok(false),
        other => Err(Failure::line([b"ERR Unknown client type '", other, b"'"].concat())),
    }
}

fn id(word: &[u8]) -> Option<u64> {
    integer(word).and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
}

pub(super) fn list(
    connection: &RespConnection,
    line: Line<'_>,
    now: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    connection.show(now);
    let mut filter = Filter::default();
    match line.len() {
        2 => {}
        4 if is(line.word(2), "TYPE") => filter.nobody = !is_normal(line.word(3))?,
        4.. if is(line.word(2), "ID") => {
            let ids: Option<Vec<u64>> = line.words(3).map(id).collect();
            filter.ids = Some(ids.ok_or(Failure::of_redis("ERR Invalid client ID"))?);
        }
        _ => return Err(SYNTAX),
    }
    let cards = connection.options.roster.cards();
    let text: String = cards.iter().filter(|card| filter.takes(card, now)).map(|card| describe(card, now)).collect();
    wire::text(out, &text, connection.protocol);
    Ok(())
}

/// `CLIENT KILL addr:port`, or with parts of which each narrows the others down. Those meant end within a tick, whatever they wait for.
pub(super) fn kill(
    connection: &mut RespConnection,
    line: Line<'_>,
    now: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let is_old_form = line.len() == 3;
    let filter = match line.len() {
        0..=2 => return Err(wrong_arity("client|kill")),
        3 => Filter { address: Some(line.word(2)), ..Filter::default() },
        _ => parts(connection, line)?,
    };
    let mut killed = 0;
    for card in connection.options.roster.cards().iter().filter(|card| filter.takes(card, now)) {
        killed += 1;
        if card.peer.id == connection.peer.id {
            // Its reply still leaves.
            connection.is_closing = true;
        } else {
            card.kill();
        }
    }
    match (is_old_form, killed) {
        (true, 0) => return Err(Failure::of_redis("ERR No such client")),
        (true, _) => wire::ok(out),
        (false, killed) => wire::integer(out, killed),
    }
    Ok(())
}

fn parts<'a>(connection: &RespConnection, line: Line<'a>) -> Result<Filter<'a>, Failure> {
    let mut filter = Filter { spares: Some(connection.peer.id), ..Filter::default() };
    let mut words = line.words(2);
    while let Some(what) = words.next() {
        let Some(value) = words.next() else { return Err(SYNTAX) };
        match what {
            what if is(what, "ID") => filter.ids = Some(vec![id(value).ok_or(BAD_NUMBER)?]),
            what if is(what, "ADDR") => filter.address = Some(value),
            what if is(what, "LADDR") => filter.local = Some(value),
            what if is(what, "TYPE") => filter.nobody |= !is_normal(value)?,
            what if is(what, "USER") && value == b"default" => {}
            what if is(what, "USER") => {
                return Err(Failure::line([b"ERR No such user '", value, b"'"].concat()));
            }
            what if is(what, "SKIPME") && is(value, "YES") => filter.spares = Some(connection.peer.id),
            what if is(what, "SKIPME") && is(value, "NO") => filter.spares = None,
            what if is(what, "MAXAGE") => {
                let seconds = id(value).ok_or(Failure::of_redis("ERR maxage should be greater than 0"))?;
                filter.older_than_ms = Some(seconds.saturating_mul(1_000));
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(filter)
}

/// Clients of this node wait; those of other nodes, and what the node does by itself, go on.
pub(super) fn pause(
    connection: &RespConnection,
    line: Line<'_>,
    now: Timestamp,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let scope = match line.len() {
        3 => Scope::All,
        4 if is(line.word(3), "ALL") => Scope::All,
        4 if is(line.word(3), "WRITE") => Scope::Writes,
        4 => return Err(Failure::of_redis("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(wrong_arity("client|pause")),
    };
    let for_ms = integer(line.word(2)).ok_or(Failure::of_redis("ERR timeout is not an integer or out of range"))?;
    let for_ms = u64::try_from(for_ms).map_err(|_| Failure::of_redis("ERR timeout is negative"))?;
    connection.options.roster.pause(Timestamp(now.0.saturating_add(for_ms)), scope, now);
    wire::ok(out);
    Ok(())
}

/// As Redis has them: `b` waits, `x` is between `MULTI` and `EXEC`.
fn flags(card: &Card) -> &'static str {
    match (card.is_held.load(Ordering::Relaxed), card.queued.load(Ordering::Relaxed) >= 0) {
        (true, true) => "xb",
        (true, false) => "b",
        (false, true) => "x",
        (false, false) => "N",
    }
}

fn shown(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "?:0".to_owned(), |address| address.to_string())
}

/// A line of `CLIENT LIST`. Libraries expect every name that Redis has; what a card does not tell is zero, and so is what waits to
/// be sent, which would only tell how the network cut the commands before this one.
pub(super) fn describe(card: &Card, now: Timestamp) -> String {
    let said = card.said();
    let [library, version] = &said.library;
    let seconds = |since_ms: u64| now.0.saturating_sub(since_ms) / 1_000;
    let load = |number: &std::sync::atomic::AtomicI64| number.load(Ordering::Relaxed);
    format!(
        "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 multi={} watch={} qbuf=0 \
         qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=rw cmd=client user=default \
         redir=-1 resp={} lib-name={} lib-ver={}\n",
        card.peer.id,
        shown(card.peer.address),
        shown(card.peer.local),
        String::from_utf8_lossy(&said.name),
        seconds(card.since_ms.load(Ordering::Relaxed)),
        seconds(card.seen_ms.load(Ordering::Relaxed)),
        flags(card),
        load(&card.queued),
        card.watched.load(Ordering::Relaxed),
        load(&card.protocol),
        String::from_utf8_lossy(library),
        String::from_utf8_lossy(version),
    )
}

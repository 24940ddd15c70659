//! `CONFIG`: settings by their Redis names, as they are in effect here. What is given when the server starts is not changed through
//! this door (reliability S9), only what the slow log keeps; those that mean nothing here are taken politely, so that programs which
//! tune Redis go on.

use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::Failure;
use crate::frame::Line;
use crate::glob;
use crate::options::Options;
use crate::value::{integer, is, quote};
use crate::wire;

/// What is fixed, or given when the server starts.
const FIXED: [(&str, &str); 10] = [
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("bind", "127.0.0.1"),
    ("databases", "1"),
    ("io-threads", "1"),
    ("maxmemory-policy", "noeviction"),
    ("proto-max-bulk-len", "33554432"),
    ("requirepass", ""),
    ("save", ""),
    ("timeout", "0"),
];

/// How Redis lays its own data out, cleans up and watches itself, with its defaults. Nothing here depends on it.
const MEANINGLESS: [(&str, &str); 21] = [
    ("active-expire-effort", "1"),
    ("activedefrag", "no"),
    ("activerehashing", "yes"),
    ("dynamic-hz", "yes"),
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "512"),
    ("hash-max-ziplist-value", "64"),
    ("hz", "10"),
    ("latency-monitor-threshold", "0"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-user-flush", "no"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("maxmemory-samples", "5"),
    ("rdbchecksum", "yes"),
    ("rdbcompression", "yes"),
    ("set-max-intset-entries", "512"),
];

pub(super) fn config(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    match line.word(1) {
        word if is(word, "GET") && line.len() > 2 => get(connection, line, out),
        word if is(word, "GET") => return Err(wrong_arity("config|get")),
        word if is(word, "SET") && line.len() > 3 => set(&connection.options, line, out)?,
        word if is(word, "SET") => return Err(wrong_arity("config|set")),
        word if is(word, "RESETSTAT") => wire::ok(out),
        other => {
            let sentence =
                format!("Shardine has no CONFIG {}: settings are given when the server starts", quote(other));
            return Err(Failure::unsupported(sentence));
        }
    }
    Ok(())
}

fn settings(options: &Options) -> impl Iterator<Item = (&'static str, String)> {
    let own = [
        ("maxclients", options.connections_max.to_string()),
        ("maxmemory", options.memory_max.to_string()),
        (SLOWER_THAN, options.slow_log.slower_than_us().to_string()),
        (SLOW_MAX, options.slow_log.entries_max().to_string()),
    ];
    own.into_iter().chain(FIXED.iter().chain(&MEANINGLESS).map(|(name, value)| (*name, (*value).to_owned())))
}

fn get(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) {
    let wanted = |name: &str| line.words(2).any(|word| glob::matches(&word.to_ascii_lowercase(), name.as_bytes()));
    let found: Vec<_> = settings(&connection.options).filter(|(name, _)| wanted(name)).collect();
    wire::map(out, found.len(), connection.protocol);
    for (name, value) in found {
        wire::bulk(out, name.as_bytes());
        wire::bulk(out, value.as_bytes());
    }
}

const SLOWER_THAN: &str = "slowlog-log-slower-than";
const SLOW_MAX: &str = "slowlog-max-len";

/// What the slow log keeps: of this node, until it restarts.
enum Slow {
    LongerThan(i64),
    Entries(usize),
}

fn slow(name: &[u8], value: &[u8]) -> Result<Option<Slow>, Failure> {
    let number = integer(value);
    let setting = match name {
        name if is(name, SLOWER_THAN) => number.filter(|number| *number >= -1).map(Slow::LongerThan),
        name if is(name, SLOW_MAX) => number.and_then(|number| usize::try_from(number).ok()).map(Slow::Entries),
        _ => return Ok(None),
    };
    let bad = || {
        let words: [&[u8]; 3] =
            [b"ERR CONFIG SET failed (possibly related to argument '", name, b"') - argument must be a number"];
        Failure::line(words.concat())
    };
    setting.map(Some).ok_or_else(bad)
}

/// All or none, as in Redis. To set what is so already is no change.
fn set(options: &Options, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    if !line.len().is_multiple_of(2) {
        return Err(wrong_arity("config|set"));
    }
    let (mut words, mut settings_of_slow) = (line.words(2), Vec::new());
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if MEANINGLESS.iter().any(|(known, _)| is(name, known)) {
            continue;
        }
        if let Some(setting) = slow(name, value)? {
            settings_of_slow.push(setting);
            continue;
        }
        match settings(options).find(|(known, _)| is(name, known)) {
            Some((_, current)) if is(value, &current) => {}
            Some((known, current)) => {
                let sentence =
                    format!("{known} is {current:?} while the server runs: settings are given when it starts");
                return Err(Failure::unsupported(sentence));
            }
            None => {
                let words = [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"];
                return Err(Failure::line(words.concat()));
            }
        }
    }
    for setting in settings_of_slow {
        match setting {
            Slow::LongerThan(micros) => options.slow_log.set_slower_than_us(micros),
            Slow::Entries(count) => options.slow_log.set_entries_max(count),
        }
    }
    wire::ok(out);
    Ok(())
}

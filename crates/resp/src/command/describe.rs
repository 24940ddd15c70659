//! `COMMAND`: what client libraries and redis-benchmark ask about a server's commands when they connect.

use crate::command::docs;
use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::Failure;
use crate::frame::Line;
use crate::value::{integer, is, quote};
use crate::verb::{Kind, Verb};
use crate::wire::{self, Protocol};

pub(super) fn command(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let protocol = connection.protocol;
    match line.word(1) {
        _ if line.len() == 1 => write_all(Verb::ALL.iter().map(|&verb| Some(verb)), protocol, out),
        word if is(word, "COUNT") => wire::integer(out, Verb::ALL.len() as i64),
        word if is(word, "INFO") && line.len() == 2 => {
            write_all(Verb::ALL.iter().map(|&verb| Some(verb)), protocol, out);
        }
        word if is(word, "INFO") => write_all(line.words(2).map(Verb::find), protocol, out),
        word if is(word, "LIST") => {
            wire::array(out, Verb::ALL.len());
            Verb::ALL.iter().for_each(|verb| wire::bulk(out, verb.name().to_ascii_lowercase().as_bytes()));
        }
        word if is(word, "DOCS") => docs::docs(line, protocol, out),
        word if is(word, "GETKEYS") && line.len() < 4 => return Err(wrong_arity("command|getkeys")),
        word if is(word, "GETKEYS") => write_keys(line, out)?,
        other => return Err(Failure::unsupported(format!("Shardine has no COMMAND {}", quote(other)))),
    }
    Ok(())
}

/// What is said to a subcommand of `OBJECT` or `MEMORY` that names no key, or that is not here.
pub(crate) fn no_subcommand(verb: Verb, line: Line<'_>) -> Failure {
    let (name, what) = (verb.name(), line.word(1));
    if ["ENCODING", "FREQ", "IDLETIME", "REFCOUNT", "USAGE"].iter().any(|known| is(what, known)) {
        let what = String::from_utf8_lossy(what).to_ascii_lowercase();
        return wrong_arity(&format!("{}|{what}", name.to_ascii_lowercase()));
    }
    if ["HELP", "DOCTOR", "MALLOC-STATS", "PURGE", "STATS"].iter().any(|known| is(what, known)) {
        return Failure::unsupported(format!("Shardine has no {name} {}", quote(what)));
    }
    Failure::line([b"ERR unknown subcommand '", what, b"'. Try ", name.as_bytes(), b" HELP."].concat())
}

/// Lines of a `HELP`.
pub(crate) fn help(lines: &[&str], out: &mut Vec<u8>) {
    wire::array(out, lines.len());
    lines.iter().for_each(|line| wire::simple(out, line));
}

fn write_all(verbs: impl ExactSizeIterator<Item = Option<Verb>>, protocol: Protocol, out: &mut Vec<u8>) {
    wire::array(out, verbs.len());
    for verb in verbs {
        match verb {
            Some(verb) => write_one(verb, protocol, out),
            None => wire::null_array(out, protocol),
        }
    }
}

/// Name, arity, flags, keys, and four more that Redis 7 adds: categories, tips, key specifications, subcommands.
fn write_one(verb: Verb, protocol: Protocol, out: &mut Vec<u8>) {
    wire::array(out, 10);
    wire::bulk(out, verb.name().to_ascii_lowercase().as_bytes());
    wire::integer(out, verb.arity());
    let flag = match verb.kind() {
        Kind::Atomic if verb.only_looks() => "readonly",
        Kind::Read | Kind::ReadMany => "readonly",
        Kind::Change | Kind::ChangeMany | Kind::Atomic => "write",
        Kind::Program => "noscript",
        Kind::Call if matches!(verb, Verb::Flushdb | Verb::Flushall) => "write",
        Kind::Call if verb.keys().first > 0 || verb.reads_keyspace() => "readonly",
        Kind::Call => "admin",
        Kind::Own | Kind::Control => "fast",
    };
    wire::set(out, 1, protocol);
    wire::simple(out, flag);
    let keys = verb.keys();
    [keys.first, keys.last, keys.step].into_iter().for_each(|number| wire::integer(out, number));
    wire::set(out, 0, protocol);
    let tips = tips(verb);
    wire::array(out, tips.len());
    tips.iter().for_each(|tip| wire::bulk(out, tip.as_bytes()));
    (0..2).for_each(|_| wire::array(out, 0));
}

/// How a client that knows several nodes asks and adds up (redis-cluster A-16).
fn tips(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Mget | Verb::Mset => &["request_policy:multi_shard"],
        Verb::Del | Verb::Unlink | Verb::Exists | Verb::Touch => {
            &["request_policy:multi_shard", "response_policy:agg_sum"]
        }
        Verb::Dbsize => &["request_policy:all_shards", "response_policy:agg_sum"],
        Verb::Flushdb | Verb::Flushall => &["request_policy:all_shards", "response_policy:all_succeeded"],
        Verb::Keys => &["request_policy:all_shards"],
        _ => &[],
    }
}

fn write_keys(line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let verb = Verb::find(line.word(2)).ok_or(Failure::line("ERR Invalid command specified"))?;
    let keys = verb.keys();
    if keys.first == 0 && verb.kind() != Kind::Program {
        return Err(Failure::line("ERR The command has no key arguments"));
    }
    let words = line.len() - 2;
    if !verb.takes(words) {
        return Err(Failure::line("ERR Invalid number of arguments specified for command"));
    }
    // Scripts say how many they name; of the others it is known where the last one stands.
    let (first, last, step) = if verb.kind() == Kind::Program {
        let count = integer(line.word(4)).filter(|count| (0..=words as i64 - 3).contains(count));
        (3, 2 + count.ok_or(Failure::of_redis("ERR Invalid arguments specified for command"))?, 1)
    } else {
        (keys.first, if keys.last < 0 { words as i64 + keys.last } else { keys.last }, keys.step)
    };
    let found: Vec<&[u8]> = (first..=last).step_by(step as usize).map(|at| line.word(2 + at as usize)).collect();
    wire::array(out, found.len());
    found.into_iter().for_each(|key| wire::bulk(out, key));
    Ok(())
}

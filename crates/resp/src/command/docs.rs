//! `COMMAND DOCS`: a line on each command, which redis-cli shows while one types.

use crate::frame::Line;
use crate::verb::{Kind, Verb};
use crate::wire::{self, Protocol};

pub(super) fn docs(line: Line<'_>, protocol: Protocol, out: &mut Vec<u8>) {
    let asked: Vec<Verb> = match line.len() {
        2 => Verb::ALL.to_vec(),
        _ => line.words(2).filter_map(Verb::find).collect(),
    };
    wire::map(out, asked.len(), protocol);
    for verb in asked {
        wire::bulk(out, verb.name().to_ascii_lowercase().as_bytes());
        wire::map(out, 3, protocol);
        for (name, value) in [("summary", summary(verb)), ("since", "1.0.0"), ("group", group(verb))] {
            wire::bulk(out, name.as_bytes());
            wire::bulk(out, value.as_bytes());
        }
    }
}

fn summary(verb: Verb) -> &'static str {
    let place = SUMMARIES.binary_search_by_key(&verb.name(), |(name, _)| name);
    place.map_or("", |place| SUMMARIES[place].1)
}

/// By Redis's groups, which programs know.
fn group(verb: Verb) -> &'static str {
    let name = verb.name();
    match verb.kind() {
        _ if name.starts_with("REC.") => "module",
        Kind::Program => "scripting",
        _ if matches!(verb, Verb::Script | Verb::Function) => "scripting",
        Kind::Control if !matches!(verb, Verb::Quit | Verb::Reset) => "transactions",
        _ if verb == Verb::Unwatch => "transactions",
        Kind::Control => "connection",
        _ if CONNECTION.contains(&name) => "connection",
        Kind::Own => "server",
        _ if SERVER.contains(&name) => "server",
        _ if name.starts_with("BIT") || name.ends_with("BIT") => "bitmap",
        _ if GENERIC.contains(&name) => "generic",
        _ if name.starts_with('H') => "hash",
        Kind::Read | Kind::ReadMany | Kind::Change | Kind::ChangeMany | Kind::Call | Kind::Atomic => "string",
    }
}

const CONNECTION: [&str; 6] = ["AUTH", "CLIENT", "ECHO", "HELLO", "PING", "SELECT"];
const SERVER: [&str; 5] = ["DBSIZE", "FLUSHALL", "FLUSHDB", "INFO", "MEMORY"];
#[rustfmt::skip]
const GENERIC: [&str; 23] = [
    "COPY", "DEL", "DUMP", "EXISTS", "EXPIRE", "EXPIREAT", "EXPIRETIME", "KEYS", "OBJECT", "PERSIST", "PEXPIRE", "PEXPIREAT",
    "PEXPIRETIME", "PTTL", "RANDOMKEY", "RENAME", "RENAMENX", "RESTORE", "SCAN", "TOUCH", "TTL", "TYPE", "UNLINK",
];

/// By name, in the order of the names.
const SUMMARIES: &[(&str, &str)] = &[
    ("APPEND", "Puts a text behind a string."),
    ("AUTH", "Says who the client is."),
    ("BITCOUNT", "Counts the bits of a string that are set."),
    ("BITFIELD", "Reads and changes numbers of any width within a string."),
    ("BITFIELD_RO", "Reads numbers of any width within a string."),
    ("BITOP", "Combines strings bit by bit into another one."),
    ("BITPOS", "Finds the first bit that is set, or is not."),
    ("CLIENT", "About the clients of this node."),
    ("CLUSTER", "This door is that of a Redis without a cluster; every node takes every command."),
    ("COMMAND", "About the commands that there are."),
    ("CONFIG", "Settings by their Redis names."),
    ("COPY", "Copies a record to another key of its partition."),
    ("DBSIZE", "Counts the records in memory."),
    ("DECR", "Takes one off a number."),
    ("DECRBY", "Takes so much off a number."),
    ("DEL", "Deletes records."),
    ("DISCARD", "Gives a transaction up."),
    ("DUMP", "Gives a record as bytes for RESTORE."),
    ("ECHO", "Says what it is told."),
    ("EVAL", "Runs a script."),
    ("EVALSHA", "Runs a script that the node knows."),
    ("EVALSHA_RO", "Runs a script that the node knows and that changes nothing."),
    ("EVAL_RO", "Runs a script that changes nothing."),
    ("EXEC", "Carries a transaction out, at one moment."),
    ("EXISTS", "Counts those keys that have a record."),
    ("EXPIRE", "Gives a record so many seconds to live."),
    ("EXPIREAT", "Has a record end at a moment, in seconds."),
    ("EXPIRETIME", "Tells the moment at which a record ends, in seconds."),
    ("FCALL", "Calls a function."),
    ("FCALL_RO", "Calls a function that changes nothing."),
    ("FLUSHALL", "Empties kv, and no table of SQL."),
    ("FLUSHDB", "Empties kv, and no table of SQL."),
    ("FUNCTION", "Libraries of functions, the same on all nodes."),
    ("GET", "Reads a string."),
    ("GETBIT", "Reads a bit of a string."),
    ("GETDEL", "Reads a string and deletes it."),
    ("GETEX", "Reads a string and changes its time to live."),
    ("GETRANGE", "Reads a part of a string."),
    ("GETSET", "Sets a string and gives what it was."),
    ("HDEL", "Deletes fields."),
    ("HELLO", "Chooses the protocol, and greets."),
    ("HEXISTS", "Whether a record has a field."),
    ("HGET", "Reads a field."),
    ("HGETALL", "Reads all fields."),
    ("HINCRBY", "Adds to a field."),
    ("HINCRBYFLOAT", "Adds a fraction to a field."),
    ("HKEYS", "Names all fields."),
    ("HLEN", "Counts the fields."),
    ("HMGET", "Reads some fields."),
    ("HMSET", "Sets fields."),
    ("HRANDFIELD", "Names some fields, by chance."),
    ("HSCAN", "Gives all fields, in one page."),
    ("HSET", "Sets fields."),
    ("HSETNX", "Sets a field that is not there."),
    ("HSTRLEN", "Tells how long a field's value is."),
    ("HVALS", "Gives the values of all fields."),
    ("INCR", "Adds one to a number."),
    ("INCRBY", "Adds to a number."),
    ("INCRBYFLOAT", "Adds a fraction to a number."),
    ("INFO", "Tells how this node does."),
    ("KEYS", "Lists keys by a pattern, if there are few."),
    ("LATENCY", "As a Redis whose monitor is off."),
    ("LCS", "Finds what two strings have in common."),
    ("MEMORY", "Tells what a record takes of memory."),
    ("MGET", "Reads strings."),
    ("MSET", "Sets strings, each by itself."),
    ("MSETNX", "Sets strings of one partition if none of them is there."),
    ("MULTI", "Begins a transaction."),
    ("OBJECT", "Tells how Redis would hold a record."),
    ("PERSIST", "Lets a record live without end."),
    ("PEXPIRE", "Gives a record so many milliseconds to live."),
    ("PEXPIREAT", "Has a record end at a moment, in milliseconds."),
    ("PEXPIRETIME", "Tells the moment at which a record ends, in milliseconds."),
    ("PING", "Whether somebody is there."),
    ("PSETEX", "Sets a string with milliseconds to live."),
    ("PTTL", "Tells how many milliseconds a record has to live."),
    ("QUIT", "Hangs up."),
    ("RANDOMKEY", "Names some key, by chance."),
    ("READONLY", "This door has no replicas."),
    ("READWRITE", "This door has no replicas."),
    ("REC.CALL", "Is not offered yet."),
    ("REC.CAS", "Sets a field if it holds what is expected."),
    ("REC.DEL", "Deletes a record."),
    ("REC.EXPLAIN", "Tells where a record is, and how it is."),
    ("REC.FLUSH", "Waits until SQL has what is current."),
    ("REC.GET", "Reads a record with its version."),
    ("REC.INSERT", "Makes a record that is not there."),
    ("REC.KICK", "Drops a record from memory that SQL has."),
    ("REC.REPLACE", "Makes a record anew."),
    ("REC.SCAN", "Gives rows in their order, page by page."),
    ("REC.SET", "Sets fields, under a version if that is asked for."),
    ("REC.UPDATE", "Changes fields by operations, all or none."),
    ("RENAME", "Gives a record another key of its partition."),
    ("RENAMENX", "Gives a record another key of its partition, if that is free."),
    ("RESET", "Makes the connection as new."),
    ("RESTORE", "Makes a record of what DUMP gave."),
    ("ROLE", "Always that of a master."),
    ("SCAN", "Gives keys page by page."),
    ("SCRIPT", "The scripts that this node knows."),
    ("SELECT", "There is database 0."),
    ("SET", "Sets a string."),
    ("SETBIT", "Changes a bit of a string."),
    ("SETEX", "Sets a string with seconds to live."),
    ("SETNX", "Sets a string that is not there."),
    ("SETRANGE", "Overwrites a part of a string."),
    ("SLOWLOG", "What took this node long."),
    ("STRLEN", "Tells how long a string is."),
    ("SUBSTR", "Reads a part of a string."),
    ("TIME", "What time it is for this node."),
    ("TOUCH", "Counts those keys that have a record."),
    ("TTL", "Tells how many seconds a record has to live."),
    ("TYPE", "Whether a record is a string or a hash."),
    ("UNLINK", "Deletes records."),
    ("UNWATCH", "Forgets what was watched."),
    ("WAIT", "Nothing is to be waited for: what was answered is on a majority."),
    ("WATCH", "Binds the next transaction to what records are now."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_told_of_once() {
        assert!(SUMMARIES.is_sorted_by(|(one, _), (next, _)| one < next));
        let mut names: Vec<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
        names.sort_unstable();
        assert_eq!(names, SUMMARIES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn commands_stand_in_redis_groups() {
        for (name, expected) in [
            ("GET", "string"),
            ("HGET", "hash"),
            ("SETBIT", "bitmap"),
            ("BITOP", "bitmap"),
            ("DEL", "generic"),
            ("DBSIZE", "server"),
            ("SLOWLOG", "server"),
            ("PING", "connection"),
            ("QUIT", "connection"),
            ("EXEC", "transactions"),
            ("UNWATCH", "transactions"),
            ("FCALL", "scripting"),
            ("SCRIPT", "scripting"),
            ("REC.GET", "module"),
        ] {
            assert_eq!(Verb::find(name.as_bytes()).map(group), Some(expected), "{name}");
        }
    }
}

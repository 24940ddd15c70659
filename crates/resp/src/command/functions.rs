//! `FUNCTION`: the libraries of functions. `FCALL` stands among the programs.

use shardine_model::ErrorCode;
use shardine_model::codec::{Reader, put_bytes, put_varint};
use shardine_router::{Call, LibraryCall, Response};

use crate::book::digest;
use crate::command::call::Asked;
use crate::command::describe;
use crate::command::reply_format::{failure_of, wrong_arity};
use crate::command::scripts::check_size;
use crate::connection::RespConnection;
use crate::failure::{Failure, SYNTAX};
use crate::frame::Line;
use crate::glob;
use crate::shelf::{Libraries, Library};
use crate::value::is;
use crate::verb::Verb;
use crate::waiting::Progress;
use crate::wire::{self, Protocol};

/// What a dump begins with. Its form is our own: Redis's holds more than texts.
const DUMP: &[u8] = b"SHARDINE-FUNCTIONS\x01";
const BAD_DUMP: Failure = Failure::of_redis("ERR DUMP payload version or checksum are wrong");

/// Libraries by their names.
type Texts = Vec<(String, Box<[u8]>)>;

/// The subcommands that change what all nodes have.
pub(crate) fn is_change(line: Line<'_>) -> bool {
    line.len() > 1 && ["LOAD", "DELETE", "FLUSH", "RESTORE"].iter().any(|name| is(line.word(1), name))
}

pub(crate) fn plan(connection: &RespConnection, line: Line<'_>) -> Result<(Call, Asked), Failure> {
    let (what, words) = (line.word(1), line.len());
    let put = |libraries, replaces, begins_anew| LibraryCall::Put { libraries, replaces, begins_anew };
    let mut reply = Vec::new();
    let call = match words {
        3 | 4 if is(what, "LOAD") => {
            let replaces = words == 4;
            if replaces && !is(line.word(2), "REPLACE") {
                return Err(Failure::line([b"ERR Unknown option given: ", line.word(2)].concat()));
            }
            let library = read(connection, line.word(words - 1))?;
            check_names(&connection.options.shelf.held(), &[&library], replaces, false)?;
            wire::bulk(&mut reply, library.name.as_bytes());
            put(vec![(library.name, library.text.as_ref().into())], replaces, false)
        }
        3 if is(what, "DELETE") => {
            wire::ok(&mut reply);
            LibraryCall::Drop { name: String::from_utf8_lossy(line.word(2)).into_owned() }
        }
        2 if is(what, "FLUSH") => {
            wire::ok(&mut reply);
            put(Vec::new(), false, true)
        }
        3 if is(what, "FLUSH") && (is(line.word(2), "SYNC") || is(line.word(2), "ASYNC")) => {
            wire::ok(&mut reply);
            put(Vec::new(), false, true)
        }
        3 if is(what, "FLUSH") => {
            return Err(Failure::of_redis("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
        }
        3 | 4 if is(what, "RESTORE") => {
            wire::ok(&mut reply);
            let (replaces, begins_anew) = policy(if words == 4 { line.word(3) } else { b"APPEND" })?;
            put(restore(connection, line.word(2), replaces, begins_anew)?, replaces, begins_anew)
        }
        _ => return Err(wrong_arity(&format!("function|{}", String::from_utf8_lossy(what).to_ascii_lowercase()))),
    };
    Ok((call.into(), Asked::Libraries(reply)))
}

/// What is said once every node knows.
pub(crate) fn changed(reply: &mut Vec<u8>, response: &Response) -> Progress {
    match response {
        Response::Done => Progress::Reply(std::mem::take(reply)),
        Response::Refused(refusal) if matches!(refusal.code, ErrorCode::Exists | ErrorCode::NotFound) => {
            Progress::failed(&Failure::line(format!("ERR {}", refusal.message)))
        }
        other => Progress::failed(&failure_of(other)),
    }
}

pub(crate) fn answer(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (what, held) = (line.word(1), connection.options.shelf.held());
    match line.len() {
        _ if is(what, "LIST") => list(&held, line, connection.protocol, out)?,
        2 if is(what, "DUMP") => wire::bulk(out, &dump(&held)),
        2 if is(what, "STATS") => stats(&held, connection.protocol, out),
        2 if is(what, "KILL") => {
            if !connection.options.scripts.kill() {
                return Err(Failure::of_redis("NOTBUSY No scripts in execution right now."));
            }
            wire::ok(out);
        }
        2 if is(what, "HELP") => describe::help(
            &[
                "FUNCTION LOAD [REPLACE] <code> | DELETE <library> | FLUSH [ASYNC | SYNC]",
                "FUNCTION LIST [LIBRARYNAME <pattern>] [WITHCODE] | STATS | KILL",
                "FUNCTION DUMP | RESTORE <payload> [FLUSH | APPEND | REPLACE]",
            ],
            out,
        ),
        _ if ["DUMP", "STATS", "KILL", "HELP"].iter().any(|name| is(what, name)) => {
            return Err(wrong_arity(&format!("function|{}", String::from_utf8_lossy(what).to_ascii_lowercase())));
        }
        _ => return Err(describe::no_subcommand(Verb::Function, line)),
    }
    Ok(())
}

fn read(connection: &RespConnection, text: &[u8]) -> Result<Library, Failure> {
    check_size(text)?;
    connection.options.shelf.read(text).map_err(Failure::line)
}

/// That no library, and no function of another library, is there already.
fn check_names(held: &Libraries, come: &[&Library], replaces: bool, begins_anew: bool) -> Result<(), Failure> {
    for library in come {
        if !begins_anew && !replaces && held.named(&library.name).is_some() {
            return Err(Failure::line(format!("ERR Library '{}' already exists", library.name)));
        }
        for function in &library.functions {
            let is_replaced = |name: &str| begins_anew || come.iter().any(|library| library.name == name);
            let is_taken = held.function(&function.name).is_some_and(|(other, _)| !is_replaced(&other.name));
            let others = come.iter().filter(|other| other.name != library.name);
            let is_twice = others.flat_map(|other| &other.functions).any(|other| other.name == function.name);
            if is_taken || is_twice {
                return Err(Failure::line(format!("ERR Function '{}' already exists", function.name)));
            }
        }
    }
    Ok(())
}

fn list(held: &Libraries, line: Line<'_>, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = line.words(2);
    while let Some(word) = words.next() {
        if is(word, "WITHCODE") && !with_code {
            with_code = true;
        } else if is(word, "LIBRARYNAME") && pattern.is_none() {
            let missing = Failure::of_redis("ERR library name argument was not given");
            pattern = Some(words.next().ok_or(missing)?);
        } else {
            return Err(Failure::line([b"ERR Unknown argument ", word].concat()));
        }
    }
    let fits = |library: &&Library| pattern.is_none_or(|it| glob::matches(it, library.name.as_bytes()));
    let shown: Vec<&Library> = held.all().filter(fits).collect();
    wire::array(out, shown.len());
    for library in shown {
        wire::map(out, if with_code { 4 } else { 3 }, protocol);
        wire::bulk(out, b"library_name");
        wire::bulk(out, library.name.as_bytes());
        wire::bulk(out, b"engine");
        wire::bulk(out, b"LUA");
        wire::bulk(out, b"functions");
        write_functions(library, protocol, out);
        if with_code {
            wire::bulk(out, b"library_code");
            wire::bulk(out, &library.text);
        }
    }
    Ok(())
}

fn write_functions(library: &Library, protocol: Protocol, out: &mut Vec<u8>) {
    wire::array(out, library.functions.len());
    for function in &library.functions {
        wire::map(out, 3, protocol);
        wire::bulk(out, b"name");
        wire::bulk(out, function.name.as_bytes());
        wire::bulk(out, b"description");
        match &function.description {
            Some(text) => wire::bulk(out, text.as_bytes()),
            None => wire::null(out, protocol),
        }
        wire::bulk(out, b"flags");
        wire::set(out, function.flags.len(), protocol);
        function.flags.iter().for_each(|flag| wire::bulk(out, flag.as_bytes()));
    }
}

fn stats(held: &Libraries, protocol: Protocol, out: &mut Vec<u8>) {
    wire::map(out, 2, protocol);
    wire::bulk(out, b"running_script");
    wire::null(out, protocol);
    wire::bulk(out, b"engines");
    wire::map(out, 1, protocol);
    wire::bulk(out, b"LUA");
    wire::map(out, 2, protocol);
    wire::bulk(out, b"libraries_count");
    wire::integer(out, held.all().len() as i64);
    wire::bulk(out, b"functions_count");
    wire::integer(out, held.functions() as i64);
}

fn dump(held: &Libraries) -> Vec<u8> {
    let mut out = DUMP.to_vec();
    put_varint(&mut out, held.all().len() as u64);
    held.all().for_each(|library| put_bytes(&mut out, &library.text));
    let sum = digest(&out);
    out.extend(sum);
    out
}

/// Whether a dump replaces libraries of the same names, and whether all others go.
fn policy(word: &[u8]) -> Result<(bool, bool), Failure> {
    match word {
        word if is(word, "APPEND") => Ok((false, false)),
        word if is(word, "REPLACE") => Ok((true, false)),
        word if is(word, "FLUSH") => Ok((false, true)),
        _ => Err(Failure::of_redis("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")),
    }
}

fn restore(connection: &RespConnection, payload: &[u8], replaces: bool, begins_anew: bool) -> Result<Texts, Failure> {
    let (content, sum) = payload.split_last_chunk::<20>().ok_or(BAD_DUMP)?;
    let texts = content.strip_prefix(DUMP).filter(|_| digest(content) == *sum).ok_or(BAD_DUMP)?;
    let mut reader = Reader::new(texts);
    let mut libraries = Vec::new();
    let count = reader.count("libraries").map_err(|_| BAD_DUMP)?;
    for _ in 0..count {
        libraries.push(read(connection, reader.bytes("library").map_err(|_| BAD_DUMP)?)?);
    }
    if !reader.is_empty() {
        return Err(SYNTAX);
    }
    let come: Vec<&Library> = libraries.iter().collect();
    check_names(&connection.options.shelf.held(), &come, replaces, begins_anew)?;
    Ok(libraries.into_iter().map(|library| (library.name, library.text.as_ref().into())).collect())
}

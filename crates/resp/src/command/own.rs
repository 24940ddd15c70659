//! Commands that the connection answers by itself: greetings, identity, time.

use shardine_router::LocalEngine;

use crate::command::{client, config, describe, functions, scripts, slow};
use crate::connection::{RespConnection, Step};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX, WRONG_PASSWORD};
use crate::frame::Line;
use crate::options::REDIS_VERSION;
use crate::value::{integer, is};
use crate::verb::Verb;
use crate::wire::{self, Protocol};

pub(crate) fn run<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    if verb == Verb::Ping && line.len() == 1 {
        connection.queue.reply(out, |out| out.extend_from_slice(b"+PONG\r\n"));
        return Step::Taken;
    }
    let reply = bytes(connection, verb, line, engine);
    connection.queue.reply(out, |out| out.extend_from_slice(&reply));
    Step::Taken
}

/// The reply by itself, wherever it will stand: in line, or in the array of an `EXEC`.
pub(crate) fn bytes<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Vec<u8> {
    let mut out = Vec::new();
    if let Err(failure) = answer(connection, verb, line, engine, &mut out) {
        out.clear();
        failure.write(&mut out);
    }
    out
}

fn answer<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    match verb {
        Verb::Ping => ping(line, out),
        Verb::Echo => {
            wire::bulk(out, line.word(1));
            Ok(())
        }
        Verb::Hello => hello(connection, line, out),
        Verb::Auth => auth(connection, line, out),
        Verb::Select => select(line, out),
        Verb::Time => {
            time(engine, out);
            Ok(())
        }
        Verb::Wait => wait(line, out),
        Verb::Unwatch => {
            connection.watched.clear();
            wire::ok(out);
            Ok(())
        }
        Verb::Client => client::answer(connection, line, engine.now(), out),
        Verb::Command => describe::command(connection, line, out),
        Verb::Config => config::config(connection, line, out),
        Verb::Slowlog => slow::slow_log(connection, line, out),
        Verb::Latency => slow::latency(line, out),
        // As a Redis that is no cluster (redis-cluster A-18): any node takes every command.
        Verb::Cluster | Verb::Readonly | Verb::Readwrite => Err(NO_CLUSTER),
        Verb::Role => {
            role(out);
            Ok(())
        }
        Verb::Function => functions::answer(connection, line, out),
        Verb::Script => scripts::answer(connection, line, out),
        Verb::Object | Verb::Memory => Err(describe::no_subcommand(verb, line)),
        Verb::RecCall => Err(Failure::unsupported("REC.CALL is not offered: Shardine runs no stored functions yet")),
        other => Err(Failure::unsupported(other.name())),
    }
}

fn ping(line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    match line.len() {
        1 => wire::simple(out, "PONG"),
        2 => wire::bulk(out, line.word(1)),
        _ => return Err(crate::command::reply_format::wrong_arity("ping")),
    }
    Ok(())
}

fn hello(connection: &mut RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let wanted = (line.len() > 1).then(|| integer(line.word(1)));
    let protocol = match wanted {
        None => connection.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(Failure::line("NOPROTO unsupported protocol version")),
        Some(None) => return Err(Failure::line("ERR Protocol version is not an integer or out of range")),
    };
    let (mut name, mut credentials) = (None, None);
    let mut words = line.words(2.min(line.len()));
    while let Some(word) = words.next() {
        if is(word, "AUTH") && words.len() >= 2 {
            credentials = words.next().zip(words.next());
        } else if is(word, "SETNAME") && words.len() >= 1 {
            name = words.next();
        } else {
            return Err(Failure::line([b"ERR Syntax error in HELLO option '", word, b"'"].concat()));
        }
    }
    if let Some((user, password)) = credentials {
        log_in(connection, user, password)?;
    }
    if !connection.is_authenticated {
        let line = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                    <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                    the same time";
        return Err(Failure::line(line));
    }
    if let Some(name) = name {
        client::set_name(connection, name)?;
    }
    connection.protocol = protocol;
    greet(connection, out);
    Ok(())
}

fn greet(connection: &RespConnection, out: &mut Vec<u8>) {
    wire::map(out, 7, connection.protocol);
    let text = |out: &mut Vec<u8>, name: &str, value: &str| {
        wire::bulk(out, name.as_bytes());
        wire::bulk(out, value.as_bytes());
    };
    // Clients read the name and version to know what they may send; both stand for the protocol, not the product.
    text(out, "server", "redis");
    text(out, "version", REDIS_VERSION);
    wire::bulk(out, b"proto");
    wire::integer(out, connection.protocol.number());
    wire::bulk(out, b"id");
    wire::integer(out, connection.peer.number());
    text(out, "mode", "standalone");
    text(out, "role", "master");
    wire::bulk(out, b"modules");
    wire::array(out, 0);
}

fn auth(connection: &mut RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    match line.len() {
        2 if connection.options.password.is_none() => {
            let line = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                        your configuration is correct?";
            return Err(Failure::line(line));
        }
        2 => log_in(connection, b"default", line.word(1))?,
        3 => log_in(connection, line.word(1), line.word(2))?,
        _ => return Err(SYNTAX),
    }
    wire::ok(out);
    Ok(())
}

/// There is one user. Without a password on the server, every password of that user is right, as in Redis.
fn log_in(connection: &mut RespConnection, user: &[u8], password: &[u8]) -> Result<(), Failure> {
    let fits = connection.options.password.as_ref().is_none_or(|expected| expected.matches(password));
    if !fits || user != b"default" {
        return Err(WRONG_PASSWORD);
    }
    connection.is_authenticated = true;
    Ok(())
}

fn select(line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    match integer(line.word(1)) {
        Some(0) => {
            wire::ok(out);
            Ok(())
        }
        Some(_) => Err(Failure::line("ERR DB index is out of range")),
        None => Err(NOT_AN_INTEGER),
    }
}

fn time<H: LocalEngine>(engine: &H, out: &mut Vec<u8>) {
    let now = engine.now().0;
    wire::array(out, 2);
    wire::bulk(out, itoa::Buffer::new().format(now / 1_000).as_bytes());
    wire::bulk(out, itoa::Buffer::new().format(now % 1_000 * 1_000).as_bytes());
}

const NO_CLUSTER: Failure = Failure::of_redis("ERR This instance has cluster support disabled");

/// There are no replicas of Redis's kind: any node is written to.
fn role(out: &mut Vec<u8>) {
    wire::array(out, 3);
    wire::bulk(out, b"master");
    wire::integer(out, 0);
    wire::array(out, 0);
}

/// Every answered write is on a majority already, so there is nothing to wait for, and there are no Redis replicas.
fn wait(line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    integer(line.word(1)).ok_or(NOT_AN_INTEGER)?;
    let timeout = integer(line.word(2)).ok_or(Failure::line("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::line("ERR timeout is negative"));
    }
    wire::integer(out, 0);
    Ok(())
}

//! `SCRIPT`: what the node knows of scripts.

use shardine_model::ErrorCode;

use crate::book::{digest, hex};
use crate::command::describe;
use crate::command::reply_format::wrong_arity;
use crate::connection::RespConnection;
use crate::failure::Failure;
use crate::frame::Line;
use crate::options::SCRIPT_BYTES_MAX;
use crate::value::is;
use crate::verb::Verb;
use crate::wire;

pub(crate) fn answer(connection: &RespConnection, line: Line<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (what, book) = (line.word(1), &connection.options.scripts);
    if is(what, "LOAD") {
        if line.len() != 3 {
            return Err(wrong_arity("script|load"));
        }
        let text = line.word(2);
        check_size(text)?;
        crate::book::Header::of(text).map_err(|why| Failure::line(format!("ERR {why}")))?;
        book.check(text).map_err(Failure::line)?;
        let sum = digest(text);
        book.put(sum, text);
        wire::bulk(out, hex(sum).as_bytes());
    } else if is(what, "EXISTS") {
        if line.len() < 3 {
            return Err(wrong_arity("script|exists"));
        }
        wire::array(out, line.len() - 2);
        for word in line.words(2) {
            let is_known = sum_of(word).is_some_and(|sum| book.get(sum).is_some());
            wire::integer(out, i64::from(is_known));
        }
    } else if is(what, "FLUSH") {
        let fits = line.len() == 2 || line.len() == 3 && (is(line.word(2), "SYNC") || is(line.word(2), "ASYNC"));
        if !fits {
            return Err(Failure::line("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
        book.clear();
        wire::ok(out);
    } else if is(what, "KILL") {
        if line.len() != 2 {
            return Err(wrong_arity("script|kill"));
        }
        if !book.kill() {
            return Err(Failure::line("NOTBUSY No scripts in execution right now."));
        }
        wire::ok(out);
    } else if is(what, "DEBUG") {
        return Err(Failure::unsupported("scripts have no debugger"));
    } else {
        return Err(describe::no_subcommand(Verb::Script, line));
    }
    Ok(())
}

pub(crate) fn check_size(text: &[u8]) -> Result<(), Failure> {
    if text.len() <= SCRIPT_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::new(ErrorCode::TooLarge, format!("a script has at most {SCRIPT_BYTES_MAX} bytes")))
}

/// The sum that a text of forty digits is.
pub(crate) fn sum_of(digits: &[u8]) -> Option<[u8; 20]> {
    let digits: &[u8; 40] = digits.try_into().ok()?;
    let mut sum = [0; 20];
    for (byte, pair) in sum.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(sum)
}

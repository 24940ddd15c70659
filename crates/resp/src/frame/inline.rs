//! Commands typed by hand: one line, words between spaces, quotes as in Redis. Only reached when a frame does not begin with `*`.

use super::{Args, FrameError, Limits, Parsed, Span};

pub(super) fn parse(input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, FrameError> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > limits.inline_bytes_max {
            Err(FrameError::InlineTooBig)
        } else {
            Ok(Parsed::Incomplete)
        };
    };
    if end > limits.inline_bytes_max {
        return Err(FrameError::InlineTooBig);
    }
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    args.begin(0, 0);
    args.inline = true;
    args.unquoted.clear();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if args.spans.len() == limits.args_max {
            return Err(FrameError::InlineTooBig);
        }
        let start = args.unquoted.len() as u32;
        rest = read_word(rest, &mut args.unquoted)?.trim_ascii_start();
        args.spans.push(Span { start, end: args.unquoted.len() as u32 });
    }
    let consumed = end + 1;
    Ok(if args.spans.is_empty() { Parsed::Empty { consumed } } else { Parsed::Command { consumed } })
}

/// Reads one word without its quotes into `out` and gives back what follows it.
fn read_word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [byte, ..] if byte.is_ascii_whitespace() => return Ok(rest),
            [b'"', tail @ ..] => return end_of_quotes(read_double(tail, out)?),
            [b'\'', tail @ ..] => return end_of_quotes(read_single(tail, out)?),
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// A closing quote ends the word: a space or the end of the line must follow.
fn end_of_quotes(rest: &[u8]) -> Result<&[u8], FrameError> {
    match rest.first() {
        None => Ok(rest),
        Some(byte) if byte.is_ascii_whitespace() => Ok(rest),
        Some(_) => Err(FrameError::Quotes),
    }
}

fn read_double<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        rest = match rest {
            [] => return Err(FrameError::Quotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

fn read_single<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        rest = match rest {
            [] => return Err(FrameError::Quotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                out.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

//! Writes replies in RESP2 and RESP3. Only appends bytes; knows neither commands nor records.

/// Which form of the protocol the client asked for with `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

impl Protocol {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

pub fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

/// A status whose text may be anything; line breaks become spaces.
pub fn status(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'+');
    put_line(out, text);
}

/// What stands behind a mark: one line.
pub fn line(out: &mut Vec<u8>, text: &[u8]) {
    put_line(out, text);
}

pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    put_line(out, text.as_bytes());
}

/// An error line. Line breaks in the text would end the reply early, so they become spaces.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'-');
    put_line(out, text);
}

#[inline]
pub fn integer(out: &mut Vec<u8>, value: i64) {
    // The common counts, without formatting.
    match value {
        0 => out.extend_from_slice(b":0\r\n"),
        1 => out.extend_from_slice(b":1\r\n"),
        _ => put_header(out, b':', itoa::Buffer::new().format(value)),
    }
}

#[inline]
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut digits = itoa::Buffer::new();
    let length = digits.format(bytes.len());
    out.reserve(bytes.len() + length.len() + 5);
    put_header(out, b'$', length);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub fn null(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// The null of a command whose reply is otherwise an array (`EXEC`).
pub fn null_array(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"*-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

pub fn array(out: &mut Vec<u8>, length: usize) {
    put_header(out, b'*', itoa::Buffer::new().format(length));
}

/// A map of so many pairs; RESP2 has none and lists keys and values in turn.
pub fn map(out: &mut Vec<u8>, pairs: usize, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => array(out, pairs * 2),
        Protocol::Resp3 => put_header(out, b'%', itoa::Buffer::new().format(pairs)),
    }
}

/// A set of so many members; an array in RESP2.
pub fn set(out: &mut Vec<u8>, members: usize, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => array(out, members),
        Protocol::Resp3 => put_header(out, b'~', itoa::Buffer::new().format(members)),
    }
}

/// Text that people read as it stands (`INFO`): a verbatim string in RESP3.
pub(crate) fn text(out: &mut Vec<u8>, text: &str, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => bulk(out, text.as_bytes()),
        Protocol::Resp3 => verbatim(out, b"txt", text.as_bytes(), protocol),
    }
}

/// Text with the three letters that say what kind it is.
pub fn verbatim(out: &mut Vec<u8>, format: &[u8], text: &[u8], protocol: Protocol) {
    if protocol == Protocol::Resp2 {
        return bulk(out, text);
    }
    let mut kind = *b"   ";
    kind.iter_mut().zip(format).for_each(|(slot, letter)| *slot = *letter);
    put_header(out, b'=', itoa::Buffer::new().format(text.len() + 4));
    out.extend_from_slice(&kind);
    out.push(b':');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn put_header(out: &mut Vec<u8>, mark: u8, number: &str) {
    out.push(mark);
    out.extend_from_slice(number.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn put_line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().map(|&byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn golden_replies() {
        assert_eq!(written(ok), "+OK\r\n");
        assert_eq!(written(|out| integer(out, -12)), ":-12\r\n");
        assert_eq!(written(|out| integer(out, 1)), ":1\r\n");
        assert_eq!(written(|out| bulk(out, b"a\r\nb")), "$4\r\na\r\nb\r\n");
        assert_eq!(written(|out| null(out, Protocol::Resp2)), "$-1\r\n");
        assert_eq!(written(|out| null(out, Protocol::Resp3)), "_\r\n");
        assert_eq!(written(|out| null_array(out, Protocol::Resp2)), "*-1\r\n");
        assert_eq!(written(|out| map(out, 2, Protocol::Resp2)), "*4\r\n");
        assert_eq!(written(|out| map(out, 2, Protocol::Resp3)), "%2\r\n");
        assert_eq!(written(|out| set(out, 2, Protocol::Resp3)), "~2\r\n");
        assert_eq!(written(|out| text(out, "a\r\n", Protocol::Resp3)), "=7\r\ntxt:a\r\n\r\n");
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        assert_eq!(written(|out| error(out, b"ERR a\r\nb")), "-ERR a  b\r\n");
    }
}

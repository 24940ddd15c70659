//! A reply of a Redis server, RESP2 and RESP3, and how it is read from a stream. Strict: what the protocol does not know is
//! an error, because a test client that forgives hides faults of the server.

use std::io::BufRead;

use anyhow::{Context, Result, bail};

/// One reply. Both protocols' forms of "nothing" are [`Reply::Nil`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    // RESP3 only.
    Bool(bool),
    Double(f64),
    BigNumber(String),
    Verbatim { format: String, text: String },
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
}

impl Reply {
    pub fn ok() -> Reply {
        Reply::Simple("OK".to_owned())
    }

    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// An array of bulk strings.
    pub fn bulks<B: AsRef<[u8]>>(items: &[B]) -> Reply {
        Reply::Array(items.iter().map(Reply::bulk).collect())
    }

    /// Says whether this is an error that begins with `prefix`, such as `WRONGTYPE`.
    pub fn is_error(&self, prefix: &str) -> bool {
        matches!(self, Reply::Error(text) if text.starts_with(prefix))
    }

    /// The text of a string reply of either kind.
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Simple(text) => Some(text.clone()),
            Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    /// Reads one whole reply.
    pub fn read(input: &mut impl BufRead) -> Result<Reply> {
        let line = read_line(input)?;
        let (kind, rest) = line.split_at_checked(1).context("an empty line where a reply should begin")?;
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(rest.parse().with_context(|| format!("integer {rest:?}"))?)),
            "$" if rest == "-1" => Ok(Reply::Nil),
            "$" => Ok(Reply::Bulk(read_bytes(input, rest)?)),
            "*" if rest == "-1" => Ok(Reply::Nil),
            "*" => Ok(Reply::Array(read_items(input, rest)?)),
            "_" => Ok(Reply::Nil),
            "#" => read_bool(rest),
            "," => Ok(Reply::Double(read_double(rest)?)),
            "(" => Ok(Reply::BigNumber(rest.to_owned())),
            "!" => Ok(Reply::Error(String::from_utf8(read_bytes(input, rest)?)?)),
            "=" => read_verbatim(input, rest),
            "%" => Ok(Reply::Map(read_pairs(input, rest)?)),
            "~" => Ok(Reply::Set(read_items(input, rest)?)),
            ">" => Ok(Reply::Push(read_items(input, rest)?)),
            _ => bail!("no reply begins like {line:?}"),
        }
    }
}

fn read_line(input: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).context("read a reply")?;
    match line.strip_suffix(b"\r\n") {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None if line.is_empty() => bail!("the server closed the connection"),
        None => bail!("a line without its end: {:?}", String::from_utf8_lossy(&line)),
    }
}

fn read_bytes(input: &mut impl BufRead, length: &str) -> Result<Vec<u8>> {
    let length: usize = length.parse().with_context(|| format!("length {length:?}"))?;
    let mut bytes = vec![0; length + 2];
    input.read_exact(&mut bytes).context("read a string")?;
    if !bytes.ends_with(b"\r\n") {
        bail!("a string of {length} bytes without its end");
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn read_items(input: &mut impl BufRead, count: &str) -> Result<Vec<Reply>> {
    let count: usize = count.parse().with_context(|| format!("count {count:?}"))?;
    (0..count).map(|_| Reply::read(input)).collect()
}

fn read_pairs(input: &mut impl BufRead, count: &str) -> Result<Vec<(Reply, Reply)>> {
    let count: usize = count.parse().with_context(|| format!("count {count:?}"))?;
    (0..count).map(|_| Ok((Reply::read(input)?, Reply::read(input)?))).collect()
}

fn read_bool(text: &str) -> Result<Reply> {
    match text {
        "t" => Ok(Reply::Bool(true)),
        "f" => Ok(Reply::Bool(false)),
        _ => bail!("boolean {text:?}"),
    }
}

fn read_double(text: &str) -> Result<f64> {
    match text {
        "inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        "nan" => Ok(f64::NAN),
        _ => text.parse().with_context(|| format!("double {text:?}")),
    }
}

fn read_verbatim(input: &mut impl BufRead, length: &str) -> Result<Reply> {
    let whole = String::from_utf8(read_bytes(input, length)?)?;
    let (format, text) = whole.split_once(':').context("a verbatim string without its format")?;
    Ok(Reply::Verbatim { format: format.to_owned(), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> Result<Reply> {
        let reply = Reply::read(&mut bytes)?;
        assert!(bytes.is_empty(), "a reply must be read to its end and no further");
        Ok(reply)
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        assert_eq!(read(b"+OK\r\n").unwrap(), Reply::ok());
        assert!(read(b"-ERR no\r\n").unwrap().is_error("ERR"));
        assert_eq!(read(b":-7\r\n").unwrap(), Reply::Int(-7));
        assert_eq!(read(b"$4\r\na\r\nb\r\n").unwrap(), Reply::bulk("a\r\nb"));
        assert_eq!(read(b"$-1\r\n").unwrap(), Reply::Nil);
        assert_eq!(read(b"*-1\r\n").unwrap(), Reply::Nil);
        assert_eq!(read(b"_\r\n").unwrap(), Reply::Nil);
        assert_eq!(read(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap(), Reply::bulks(&["a", "b"]));
        assert_eq!(read(b"#t\r\n").unwrap(), Reply::Bool(true));
        assert_eq!(read(b",1.5\r\n").unwrap(), Reply::Double(1.5));
        assert_eq!(read(b"%1\r\n+a\r\n:1\r\n").unwrap(), Reply::Map(vec![(Reply::Simple("a".into()), Reply::Int(1))]));
        assert_eq!(read(b"~1\r\n:1\r\n").unwrap(), Reply::Set(vec![Reply::Int(1)]));
        let verbatim = Reply::Verbatim { format: "txt".into(), text: "hi".into() };
        assert_eq!(read(b"=6\r\ntxt:hi\r\n").unwrap(), verbatim);
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error() {
        for broken in ["?1\r\n", "+OK\n", ":seven\r\n", "$3\r\nabcd\r\n", "", "\r\n", "#x\r\n"] {
            assert!(read(broken.as_bytes()).is_err(), "{broken:?} must not be read");
        }
    }
}

//! Just enough of the Redis protocol for a load generator: commands out, and where one answer ends.

use std::io;

/// Appends a command as an array of bulk strings.
pub fn put(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// One answer at the front of the bytes: its length and, if it is an error, its text. `None` while it is incomplete.
pub fn take(bytes: &[u8]) -> io::Result<Option<(usize, Option<String>)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = (&bytes[..end], end + 2);
    match line.first() {
        Some(b'+' | b':' | b'_' | b'#' | b',') => Ok(Some((after, None))),
        Some(b'-') => Ok(Some((after, Some(String::from_utf8_lossy(&line[1..]).into_owned())))),
        Some(b'$') => {
            let length: i64 =
                std::str::from_utf8(&line[1..]).ok().and_then(|text| text.parse().ok()).ok_or_else(strange)?;
            let Ok(length) = usize::try_from(length) else { return Ok(Some((after, None))) };
            let whole = after + length + 2;
            Ok((bytes.len() >= whole).then_some((whole, None)))
        }
        _ => Err(strange()),
    }
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is not of the Redis protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        put(&mut out, &[b"HGET", b"k"]);

        assert_eq!(out, b"*2\r\n$4\r\nHGET\r\n$1\r\nk\r\n");
    }

    #[test]
    fn answers_end_where_they_end() {
        assert_eq!(take(b":1\r\n:2\r\n").unwrap(), Some((4, None)));
        assert_eq!(take(b"$3\r\nabc\r\n").unwrap(), Some((9, None)));
        assert_eq!(take(b"$3\r\nab").unwrap(), None);
        assert_eq!(take(b"$-1\r\n").unwrap(), Some((5, None)));
        assert_eq!(take(b"-ERR no\r\n").unwrap(), Some((9, Some("ERR no".into()))));
        assert_eq!(take(b":1").unwrap(), None);
        assert!(take(b"HTTP/1.1 400\r\n").is_err());
    }
}

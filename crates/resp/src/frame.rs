//! Cuts the bytes of a connection into commands: arrays of bulk strings, and lines typed by hand.
//!
//! Borrows arguments from the input and never reserves memory for a claimed length. Knows no command.

mod inline;

use smallvec::SmallVec;
use thiserror::Error;

/// What one frame may claim, each with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Enough for an `MGET` or `HSET` of tens of thousands; the spans of a frame stay below a megabyte.
    pub args_max: usize,
    /// The largest value and a little more, so that one just above the limit gets an error instead of a cut line.
    pub bulk_bytes_max: usize,
    /// Twice the largest value; also what the host must be ready to buffer for one connection.
    pub frame_bytes_max: usize,
    /// As in Redis: nobody types more by hand.
    pub inline_bytes_max: usize,
}

impl Limits {
    /// For clients that may execute commands.
    pub const OPEN: Limits = Limits {
        args_max: 65_536,
        bulk_bytes_max: shardine_model::limits::VALUE_BYTES_MAX + 1_024,
        frame_bytes_max: 2 * shardine_model::limits::VALUE_BYTES_MAX,
        inline_bytes_max: 64 << 10,
    };

    /// For clients that have yet to say who they are: room for `HELLO 3 AUTH user password SETNAME name`, no more.
    pub const BEFORE_AUTH: Limits =
        Limits { args_max: 10, bulk_bytes_max: 16 << 10, frame_bytes_max: 256 << 10, inline_bytes_max: 16 << 10 };
}

/// What stands at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Half a frame. The next call must bring the same bytes and more.
    Incomplete,
    /// A command; its words are in the `Args`.
    Command { consumed: usize },
    /// A frame without words (an empty line, `*0`); there is nothing to answer.
    Empty { consumed: usize },
}

/// Bytes that are not the Redis protocol. The text is what Redis answers before it hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("invalid multibulk length")]
    ArrayLength,
    #[error("unauthenticated multibulk length")]
    ArrayLengthBeforeAuth,
    #[error("expected '$', got '{0}'")]
    ExpectedBulk(char),
    #[error("invalid bulk length")]
    BulkLength,
    #[error("unauthenticated bulk length")]
    BulkLengthBeforeAuth,
    #[error("bulk string is not ended by CRLF")]
    BulkEnd,
    #[error("too big frame")]
    FrameTooBig,
    #[error("too big inline request")]
    InlineTooBig,
    #[error("unbalanced quotes in request")]
    Quotes,
}

/// Where a word lies in its source. Frames end far below 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// The words of the frame last parsed, and how far an incomplete one has come. Made once per connection and used again
/// and again. Invariant: between frames `missing` is 0.
#[derive(Debug, Default)]
pub struct Args {
    spans: SmallVec<[Span; 16]>,
    /// Words of an inline command after their quotes are taken off; empty for arrays, whose words lie in the input.
    unquoted: Vec<u8>,
    inline: bool,
    /// Words still to come of a frame that was incomplete, so that a slow sender does not cause it to be read anew.
    missing: usize,
    next: usize,
}

impl Args {
    /// The words as a borrowed line. `input` is what was parsed.
    #[inline]
    #[must_use]
    pub fn line<'a>(&'a self, input: &'a [u8]) -> Line<'a> {
        Line { source: if self.inline { &self.unquoted } else { input }, spans: &self.spans }
    }

    fn begin(&mut self, missing: usize, next: usize) {
        self.spans.clear();
        self.inline = false;
        self.missing = missing;
        self.next = next;
    }
}

/// A command as its words. A parsed one has at least one, the name.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    source: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Line<'a> {
    /// No words: for printing one element of a gathered reply, which needs none.
    pub(crate) const EMPTY: Line<'static> = Line { source: &[], spans: &[] };

    /// How many words there are, the name included.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A parsed line is never empty.
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// The word at `index`; 0 is the name. Beyond the end it is empty, which every caller has ruled out by arity.
    #[inline]
    #[must_use]
    pub fn word(self, index: usize) -> &'a [u8] {
        self.spans.get(index).map_or(&[], |span| &self.source[span.start as usize..span.end as usize])
    }

    /// The words from `index` on.
    pub fn words(self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.spans.get(index..).unwrap_or(&[]).iter().map(|span| &self.source[span.start as usize..span.end as usize])
    }

    /// A copy that outlives the input.
    #[must_use]
    pub(crate) fn to_owned(self) -> OwnedLine {
        let mut bytes = Vec::with_capacity(self.spans.iter().map(|span| (span.end - span.start) as usize).sum());
        let mut spans = Vec::with_capacity(self.spans.len());
        for word in self.words(0) {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push(Span { start, end: bytes.len() as u32 });
        }
        OwnedLine { bytes: bytes.into_boxed_slice(), spans: spans.into_boxed_slice() }
    }
}

/// A command that waits: for its turn in a transaction, or for an answer that its words are needed to print.
#[derive(Debug)]
pub(crate) struct OwnedLine {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedLine {
    pub(crate) fn of(words: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len()).sum());
        let mut spans = Vec::with_capacity(words.len());
        for word in words {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push(Span { start, end: bytes.len() as u32 });
        }
        Self { bytes: bytes.into_boxed_slice(), spans: spans.into_boxed_slice() }
    }

    pub(crate) fn line(&self) -> Line<'_> {
        Line { source: &self.bytes, spans: &self.spans }
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

/// Reads one frame. After `Incomplete`, call again with the same `args` and the same bytes with more behind them.
#[inline]
pub fn parse(input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, FrameError> {
    match input.first() {
        None => Ok(Parsed::Incomplete),
        Some(b'*') => parse_array(input, limits, args),
        Some(_) => inline::parse(input, limits, args),
    }
}

#[inline]
fn parse_array(input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, FrameError> {
    if args.missing == 0 {
        match read_number(input, 1) {
            Number::Half => return Ok(Parsed::Incomplete),
            Number::Bad => return Err(FrameError::ArrayLength),
            Number::Whole { value, next } if value <= 0 => return Ok(Parsed::Empty { consumed: next }),
            Number::Whole { value, next } => args.begin(check_count(value, limits)?, next),
        }
    }
    while args.missing > 0 {
        let Some(span) = read_bulk(input, args.next, limits)? else { return Ok(Parsed::Incomplete) };
        args.next = span.end as usize + 2;
        args.spans.push(span);
        args.missing -= 1;
    }
    Ok(Parsed::Command { consumed: args.next })
}

fn check_count(value: i64, limits: &Limits) -> Result<usize, FrameError> {
    match usize::try_from(value) {
        Ok(count) if count <= limits.args_max => Ok(count),
        _ if *limits == Limits::BEFORE_AUTH => Err(FrameError::ArrayLengthBeforeAuth),
        _ => Err(FrameError::ArrayLength),
    }
}

#[inline]
fn read_bulk(input: &[u8], at: usize, limits: &Limits) -> Result<Option<Span>, FrameError> {
    match input.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&other) => return Err(FrameError::ExpectedBulk(printable(other))),
    }
    let (length, start) = match read_number(input, at + 1) {
        Number::Half => return Ok(None),
        Number::Bad => return Err(FrameError::BulkLength),
        Number::Whole { value, next } => (check_length(value, limits)?, next),
    };
    let end = start + length;
    if end + 2 > limits.frame_bytes_max {
        return Err(FrameError::FrameTooBig);
    }
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(Span { start: start as u32, end: end as u32 })),
        Some(_) => Err(FrameError::BulkEnd),
    }
}

#[inline]
fn check_length(value: i64, limits: &Limits) -> Result<usize, FrameError> {
    match usize::try_from(value) {
        Ok(length) if length <= limits.bulk_bytes_max => Ok(length),
        _ if *limits == Limits::BEFORE_AUTH => Err(FrameError::BulkLengthBeforeAuth),
        _ => Err(FrameError::BulkLength),
    }
}

/// A decimal number that ends with CRLF.
enum Number {
    Half,
    Bad,
    Whole { value: i64, next: usize },
}

/// Longer numbers exceed every limit, and shorter ones cannot overflow.
const DIGITS_MAX: usize = 18;

#[inline]
fn read_number(input: &[u8], at: usize) -> Number {
    let rest = input.get(at..).unwrap_or(&[]);
    // Nearly every number on the wire has one or two digits.
    match rest {
        [one @ b'0'..=b'9', b'\r', b'\n', ..] => Number::Whole { value: i64::from(one - b'0'), next: at + 3 },
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Number::Whole { value: i64::from(ten - b'0') * 10 + i64::from(one - b'0'), next: at + 4 }
        }
        _ => read_long_number(rest, at),
    }
}

fn read_long_number(rest: &[u8], at: usize) -> Number {
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // As Redis reads them: no zero in front of other digits, and none behind a sign.
    if let [b'0', b'0'..=b'9', ..] | [b'0', b'\r', ..] = digits
        && (negative || digits[1] != b'\r')
    {
        return Number::Bad;
    }
    let mut value = 0i64;
    for (count, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if count < DIGITS_MAX => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if count > 0 => {
                return match digits.get(count + 1) {
                    None => Number::Half,
                    Some(b'\n') => Number::Whole {
                        value: if negative { -value } else { value },
                        next: at + usize::from(negative) + count + 2,
                    },
                    Some(_) => Number::Bad,
                };
            }
            _ => return Number::Bad,
        }
    }
    Number::Half
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

#[cfg(test)]
mod tests;

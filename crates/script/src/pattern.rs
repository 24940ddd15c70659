//! Lua's patterns, matched step by step: what Lua's own library does in C cannot be stopped, and one line of pattern can take for
//! ever, or all of the stack.

use crate::limits::{PATTERN_BYTES_MAX, PATTERN_DEPTH_MAX};

/// Captures that one pattern may have, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Steps that are counted at once.
const STEPS_BETWEEN_LOOKS: u64 = 256;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The pattern is none; in Lua's words.
    Pattern(&'static str),
    /// The script is to end.
    Ended(mlua::Error),
}

/// What a pair of brackets found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    Text {
        start: usize,
        end: usize,
    },
    /// `()`: a place, counted from 1.
    Position(usize),
}

#[derive(Clone, Copy, Debug)]
enum Length {
    Open,
    Position,
    Bytes(usize),
}

/// One pattern on one subject.
pub(crate) struct Matcher<'a, 'c> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    steps: u64,
    charge: &'c dyn Fn(u64) -> mlua::Result<()>,
}

type Found<T> = Result<Option<T>, Fault>;

impl<'a, 'c> Matcher<'a, 'c> {
    pub fn new(
        subject: &'a [u8],
        pattern: &'a [u8],
        charge: &'c dyn Fn(u64) -> mlua::Result<()>,
    ) -> Result<Self, Fault> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Fault::Pattern("pattern too complex"));
        }
        Ok(Self { subject, pattern, captures: Vec::new(), depth: 0, steps: 0, charge })
    }

    /// The end of a match that begins at this place of the subject, with the pattern from `from` on.
    pub fn match_at(&mut self, start: usize, from: usize) -> Found<usize> {
        self.captures.clear();
        self.depth = 0;
        self.go(start, from)
    }

    /// The captures of the match that was just found, or the whole of it if the pattern has none.
    pub fn captures(&self, start: usize, end: usize) -> Result<Vec<Capture>, Fault> {
        if self.captures.is_empty() {
            return Ok(vec![Capture::Text { start, end }]);
        }
        let capture = |(start, length): &(usize, Length)| match *length {
            Length::Open => Err(Fault::Pattern("unfinished capture")),
            Length::Position => Ok(Capture::Position(start + 1)),
            Length::Bytes(bytes) => Ok(Capture::Text { start: *start, end: start + bytes }),
        };
        self.captures.iter().map(capture).collect()
    }

    pub fn has_captures(&self) -> bool {
        !self.captures.is_empty()
    }

    fn step(&mut self) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) {
            (self.charge)(STEPS_BETWEEN_LOOKS).map_err(Fault::Ended)?;
        }
        Ok(())
    }

    fn go(&mut self, place: usize, from: usize) -> Found<usize> {
        self.depth += 1;
        if self.depth > PATTERN_DEPTH_MAX {
            return Err(Fault::Pattern("pattern too complex"));
        }
        let found = self.go_on(place, from);
        self.depth -= 1;
        found
    }

    fn go_on(&mut self, mut place: usize, mut from: usize) -> Found<usize> {
        loop {
            self.step()?;
            let Some(&mark) = self.pattern.get(from) else { return Ok(Some(place)) };
            match (mark, self.pattern.get(from + 1)) {
                (b'(', Some(b')')) => return self.open(place, from + 2, Length::Position),
                (b'(', _) => return self.open(place, from + 1, Length::Open),
                (b')', _) => return self.close(place, from + 1),
                (b'%', Some(b'b')) => match self.balanced(place, from + 2)? {
                    Some(end) => (place, from) = (end, from + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = from + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(Fault::Pattern("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    let before = if place == 0 { 0 } else { self.subject[place - 1] };
                    let here = self.subject.get(place).copied().unwrap_or(0);
                    if self.in_set(before, set, end - 1) || !self.in_set(here, set, end - 1) {
                        return Ok(None);
                    }
                    from = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    let (start, bytes) = self.captured(*digit)?;
                    if !self.subject[place..].starts_with(&self.subject[start..start + bytes]) {
                        return Ok(None);
                    }
                    (place, from) = (place + bytes, from + 2);
                }
                (b'$', None) => return Ok((place == self.subject.len()).then_some(place)),
                _ => {
                    let end = self.class_end(from)?;
                    let fits = self.fits(place, from, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if fits && let Some(found) = self.go(place + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            from = end + 1;
                        }
                        Some(b'*') => return self.most(place, from, end, 0),
                        Some(b'+') => return self.most(place, from, end, 1),
                        Some(b'-') => return self.least(place, from, end),
                        _ if !fits => return Ok(None),
                        _ => (place, from) = (place + 1, end),
                    }
                }
            }
        }
    }

    fn open(&mut self, place: usize, from: usize, length: Length) -> Found<usize> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fault::Pattern("too many captures"));
        }
        self.captures.push((place, length));
        let found = self.go(place, from)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, place: usize, from: usize) -> Found<usize> {
        let open = self.captures.iter().rposition(|(_, length)| matches!(length, Length::Open));
        let Some(open) = open else { return Err(Fault::Pattern("invalid pattern capture")) };
        self.captures[open].1 = Length::Bytes(place - self.captures[open].0);
        let found = self.go(place, from)?;
        if found.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(found)
    }

    fn captured(&self, digit: u8) -> Result<(usize, usize), Fault> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match self.captures.get(index) {
            Some((start, Length::Bytes(bytes))) => Ok((*start, *bytes)),
            Some(_) | None => Err(Fault::Pattern("invalid capture index")),
        }
    }

    fn balanced(&mut self, place: usize, from: usize) -> Found<usize> {
        let (Some(&opens), Some(&closes)) = (self.pattern.get(from), self.pattern.get(from + 1)) else {
            return Err(Fault::Pattern("unbalanced pattern"));
        };
        if self.subject.get(place) != Some(&opens) {
            return Ok(None);
        }
        let mut open = 1;
        for at in place + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == closes {
                open -= 1;
                if open == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == opens {
                open += 1;
            }
        }
        Ok(None)
    }

    /// As many as there are, then fewer, until the rest fits.
    fn most(&mut self, place: usize, from: usize, end: usize, least: usize) -> Found<usize> {
        let mut count = 0;
        while self.fits(place + count, from, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(found) = self.go(place + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn least(&mut self, mut place: usize, from: usize, end: usize) -> Found<usize> {
        loop {
            if let Some(found) = self.go(place, end + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(place, from, end) {
                return Ok(None);
            }
            place += 1;
        }
    }

    fn class_end(&self, from: usize) -> Result<usize, Fault> {
        match self.pattern[from] {
            b'%' if from + 1 >= self.pattern.len() => Err(Fault::Pattern("malformed pattern (ends with '%')")),
            b'%' => Ok(from + 2),
            b'[' => {
                let mut at = from + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let Some(&byte) = self.pattern.get(at) else {
                        return Err(Fault::Pattern("malformed pattern (missing ']')"));
                    };
                    at += if byte == b'%' { 2 } else { 1 };
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(from + 1),
        }
    }

    fn fits(&self, place: usize, from: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(place) else { return false };
        match self.pattern[from] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[from + 1]),
            b'[' => self.in_set(byte, from, end - 1),
            mark => mark == byte,
        }
    }

    /// Whether a byte is in a set whose brackets stand at `from` and `last`.
    fn in_set(&self, byte: u8, from: usize, last: usize) -> bool {
        let mut at = from + 1;
        let is_turned = self.pattern[at] == b'^';
        at += usize::from(is_turned);
        while at < last {
            let mark = self.pattern[at];
            if mark == b'%' && at + 1 < last {
                if is_of_class(byte, self.pattern[at + 1]) {
                    return !is_turned;
                }
                at += 2;
            } else if self.pattern[at + 1] == b'-' && at + 2 < last {
                if (mark..=self.pattern[at + 2]).contains(&byte) {
                    return !is_turned;
                }
                at += 3;
            } else {
                if mark == byte {
                    return !is_turned;
                }
                at += 1;
            }
        }
        is_turned
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let fits = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        // A tab of the vertical kind counts too.
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    fits != class.is_ascii_uppercase()
}

/// Whether a pattern is plain text.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

//! Whether a text is JSON (RFC 8259). It is kept as it was written, so nothing is made of it here.

/// Arrays and objects in each other. MySQL ends at 100.
const DEPTH_MAX: usize = 100;

/// Whether the text is one JSON value, with blanks around it at most.
#[must_use]
pub fn is_json(text: &str) -> bool {
    let mut look = Look { rest: text.as_bytes() };
    look.blanks();
    look.value(DEPTH_MAX).is_some() && {
        look.blanks();
        look.rest.is_empty()
    }
}

/// What is left of the text. Each step takes what it reads off it, and is `None` if something else stands there.
struct Look<'a> {
    rest: &'a [u8],
}

impl Look<'_> {
    fn blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> usize {
        let count = self.rest.iter().take_while(|byte| fits(**byte)).count();
        self.rest = &self.rest[count..];
        count
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.word(&[wanted])
    }

    fn word(&mut self, wanted: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.rest.first()? {
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'"' => self.string(),
            b'[' => self.list(depth, b"[]", |look, depth| look.value(depth)),
            b'{' => self.list(depth, b"{}", |look, depth| {
                look.string()?;
                look.blanks();
                look.byte(b':')?;
                look.blanks();
                look.value(depth)
            }),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize, ends: &[u8; 2], item: impl Fn(&mut Self, usize) -> Option<()>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.byte(ends[0])?;
        self.blanks();
        if self.byte(ends[1]).is_some() {
            return Some(());
        }
        loop {
            item(self, depth)?;
            self.blanks();
            if self.byte(ends[1]).is_some() {
                return Some(());
            }
            self.byte(b',')?;
            self.blanks();
        }
    }

    fn string(&mut self) -> Option<()> {
        self.byte(b'"')?;
        loop {
            self.take_while(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            if self.byte(b'"').is_some() {
                return Some(());
            }
            self.byte(b'\\')?;
            match self.rest {
                [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => self.rest = rest,
                [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => {
                    self.rest = &digits[4..];
                }
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.byte(b'-');
        match self.rest.first()? {
            b'0' => self.rest = &self.rest[1..],
            _ => self.digits()?,
        }
        if self.byte(b'.').is_some() {
            self.digits()?;
        }
        if self.byte(b'e').or_else(|| self.byte(b'E')).is_some() {
            let _ = self.byte(b'+').or_else(|| self.byte(b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        (self.take_while(|byte| byte.is_ascii_digit()) > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_from_what_is_none() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for text in ["null", " {\"a\" : [1, -0.5e+3, \"\\u00e9\\n\", {}], \"\":[]} ", "0", "\"\"", "\"é\"", &deep(100)]
        {
            assert!(is_json(text), "{text}");
        }
        for text in
            ["", " ", "nul", "01", "1.", ".5", "-", "1e", "[1,]", "{a:1}", "{\"a\"}", "\"\\x\"", "\"\n\"", "1 2", "NaN"]
        {
            assert!(!is_json(text), "{text}");
        }
        assert!(!is_json(&deep(101)) && !is_json("\"\\u00e\"") && !is_json("\"a") && !is_json("{\"a\":1,}"));
    }
}

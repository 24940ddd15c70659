//! Patterns of `KEYS`, `SCAN MATCH` and `CONFIG GET`: `* ? [a-c] [^a] \x`. Takes time in proportion to pattern × text, never more.

pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Where to go on if what follows the last star fails: only the last star ever needs to give way.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, in_text));
            at += 1;
            continue;
        } else if in_text < text.len() {
            match_one(&pattern[at..], text[in_text])
        } else if at == pattern.len() {
            return true;
        } else {
            None
        };
        match (step, &mut retry) {
            (Some(used), _) => {
                at += used;
                in_text += 1;
            }
            (None, Some((after_star, from))) if *from < text.len() => {
                *from += 1;
                (at, in_text) = (*after_star, *from);
            }
            (None, _) => return false,
        }
    }
}

/// Whether one byte fits the front of the pattern, and how many pattern bytes that took.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => match_class(pattern, byte),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

fn match_class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            // An unclosed class ends with the pattern, as in Redis.
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// The text that every match begins with: up to the first special character.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[c-a]x", "bx"),
            ("[^a]", "b"),
            ("\\*", "*"),
            ("a*b*c", "axxbyyc"),
            ("**a", "ba"),
            ("[\\]]", "]"),
            ("users:*", "users:1"),
            ("[a", "a"),
        ];
        let no = [
            ("", "a"),
            ("a", ""),
            ("a?c", "ac"),
            ("[^a]", "a"),
            ("\\*", "a"),
            ("a*b", "a"),
            ("*a", "ab"),
            ("[a-c]", ""),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = b"a*".repeat(500);
        let text = vec![b'a'; 5_000];

        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }

    #[test]
    fn a_prefix_ends_at_the_first_special_character() {
        assert_eq!(literal_prefix(b"users:*"), b"users:");
        assert_eq!(literal_prefix(b"plain"), b"plain");
    }
}

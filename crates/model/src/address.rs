//! The text form of a row's address: `table:key`, and `table:key@s1` or `table:key@s1,s2` in tables with a sort key.
//!
//! The table ends at the first `:`. In tables with a sort key it begins behind the last `@`: `int64` parts in decimal, string
//! parts with `%`, `,` and `@` written as `%25`, `%2C` and `%40`. In other tables an `@` is part of the key, so an address is
//! only understood with its table at hand. What a text without a table means is decided by the doors, and so is whether a
//! table exists; this is only how it is written.
//!
//! Where people and Redis clients write addresses, a key of a table with a definition may stand in braces ([`bare_key`]):
//! `users:{42}` is `users:42`. Elsewhere keys are raw, and nothing is taken off.

use crate::error::{ErrorCode, Refusal};
use crate::limits;
use crate::value::{FieldType, Value};

/// Cuts a text at its first colon: what may be a table's name, and the rest. `None` if no name could end there.
#[inline]
#[must_use]
pub fn split_table(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = &text[..text.len().min(limits::NAME_BYTES_MAX + 1)];
    let colon = name.iter().position(|&byte| byte == b':')?;
    Some((&text[..colon], &text[colon + 1..]))
}

/// Cuts what follows the table into the key and the values of the sort key, given their types.
pub fn split_sort<'a>(rest: &'a [u8], types: &[FieldType]) -> Result<(&'a [u8], Vec<Value>), Refusal> {
    if types.is_empty() {
        return Ok((rest, Vec::new()));
    }
    let Some(at) = rest.iter().rposition(|&byte| byte == b'@') else {
        let message = format!("{:?} lacks its sort key: write table:key@{}", lossy(rest), shape(types));
        return Err(bad(message));
    };
    let text = &rest[at + 1..];
    let parts = parse_sort(text, types)?;
    if parts.len() < types.len() {
        let (have, want) = (parts.len(), types.len());
        let message = format!("{:?} has {have} of the {want} parts of the sort key {}", lossy(text), shape(types));
        return Err(bad(message));
    }
    Ok((&rest[..at], parts))
}

/// Reads a sort key or its first part, which is enough for the bound of a scan.
pub fn parse_sort(text: &[u8], types: &[FieldType]) -> Result<Vec<Value>, Refusal> {
    let texts: Vec<&[u8]> = text.split(|&byte| byte == b',').collect();
    if texts.len() > types.len() {
        let (have, want) = (texts.len(), types.len());
        return Err(bad(format!("{:?} has {have} parts, the sort key has {want}", lossy(text))));
    }
    let parts = texts.into_iter().zip(types).map(|(part, kind)| {
        let wrong = || bad(format!("sort part {:?} is not a valid {}", lossy(part), kind.name()));
        parse_part(part, *kind).ok_or_else(wrong)
    });
    parts.collect()
}

fn parse_part(text: &[u8], kind: FieldType) -> Option<Value> {
    let plain = String::from_utf8(unescape(text)?).ok()?;
    match kind {
        FieldType::Int64 => plain.parse().ok().map(Value::Int),
        FieldType::String => Some(Value::Str(plain)),
        // A definition lets no other type into a sort key.
        FieldType::Uint64
        | FieldType::Float64
        | FieldType::Blob
        | FieldType::Bool
        | FieldType::Decimal { .. }
        | FieldType::Timestamp { .. }
        | FieldType::Date
        | FieldType::Time { .. }
        | FieldType::Uuid
        | FieldType::Json => None,
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (&[high, low], after) = tail.split_first_chunk::<2>()?;
            out.push(digit(high)? << 4 | digit(low)?);
            rest = after;
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// The key that a text means in a table with a definition: `42` for `{42}`, which a client of Redis Cluster writes to find
/// the key's slot by itself, and `{42}` for `{{42}}`. Everything else is its text, also what has a tag and more, as
/// `{42}:x` (redis-cluster A-51).
#[inline]
#[must_use]
pub fn bare_key(text: &[u8]) -> &[u8] {
    if is_braced(text) { &text[1..text.len() - 1] } else { text }
}

/// Appends a key as [`bare_key`] reads it.
pub fn print_key(key: &[u8], out: &mut Vec<u8>) {
    if is_braced(key) {
        out.push(b'{');
        out.extend_from_slice(key);
        out.push(b'}');
    } else {
        out.extend_from_slice(key);
    }
}

/// Whether a text is something in one or more pairs of braces, and nothing else. One pair is a tag; the inner text has no
/// `}`, so it is its own partition key, and has the slot that a client computes.
#[inline]
fn is_braced(text: &[u8]) -> bool {
    let [b'{', .., b'}'] = text else { return false };
    let pairs = text.iter().rev().take_while(|&&byte| byte == b'}').count();
    let inner = text.len().saturating_sub(2 * pairs);
    inner > 0 && text[..pairs].iter().all(|&byte| byte == b'{') && !text[pairs..pairs + inner].contains(&b'}')
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Appends a sort key as [`parse_sort`] reads it.
pub fn print_sort(parts: &[Value], out: &mut Vec<u8>) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match part {
            Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Str(plain) => plain.bytes().for_each(|byte| match byte {
                b'%' => out.extend_from_slice(b"%25"),
                b',' => out.extend_from_slice(b"%2C"),
                b'@' => out.extend_from_slice(b"%40"),
                other => out.push(other),
            }),
            // Nothing else orders rows.
            Value::Uint(_) | Value::Float(_) | Value::Blob(_) => {}
            Value::Null | Value::Bool(_) | Value::Json(_) | Value::Sql(_) => {}
        }
    }
}

/// `int64,string`: what a sort key of these types looks like.
fn shape(types: &[FieldType]) -> String {
    types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn bad(message: String) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slot::Slot;

    const BOTH: [FieldType; 2] = [FieldType::Int64, FieldType::String];

    fn print(key: &[u8], parts: &[Value]) -> Vec<u8> {
        let mut text = [b"messages:", key].concat();
        if !parts.is_empty() {
            text.push(b'@');
            print_sort(parts, &mut text);
        }
        text
    }

    #[test]
    fn a_key_keeps_its_colons_and_ats_without_a_sort_key() {
        assert_eq!(split_table(b"users:a:b@c"), Some((b"users".as_slice(), b"a:b@c".as_slice())));
        assert_eq!(split_sort(b"a:b@c", &[]), Ok((b"a:b@c".as_slice(), Vec::new())));
    }

    #[test]
    fn the_sort_key_stands_behind_the_last_at() {
        let row = split_sort(b"lili@home@-7,a%2Cb%40", &BOTH);

        assert_eq!(row, Ok((b"lili@home".as_slice(), vec![Value::Int(-7), Value::Str("a,b@".into())])));
    }

    #[test]
    fn redis_cluster_a_51_one_pair_of_braces_around_a_key_is_no_part_of_it() {
        for (text, key) in [
            ("{42}", "42"),
            ("42", "42"),
            ("{{42}}", "{42}"),
            ("{{{42}}}", "{{42}}"),
            ("{42}:x", "{42}:x"),
            ("x{42}", "x{42}"),
            ("{a}{b}", "{a}{b}"),
            ("{{a}", "{a"),
            ("{{}", "{"),
            ("{a}}", "{a}}"),
            ("{}", "{}"),
            ("{{}}", "{{}}"),
            ("{", "{"),
            ("}", "}"),
            ("", ""),
        ] {
            assert_eq!(bare_key(text.as_bytes()), key.as_bytes(), "{text}");
        }
    }

    #[test]
    fn no_name_is_longer_than_names_are() {
        let longest = [&[b'a'; limits::NAME_BYTES_MAX][..], b":key"].concat();

        assert!(split_table(&longest).is_some());
        assert_eq!(split_table(&[b"a", &longest[..]].concat()), None);
        assert_eq!(split_table(b"lili"), None);
    }

    #[test]
    fn half_an_address_is_refused() {
        for rest in [
            "lili",
            "lili@7",
            "lili@7,a,b",
            "lili@x,a",
            "lili@,a",
            "lili@7,%",
            "lili@7,%2",
            "lili@7,%zz",
            "lili@7,%+1",
            "lili@7,%ff",
        ] {
            let refusal = split_sort(rest.as_bytes(), &BOTH).unwrap_err();

            assert_eq!(refusal.code, ErrorCode::BadRequest, "{rest}: {refusal}");
        }
    }

    #[test]
    fn a_bound_may_be_the_first_part() {
        assert_eq!(parse_sort(b"7", &BOTH), Ok(vec![Value::Int(7)]));
    }

    proptest! {
        #[test]
        fn every_address_reads_back(
            key in prop::collection::vec(any::<u8>(), 0..20), number in any::<i64>(), plain in "[a%,@:é ]{0,8}|.{0,8}",
        ) {
            let parts = [Value::Int(number), Value::Str(plain)];

            for (types, parts) in [(&BOTH[..], &parts[..]), (&BOTH[..1], &parts[..1]), (&[], &[])] {
                let text = print(&key, parts);
                let (table, rest) = split_table(&text).unwrap();
                prop_assert_eq!(table, b"messages");
                prop_assert_eq!(split_sort(rest, types), Ok((&key[..], parts.to_vec())));
            }
        }

        #[test]
        fn every_key_reads_back_from_its_print(key in "[{}a]{0,9}|.{0,9}") {
            let mut text = Vec::new();
            print_key(key.as_bytes(), &mut text);

            prop_assert_eq!(bare_key(&text), key.as_bytes());
        }

        /// What is written as nothing but a tag lives in the slot that a client of Redis Cluster computes.
        #[test]
        fn redis_cluster_a_51_braces_lead_to_the_slot(table in "[a-z_]{1,9}", key in "[{a:@]{1,9}|[^}]{1,9}") {
            let written = format!("{table}:{{{key}}}");
            let (_, rest) = split_table(written.as_bytes()).unwrap();

            prop_assert_eq!(bare_key(rest), key.as_bytes());
            prop_assert_eq!(Slot::of_key(written.as_bytes()), Slot::of_key(key.as_bytes()));
        }

        #[test]
        fn whatever_is_read_is_what_is_printed_again(text in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Ok((key, parts)) = split_sort(&text, &BOTH) {
                let printed = print(key, &parts);
                let (_, rest) = split_table(&printed).unwrap();

                prop_assert_eq!(split_sort(rest, &BOTH), Ok((key, parts)));
            }
        }
    }
}

//! Addresses as text: `table:key`, and `table:key@s1[,s2]` for rows of tables with a sort key.
//!
//! The sort key stands after the last `@`: an `int64` in decimal, a string with `%`, `,` and `@` percent-encoded. In
//! tables without a sort key an `@` is part of the key, so an address is only understood with its table at hand.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use shardine_model::{ErrorCode, FieldType, Refusal, Value};

use crate::text;

/// Cuts an address at its first colon: the table, and the rest that [`split_sort`] understands.
pub fn split_table(address: &str) -> Result<(&str, &str), Refusal> {
    match address.split_once(':') {
        Some((table, rest)) if !table.is_empty() => Ok((table, rest)),
        Some(_) | None => {
            let message = format!("{address:?} is not an address: write table:key, like users:lili");
            Err(Refusal::new(ErrorCode::BadRequest, message))
        }
    }
}

/// Cuts what follows the table into the key and the values of the sort key, given their types.
pub fn split_sort<'a>(rest: &'a str, sort: &[FieldType]) -> Result<(&'a str, Vec<Value>), Refusal> {
    if sort.is_empty() {
        return Ok((rest, Vec::new()));
    }
    let Some((key, sort_text)) = rest.rsplit_once('@') else {
        let message = format!("{rest:?} lacks its sort key: write table:key@{}", shape(sort));
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    };
    let parts = parse_sort(sort_text, sort)?;
    if parts.len() < sort.len() {
        let message = format!("{sort_text:?} is only a part of the sort key {}", shape(sort));
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    Ok((key, parts))
}

/// Reads a sort key or its first part.
pub fn parse_sort(sort_text: &str, types: &[FieldType]) -> Result<Vec<Value>, Refusal> {
    let texts: Vec<&str> = sort_text.split(',').collect();
    if texts.len() > types.len() {
        let message = format!("{sort_text:?} has {} parts, the sort key has {}", texts.len(), types.len());
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    texts.into_iter().zip(types).map(|(part, kind)| parse_part(part, *kind)).collect()
}

fn parse_part(part: &str, kind: FieldType) -> Result<Value, Refusal> {
    let plain = percent_decode_str(part).decode_utf8().map_err(|_| {
        Refusal::new(ErrorCode::BadRequest, format!("sort part {part:?} is not UTF-8 after percent-decoding"))
    })?;
    text::parse(kind, &plain)
}

/// Writes a sort key as [`parse_sort`] reads it.
#[must_use]
pub fn format_sort(parts: &[Value]) -> String {
    let texts: Vec<String> = parts.iter().map(format_part).collect();
    texts.join(",")
}

fn format_part(part: &Value) -> String {
    match part {
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Str(plain) => escape(plain).into_owned(),
        Value::Blob(bytes) => escape(&String::from_utf8_lossy(bytes)).into_owned(),
    }
}

fn escape(plain: &str) -> Cow<'_, str> {
    if !plain.contains(['%', ',', '@']) {
        return Cow::Borrowed(plain);
    }
    let mut escaped = String::with_capacity(plain.len() + 8);
    for character in plain.chars() {
        match character {
            '%' => escaped.push_str("%25"),
            ',' => escaped.push_str("%2C"),
            '@' => escaped.push_str("%40"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// `int64,string`: what a sort key of these types looks like.
fn shape(types: &[FieldType]) -> String {
    types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [FieldType; 2] = [FieldType::Int64, FieldType::String];

    #[test]
    fn a_key_keeps_its_colons_and_ats_without_a_sort_key() {
        assert_eq!(split_table("users:a:b@c"), Ok(("users", "a:b@c")));
        assert_eq!(split_sort("a:b@c", &[]), Ok(("a:b@c", vec![])));
    }

    #[test]
    fn the_sort_key_stands_after_the_last_at() {
        let row = split_sort("lili@home@-7,a%2Cb%40", &BOTH);

        assert_eq!(row, Ok(("lili@home", vec![Value::Int(-7), Value::Str("a,b@".into())])));
    }

    #[test]
    fn half_an_address_is_refused() {
        assert!(split_table("lili").is_err());
        assert!(split_table(":lili").is_err());
        assert!(split_sort("lili", &BOTH).is_err());
        assert!(split_sort("lili@7", &BOTH).is_err());
        assert!(split_sort("lili@7,a,b", &BOTH).is_err());
        assert!(split_sort("lili@x,a", &BOTH).is_err());
    }

    #[test]
    fn a_bound_may_be_the_first_part() {
        assert_eq!(parse_sort("7", &BOTH), Ok(vec![Value::Int(7)]));
    }

    proptest! {
        #[test]
        fn sort_keys_come_back(number in any::<i64>(), plain in "[a%,@é ]{0,8}") {
            let parts = vec![Value::Int(number), Value::Str(plain)];

            prop_assert_eq!(parse_sort(&format_sort(&parts), &BOTH), Ok(parts));
        }
    }
}

//! Addresses as the doors of this service read them: `table:key`, always with the table. The text form itself is the model's
//! (`model/src/address.rs`).

use shardine_model::{ErrorCode, FieldType, Refusal, Value, address};

/// Cuts an address at its first colon: the table, and the rest that [`split_sort`] understands.
pub fn split_table(text: &str) -> Result<(&str, &str), Refusal> {
    match address::split_table(text.as_bytes()) {
        Some((table, _)) if !table.is_empty() => Ok((&text[..table.len()], &text[table.len() + 1..])),
        Some(_) | None => {
            let message = format!("{text:?} is not an address: write table:key, like users:lili");
            Err(Refusal::new(ErrorCode::BadRequest, message))
        }
    }
}

/// Cuts what follows the table into the key and the values of the sort key, given their types.
pub fn split_sort<'a>(rest: &'a str, sort: &[FieldType]) -> Result<(&'a str, Vec<Value>), Refusal> {
    let (key, parts) = address::split_sort(rest.as_bytes(), sort)?;
    Ok((&rest[..key.len()], parts))
}

/// The key that is meant where people write it: in a table with a definition without the braces that may stand around it.
#[must_use]
pub fn bare_key(text: &str) -> &str {
    let bare = address::bare_key(text.as_bytes());
    // A pair of braces goes, or nothing.
    let braces = (text.len() - bare.len()) / 2;
    &text[braces..text.len() - braces]
}

/// Writes a key as [`bare_key`] reads it.
#[must_use]
pub fn format_key(key: &str) -> String {
    let mut text = Vec::new();
    address::print_key(key.as_bytes(), &mut text);
    String::from_utf8(text).expect("text in braces is text")
}

/// Reads a sort key or its first part.
pub fn parse_sort(sort_text: &str, types: &[FieldType]) -> Result<Vec<Value>, Refusal> {
    address::parse_sort(sort_text.as_bytes(), types)
}

/// Writes a sort key as [`parse_sort`] reads it.
#[must_use]
pub fn format_sort(parts: &[Value]) -> String {
    let mut text = Vec::new();
    address::print_sort(parts, &mut text);
    String::from_utf8(text).expect("numbers and strings are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_must_be_named() {
        assert_eq!(split_table("users:a:b@c"), Ok(("users", "a:b@c")));
        assert_eq!(split_table("lili").unwrap_err().code, ErrorCode::BadRequest);
        assert_eq!(split_table(":lili").unwrap_err().code, ErrorCode::BadRequest);
    }

    #[test]
    fn braces_may_stand_around_a_key() {
        assert_eq!((bare_key("{hömé}"), bare_key("{{42}}"), bare_key("{42}:x")), ("hömé", "{42}", "{42}:x"));
        assert_eq!((format_key("hömé"), format_key("{42}")), ("hömé".into(), "{{42}}".into()));
    }

    #[test]
    fn a_key_and_its_sort_key_are_text() {
        let types = [FieldType::Int64, FieldType::String];
        let parts = vec![Value::Int(-7), Value::Str("é,b@".into())];

        assert_eq!(split_sort("lili@hömé@-7,é%2Cb%40", &types), Ok(("lili@hömé", parts.clone())));
        assert_eq!(format_sort(&parts), "-7,é%2Cb%40");
        assert_eq!(parse_sort("-7", &types), Ok(vec![Value::Int(-7)]));
    }
}

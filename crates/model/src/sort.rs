//! Sort keys: the values that order rows inside one key, as bytes whose order is the order of the values.
//!
//! An `int64` is eight big-endian bytes with the sign bit turned. A string is its bytes with each 0x00 written as
//! 0x00 0xFF, ended by 0x00 0x01; so a prefix sorts before what it begins, and parts never run into each other.

use crate::codec::DecodeError;
use crate::value::{FieldType, Value, ValueRef};

const STRING_END: [u8; 2] = [0x00, 0x01];
const STRING_ZERO: [u8; 2] = [0x00, 0xff];

/// Appends one part. Only `int64` and `string` order rows; a definition lets no other type in.
pub fn encode_part(part: ValueRef<'_>, out: &mut Vec<u8>) {
    match part {
        ValueRef::Int(value) => out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes()),
        ValueRef::Str(value) => {
            for &byte in value.as_bytes() {
                if byte == 0 {
                    out.extend_from_slice(&STRING_ZERO);
                } else {
                    out.push(byte);
                }
            }
            out.extend_from_slice(&STRING_END);
        }
        ValueRef::Uint(_)
        | ValueRef::Float(_)
        | ValueRef::Blob(_)
        | ValueRef::Null
        | ValueRef::Bool(_)
        | ValueRef::Json(_)
        | ValueRef::Sql(_) => {
            panic!("a sort part is an int64 or a string")
        }
    }
}

#[must_use]
pub fn encode(parts: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        encode_part(part.as_ref(), &mut out);
    }
    out
}

/// Reads back the parts of a whole sort key, given their types.
pub fn decode(types: &[FieldType], mut bytes: &[u8]) -> Result<Vec<Value>, DecodeError> {
    let mut parts = Vec::with_capacity(types.len());
    for kind in types {
        let (part, rest) = match kind {
            FieldType::Int64 => decode_int(bytes)?,
            FieldType::String => decode_string(bytes)?,
            FieldType::Uint64
            | FieldType::Float64
            | FieldType::Blob
            | FieldType::Bool
            | FieldType::Decimal { .. }
            | FieldType::Timestamp { .. }
            | FieldType::Date
            | FieldType::Time { .. }
            | FieldType::Uuid
            | FieldType::Json => {
                return Err(DecodeError::Unknown { what: "sort part type", value: u64::from(kind.tag()) });
            }
        };
        parts.push(part);
        bytes = rest;
    }
    if bytes.is_empty() { Ok(parts) } else { Err(DecodeError::LeftOver { what: "sort key", count: bytes.len() }) }
}

fn decode_int(bytes: &[u8]) -> Result<(Value, &[u8]), DecodeError> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or(DecodeError::Truncated { what: "sort int64" })?;
    Ok((Value::Int((u64::from_be_bytes(*number) ^ (1 << 63)) as i64), rest))
}

fn decode_string(bytes: &[u8]) -> Result<(Value, &[u8]), DecodeError> {
    let mut text = Vec::new();
    let mut rest = bytes;
    loop {
        match rest {
            [0x00, 0x01, tail @ ..] => {
                let text = String::from_utf8(text).map_err(|_| DecodeError::NotText { what: "sort string" })?;
                return Ok((Value::Str(text), tail));
            }
            [0x00, 0xff, tail @ ..] => {
                text.push(0);
                rest = tail;
            }
            [0x00, other, ..] => {
                return Err(DecodeError::Unknown { what: "sort string escape", value: u64::from(*other) });
            }
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
            [] => return Err(DecodeError::Truncated { what: "sort string" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sort_value() -> impl Strategy<Value = (i64, String)> {
        (any::<i64>(), "[\\x00-\\x02a-c]{0,6}")
    }

    proptest! {
        #[test]
        fn bytes_order_as_values_do(left in sort_value(), right in sort_value()) {
            let parts = |pair: &(i64, String)| encode(&[Value::Str(pair.1.clone()), Value::Int(pair.0)]);
            let value_order = (&left.1, left.0).cmp(&(&right.1, right.0));

            prop_assert_eq!(parts(&left).cmp(&parts(&right)), value_order);
        }

        #[test]
        fn parts_come_back(pair in sort_value()) {
            let parts = vec![Value::Int(pair.0), Value::Str(pair.1)];

            let back = decode(&[FieldType::Int64, FieldType::String], &encode(&parts));

            prop_assert_eq!(back, Ok(parts));
        }
    }

    #[test]
    fn published_sort_keys() {
        assert_eq!(encode(&[Value::Int(-1)]), [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(encode(&[Value::Int(1)]), [0x80, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(encode(&[Value::Str("a\0b".into())]), [b'a', 0x00, 0xff, b'b', 0x00, 0x01]);
    }
}

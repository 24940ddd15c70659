//! Types of fields, and values of them, owned and borrowed, with their stored form. What SQL has beyond numbers and text is in
//! [`crate::sql_value`].

use std::borrow::Cow;

use crate::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use crate::sql_value::{Decimal, SqlValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldType {
    Int64,
    Uint64,
    Float64,
    String,
    Blob,
    Bool,
    /// So many digits, of which so many behind the point; exact.
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// A moment in UTC, with so many digits of a second.
    Timestamp {
        digits: u8,
    },
    Date,
    /// A time of day, with so many digits of a second.
    Time {
        digits: u8,
    },
    Uuid,
    /// Kept as it was written.
    Json,
}

/// Digits of a decimal: as many as an `i128` holds, and more than any currency needs.
pub const DECIMAL_DIGITS_MAX: u8 = 38;
/// Digits of a second: microseconds, as PostgreSQL and MySQL have them.
pub const SECOND_DIGITS_MAX: u8 = 6;

impl FieldType {
    /// The types that have no parameters and order nothing but numbers and text: those of definitions since their first form.
    pub const PLAIN: [FieldType; 5] = [Self::Int64, Self::Uint64, Self::Float64, Self::String, Self::Blob];

    /// All names, for whoever gave another.
    pub const NAMES: &'static str = "int64, uint64, float64, string, blob, bool, decimal(DIGITS,SCALE), timestamp, timestamp(0) \
                                     to timestamp(6), date, time, time(0) to time(6), uuid, json";

    /// The name in `table create`, in definitions and in replies.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Blob => "blob",
            Self::Bool => "bool",
            Self::Decimal { precision, scale } => return Cow::Owned(format!("decimal({precision},{scale})")),
            Self::Timestamp { digits: SECOND_DIGITS_MAX } => "timestamp",
            Self::Timestamp { digits } => return Cow::Owned(format!("timestamp({digits})")),
            Self::Date => "date",
            Self::Time { digits: SECOND_DIGITS_MAX } => "time",
            Self::Time { digits } => return Cow::Owned(format!("time({digits})")),
            Self::Uuid => "uuid",
            Self::Json => "json",
        })
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (word, parameters) = match name.split_once('(') {
            Some((word, rest)) => (word, Some(rest.strip_suffix(')')?)),
            None => (name, None),
        };
        let numbers: Vec<u8> =
            parameters.map_or(Some(Vec::new()), |text| text.split(',').map(|one| one.trim().parse().ok()).collect())?;
        let kind = match (word, &numbers[..]) {
            ("int64", []) => Self::Int64,
            ("uint64", []) => Self::Uint64,
            ("float64", []) => Self::Float64,
            ("string", []) => Self::String,
            ("blob", []) => Self::Blob,
            ("bool", []) => Self::Bool,
            ("decimal", &[precision]) => Self::Decimal { precision, scale: 0 },
            ("decimal", &[precision, scale]) => Self::Decimal { precision, scale },
            ("timestamp", []) => Self::Timestamp { digits: SECOND_DIGITS_MAX },
            ("timestamp", &[digits]) => Self::Timestamp { digits },
            ("date", []) => Self::Date,
            ("time", []) => Self::Time { digits: SECOND_DIGITS_MAX },
            ("time", &[digits]) => Self::Time { digits },
            ("uuid", []) => Self::Uuid,
            ("json", []) => Self::Json,
            _ => return None,
        };
        kind.is_within_limits().then_some(kind)
    }

    /// Whether its parameters are ones that a type can have.
    #[must_use]
    pub fn is_within_limits(self) -> bool {
        match self {
            Self::Decimal { precision, scale } => (1..=DECIMAL_DIGITS_MAX).contains(&precision) && scale <= precision,
            Self::Timestamp { digits } | Self::Time { digits } => digits <= SECOND_DIGITS_MAX,
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::String | Self::Blob => true,
            Self::Bool | Self::Date | Self::Uuid | Self::Json => true,
        }
    }

    #[must_use]
    pub fn is_plain(self) -> bool {
        Self::PLAIN.contains(&self)
    }

    #[must_use]
    pub fn tag(self) -> u8 {
        match self {
            Self::Int64 => 1,
            Self::Uint64 => 2,
            Self::Float64 => 3,
            Self::String => 4,
            Self::Blob => 5,
            // 6 is null, which is a value and no type.
            Self::Bool => 7,
            Self::Decimal { .. } => 8,
            Self::Timestamp { .. } => 9,
            Self::Date => 10,
            Self::Time { .. } => 11,
            Self::Uuid => 12,
            Self::Json => 13,
        }
    }

    /// A type without parameters: of sort keys and keys.
    pub fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        Self::PLAIN
            .into_iter()
            .find(|candidate| candidate.tag() == tag)
            .ok_or(DecodeError::Unknown { what: "field type", value: u64::from(tag) })
    }

    /// The tag, and the parameters of those that have some.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            Self::Decimal { precision, scale } => out.extend_from_slice(&[precision, scale]),
            Self::Timestamp { digits } | Self::Time { digits } => out.push(digits),
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::String | Self::Blob => {}
            Self::Bool | Self::Date | Self::Uuid | Self::Json => {}
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8("field type")?;
        let kind = match tag {
            7 => Self::Bool,
            8 => Self::Decimal { precision: reader.u8("digits")?, scale: reader.u8("digits behind the point")? },
            9 => Self::Timestamp { digits: reader.u8("digits of a second")? },
            10 => Self::Date,
            11 => Self::Time { digits: reader.u8("digits of a second")? },
            12 => Self::Uuid,
            13 => Self::Json,
            tag => Self::from_tag(tag)?,
        };
        let unknown = DecodeError::Unknown { what: "parameter of a field type", value: u64::from(tag) };
        if kind.is_within_limits() { Ok(kind) } else { Err(unknown) }
    }

    /// What a field of this type holds when nobody said otherwise and it may not be null.
    #[must_use]
    pub fn zero(self) -> Value {
        match self {
            Self::Int64 => Value::Int(0),
            Self::Uint64 => Value::Uint(0),
            Self::Float64 => Value::Float(0.0),
            Self::String => Value::Str(String::new()),
            Self::Blob => Value::Blob(Vec::new()),
            Self::Bool => Value::Bool(false),
            Self::Decimal { scale, .. } => Value::Sql(SqlValue::Decimal(Decimal { units: 0, scale })),
            Self::Timestamp { .. } => Value::Sql(SqlValue::Timestamp(0)),
            Self::Date => Value::Sql(SqlValue::Date(0)),
            Self::Time { .. } => Value::Sql(SqlValue::Time(0)),
            Self::Uuid => Value::Sql(SqlValue::Uuid([0; 16])),
            Self::Json => Value::Json("null".to_owned()),
        }
    }

    /// Whether a value is one of this type, in the form that the type gives it; null is of no type.
    #[must_use]
    pub fn holds(self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Self::Float64, ValueRef::Float(number)) => number.is_finite(),
            (Self::Int64, ValueRef::Int(_))
            | (Self::Uint64, ValueRef::Uint(_))
            | (Self::String, ValueRef::Str(_))
            | (Self::Blob, ValueRef::Blob(_))
            | (Self::Bool, ValueRef::Bool(_))
            | (Self::Json, ValueRef::Json(_)) => true,
            (kind, ValueRef::Sql(value)) => value.is_of(kind),
            (_, _) => false,
        }
    }
}

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(String),
    Blob(Vec<u8>),
    Null,
    Bool(bool),
    Json(String),
    Sql(SqlValue),
}

/// A value that borrows its bytes from a request, an entry or a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(&'a str),
    Blob(&'a [u8]),
    /// A value of its own: equal to itself, and to nothing else.
    Null,
    Bool(bool),
    Json(&'a str),
    Sql(SqlValue),
}

impl Value {
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Int(value) => ValueRef::Int(*value),
            Self::Uint(value) => ValueRef::Uint(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Str(value) => ValueRef::Str(value),
            Self::Blob(value) => ValueRef::Blob(value),
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Json(value) => ValueRef::Json(value),
            Self::Sql(value) => ValueRef::Sql(*value),
        }
    }
}

impl<'a> ValueRef<'a> {
    #[must_use]
    pub fn to_owned(self) -> Value {
        match self {
            Self::Int(value) => Value::Int(value),
            Self::Uint(value) => Value::Uint(value),
            Self::Float(value) => Value::Float(value),
            Self::Str(value) => Value::Str(value.to_owned()),
            Self::Blob(value) => Value::Blob(value.to_owned()),
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Json(value) => Value::Json(value.to_owned()),
            Self::Sql(value) => Value::Sql(value),
        }
    }

    /// The narrowest type that holds the value; null is of none.
    #[must_use]
    pub fn field_type(self) -> Option<FieldType> {
        Some(match self {
            Self::Int(_) => FieldType::Int64,
            Self::Uint(_) => FieldType::Uint64,
            Self::Float(_) => FieldType::Float64,
            Self::Str(_) => FieldType::String,
            Self::Blob(_) => FieldType::Blob,
            Self::Null => return None,
            Self::Bool(_) => FieldType::Bool,
            Self::Json(_) => FieldType::Json,
            Self::Sql(value) => value.field_type(),
        })
    }

    /// What an error calls the kind of the value.
    #[must_use]
    pub fn kind_name(self) -> &'static str {
        match self {
            Self::Int(_) => "int64",
            Self::Uint(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::Blob(_) => "blob",
            Self::Null => "NULL",
            Self::Bool(_) => "bool",
            Self::Json(_) => "json",
            Self::Sql(value) => value.kind_name(),
        }
    }

    /// Bytes of the value itself, for limits.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => 8,
            Self::Null | Self::Bool(_) => 1,
            Self::Sql(_) => 16,
            Self::Str(value) | Self::Json(value) => value.len(),
            Self::Blob(value) => value.len(),
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::Int(_) => 1,
            Self::Uint(_) => 2,
            Self::Float(_) => 3,
            Self::Str(_) => 4,
            Self::Blob(_) => 5,
            Self::Null => 6,
            Self::Bool(_) => 7,
            Self::Json(_) => 13,
            Self::Sql(value) => value.tag(),
        }
    }

    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            Self::Int(value) => put_signed(out, value),
            Self::Uint(value) => put_varint(out, value),
            Self::Float(value) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
            Self::Str(value) | Self::Json(value) => put_bytes(out, value.as_bytes()),
            Self::Blob(value) => put_bytes(out, value),
            Self::Null => {}
            Self::Bool(value) => out.push(u8::from(value)),
            Self::Sql(value) => value.encode(out),
        }
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.u8("value type")? {
            1 => reader.signed("int64").map(Self::Int),
            2 => reader.varint("uint64").map(Self::Uint),
            3 => reader.fixed_u64("float64").map(|bits| Self::Float(f64::from_bits(bits))),
            4 => reader.text("string").map(Self::Str),
            5 => reader.bytes("blob").map(Self::Blob),
            6 => Ok(Self::Null),
            7 => match reader.u8("bool")? {
                0 => Ok(Self::Bool(false)),
                1 => Ok(Self::Bool(true)),
                other => Err(DecodeError::Unknown { what: "bool", value: u64::from(other) }),
            },
            13 => reader.text("json").map(Self::Json),
            // 14 has its bytes already, for arrays, which are not served yet (docs/encoding.md).
            tag => SqlValue::decode(tag, reader).map(Self::Sql),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_values() {
        let decimal = |units, scale| Value::Sql(SqlValue::Decimal(Decimal { units, scale }));
        let uuid = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        let uuid_bytes = [&[12][..], &uuid[..]].concat();
        let golden: [(Value, &[u8]); 18] = [
            (Value::Int(-1), &[1, 1]),
            (Value::Int(300), &[1, 0xd8, 0x04]),
            (Value::Uint(300), &[2, 0xac, 0x02]),
            (Value::Float(1.5), &[3, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            (Value::Str("hé".into()), &[4, 3, b'h', 0xc3, 0xa9]),
            (Value::Blob(vec![0, 255]), &[5, 2, 0, 255]),
            (Value::Null, &[6]),
            (Value::Bool(false), &[7, 0]),
            (Value::Bool(true), &[7, 1]),
            (decimal(-1250, 2), &[8, 2, 2, 0xfb, 0x1e]),
            (decimal(0, 0), &[8, 0, 1, 0]),
            (decimal(128, 1), &[8, 1, 2, 0, 0x80]),
            (decimal(-128, 1), &[8, 1, 1, 0x80]),
            (
                Value::Sql(SqlValue::Timestamp(1_700_000_000_000_001)),
                &[9, 0x82, 0x80, 0xf2, 0x81, 0x83, 0x89, 0x85, 0x06],
            ),
            (Value::Sql(SqlValue::Date(-1)), &[10, 1]),
            (Value::Sql(SqlValue::Time(1_000_000)), &[11, 0xc0, 0x84, 0x3d]),
            (Value::Sql(SqlValue::Uuid(uuid)), &uuid_bytes),
            (Value::Json("{\"a\": 1}".into()), &[13, 8, b'{', b'"', b'a', b'"', b':', b' ', b'1', b'}']),
        ];
        for (value, bytes) in golden {
            let mut out = Vec::new();
            value.as_ref().encode(&mut out);

            assert_eq!(out, bytes, "{value:?}");
            assert_eq!(ValueRef::decode(&mut Reader::new(bytes)).unwrap().to_owned(), value);
        }
    }

    /// Each value has one form, so that equal bytes and equal values are the same; and arrays are kept for later.
    #[test]
    fn other_forms_of_values_are_refused() {
        let odd: [&[u8]; 9] = [
            &[7, 2],
            &[8, 39, 1, 0],
            &[8, 0, 0],
            &[8, 0, 2, 0, 1],
            &[8, 0, 2, 0xff, 0x80],
            &[8, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[11, 0x80, 0xb0, 0xda, 0x8c, 0xd6, 0x13],
            &[12, 1],
            &[14, 4, 1, 2, 1, 4],
        ];
        for bytes in odd {
            assert!(ValueRef::decode(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn types_are_known_by_their_names_and_bytes() {
        let more = [
            FieldType::Bool,
            FieldType::Decimal { precision: 38, scale: 0 },
            FieldType::Decimal { precision: 10, scale: 10 },
            FieldType::Timestamp { digits: 6 },
            FieldType::Timestamp { digits: 0 },
            FieldType::Date,
            FieldType::Time { digits: 3 },
            FieldType::Uuid,
            FieldType::Json,
        ];
        for kind in FieldType::PLAIN.into_iter().chain(more) {
            let mut bytes = Vec::new();
            kind.encode(&mut bytes);

            assert_eq!(FieldType::from_name(&kind.name()), Some(kind));
            assert_eq!(FieldType::decode(&mut Reader::new(&bytes)), Ok(kind));
            assert!(kind.holds(kind.zero().as_ref()), "{}", kind.name());
        }
        for name in
            ["decimal", "decimal(39,2)", "decimal(4,5)", "decimal(0,0)", "timestamp(7)", "int64(3)", "bool(", "null"]
        {
            assert_eq!(FieldType::from_name(name), None, "{name}");
        }
    }
}

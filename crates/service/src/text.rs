//! Values as people write and read them.

use shardine_model::{Conflict, ErrorCode, FieldType, Refusal, Value, WriteMode};

/// Reads a value of a known type. A blob is the bytes of the text itself.
pub fn parse(kind: FieldType, text: &str) -> Result<Value, Refusal> {
    let wrong = |rule: &str| {
        let message = format!("{text:?} is not {rule} ({})", kind.name());
        Err(Refusal::new(ErrorCode::WrongType, message))
    };
    match kind {
        FieldType::Int64 => text.parse().map(Value::Int).or_else(|_| wrong("a whole number from -2^63 to 2^63-1")),
        FieldType::Uint64 => text.parse().map(Value::Uint).or_else(|_| wrong("a whole number from 0 to 2^64-1")),
        FieldType::Float64 => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            Ok(_) | Err(_) => wrong("a finite number"),
        },
        FieldType::String => Ok(Value::Str(text.to_owned())),
        FieldType::Blob => Ok(Value::Blob(text.as_bytes().to_vec())),
    }
}

/// Reads `NAME:TYPE` or `NAME:TYPE=DEFAULT`, as `table create` writes fields.
pub fn parse_field(text: &str) -> Result<(String, FieldType, Option<Value>), Refusal> {
    let (definition, default) = match text.split_once('=') {
        Some((definition, default)) => (definition, Some(default)),
        None => (text, None),
    };
    let (name, kind) = definition.split_once(':').ok_or_else(|| {
        Refusal::new(ErrorCode::BadRequest, format!("field {text:?} lacks its type: write NAME:TYPE, like age:int64"))
    })?;
    let kind = parse_type(kind)?;
    let default = default.map(|text| parse(kind, text)).transpose()?;
    Ok((name.to_owned(), kind, default))
}

pub fn parse_type(name: &str) -> Result<FieldType, Refusal> {
    FieldType::from_name(name).ok_or_else(|| {
        let known = FieldType::ALL.map(FieldType::name).join(", ");
        Refusal::new(ErrorCode::BadRequest, format!("{name:?} is not a type: use one of {known}"))
    })
}

/// `behind`, `through` or `on-evict`.
pub fn parse_write_mode(text: &str) -> Result<WriteMode, Refusal> {
    named(WriteMode::ALL, WriteMode::name, "a write mode", text)
}

/// `cache-wins`, `sql-wins` or `stop`.
pub fn parse_conflict(text: &str) -> Result<Conflict, Refusal> {
    named(Conflict::ALL, Conflict::name, "a policy for conflicts", text)
}

fn named<T: Copy>(all: [T; 3], name: fn(T) -> &'static str, what: &str, text: &str) -> Result<T, Refusal> {
    let found = all.into_iter().find(|one| name(*one) == text);
    found.ok_or_else(|| {
        let known = all.map(name).join(", ");
        Refusal::new(ErrorCode::BadRequest, format!("{text:?} is not {what}: {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_the_type_of_the_field() {
        assert_eq!(parse(FieldType::Int64, "-5"), Ok(Value::Int(-5)));
        assert_eq!(parse(FieldType::Uint64, "18446744073709551615"), Ok(Value::Uint(u64::MAX)));
        assert_eq!(parse(FieldType::Float64, "1.5"), Ok(Value::Float(1.5)));
        assert_eq!(parse(FieldType::String, ""), Ok(Value::Str(String::new())));
        assert_eq!(parse(FieldType::Blob, "a"), Ok(Value::Blob(b"a".to_vec())));
    }

    #[test]
    fn what_is_not_of_the_type_is_refused() {
        for (kind, text) in [
            (FieldType::Int64, "9223372036854775808"),
            (FieldType::Uint64, "-1"),
            (FieldType::Float64, "inf"),
            (FieldType::Float64, "NaN"),
            (FieldType::Int64, "ten"),
        ] {
            assert_eq!(parse(kind, text).unwrap_err().code, ErrorCode::WrongType, "{text}");
        }
    }

    #[test]
    fn a_field_may_bring_its_default() {
        assert_eq!(parse_field("age:int64=7"), Ok(("age".into(), FieldType::Int64, Some(Value::Int(7)))));
        assert_eq!(
            parse_field("name:string=a=b"),
            Ok(("name".into(), FieldType::String, Some(Value::Str("a=b".into()))))
        );
        assert_eq!(parse_field("photo:blob"), Ok(("photo".into(), FieldType::Blob, None)));
        assert!(parse_field("age").is_err());
        assert!(parse_field("age:number").is_err());
    }
}

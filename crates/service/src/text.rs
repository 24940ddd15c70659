//! Values as people write and read them.

pub use shardine_model::text::{print, rule};
use shardine_model::{Conflict, Deletes, ErrorCode, FieldType, Refusal, Value, WriteMode, text as model_text};

/// Reads a value of a known type. A blob is the bytes of the text itself.
pub fn parse(kind: FieldType, text: &str) -> Result<Value, Refusal> {
    model_text::parse(kind, text).ok_or_else(|| {
        let message = format!("{text:?} is not {} ({})", rule(kind), kind.name());
        Refusal::new(ErrorCode::WrongType, message)
    })
}

/// A field as `table create` writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedField {
    pub name: String,
    pub kind: FieldType,
    pub nullable: bool,
    pub default: Option<Value>,
}

/// Reads `NAME:TYPE` or `NAME:TYPE=DEFAULT`; a `?` behind the type lets the field be NULL, which is its default then.
pub fn parse_field(text: &str) -> Result<TypedField, Refusal> {
    let (definition, default) = match text.split_once('=') {
        Some((definition, default)) => (definition, Some(default)),
        None => (text, None),
    };
    let (name, kind) = definition.split_once(':').ok_or_else(|| {
        Refusal::new(ErrorCode::BadRequest, format!("field {text:?} lacks its type: write NAME:TYPE, like age:int64"))
    })?;
    let (kind, nullable) = parse_nullable_type(kind)?;
    let default = default.map(|text| parse(kind, text)).transpose()?;
    Ok(TypedField { name: name.to_owned(), kind, nullable, default })
}

/// Reads `TYPE`, or `TYPE?` for one that may be NULL.
pub fn parse_nullable_type(name: &str) -> Result<(FieldType, bool), Refusal> {
    match name.strip_suffix('?') {
        Some(name) => Ok((parse_type(name)?, true)),
        None => Ok((parse_type(name)?, false)),
    }
}

pub fn parse_type(name: &str) -> Result<FieldType, Refusal> {
    FieldType::from_name(name).ok_or_else(|| {
        Refusal::new(ErrorCode::BadRequest, format!("{name:?} is not a type: use one of {}", FieldType::NAMES))
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

/// `row` or `tombstone`.
pub fn parse_deletes(text: &str) -> Result<Deletes, Refusal> {
    named(Deletes::ALL, Deletes::name, "what becomes of a deleted row", text)
}

fn named<T: Copy, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    what: &str,
    text: &str,
) -> Result<T, Refusal> {
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
        let field = |name: &str, kind, nullable, default| Ok(TypedField { name: name.into(), kind, nullable, default });
        let (text, money) = (FieldType::String, FieldType::Decimal { precision: 10, scale: 2 });
        assert_eq!(parse_field("age:int64=7"), field("age", FieldType::Int64, false, Some(Value::Int(7))));
        assert_eq!(parse_field("name:string=a=b"), field("name", text, false, Some(Value::Str("a=b".into()))));
        assert_eq!(parse_field("name:string?"), field("name", text, true, None));
        assert_eq!(parse_field("name:string?="), field("name", text, true, Some(Value::Str(String::new()))));
        assert_eq!(parse_field("photo:blob"), field("photo", FieldType::Blob, false, None));
        assert_eq!(parse_field("price:decimal(10,2)?=1.5").unwrap().kind, money);
        assert!(parse_field("age").is_err());
        assert!(parse_field("age:number").is_err());
    }
}

//! Operations of `update` as typed: `age+=1`, `name.=x`, `name[0,2]=x`, `!age`.

use shardine_proto::v1;
use shardine_proto::v1::operation::Operator;

use crate::complaint::Complaint;
use crate::value;

pub const HELP: &str = "\
Operations:
  FIELD=V         assign            FIELD+=V  FIELD-=V   add, subtract
  FIELD&=V  FIELD|=V  FIELD^=V      and, or, xor of bits
  FIELD<=V        at most V (min)   FIELD>=V             at least V (max)
  FIELD.=TEXT     append            FIELD[AT,CUT]=TEXT   replace CUT bytes from AT
  !FIELD          back to the default   FIELD:NULL       assign NULL

Example:
  shardine update users:lili age+=1 'name.= the first'";

pub fn parse(table: &v1::Table, typed: &str) -> Result<v1::Operation, Complaint> {
    if let Some(field) = typed.strip_prefix('!') {
        value::type_of(table, field)?;
        return Ok(v1::Operation { field: field.to_owned(), operator: Some(Operator::Unset(true)) });
    }
    if let Some(field) = value::nulled(typed) {
        value::type_of(table, field)?;
        return Ok(v1::Operation { field: field.to_owned(), operator: Some(Operator::Assign(value::null())) });
    }
    let Some((left, given)) = typed.split_once('=') else { return Err(malformed(typed)) };
    if let Some((field, range)) = left.strip_suffix(']').and_then(|left| left.split_once('[')) {
        return splice(table, field, range, given).ok_or_else(|| malformed(typed));
    }
    let sign = left.chars().next_back().filter(|sign| "+-&|^<>.".contains(*sign));
    let field = sign.map_or(left, |sign| &left[..left.len() - sign.len_utf8()]);
    if sign == Some('.') {
        value::type_of(table, field)?;
        return Ok(v1::Operation { field: field.to_owned(), operator: Some(Operator::Append(given.into())) });
    }
    let by = value::parse(table, field, given)?;
    let operator = match sign {
        Some('+') => Operator::Add(by),
        Some('-') => Operator::Subtract(by),
        Some('&') => Operator::And(by),
        Some('|') => Operator::Or(by),
        Some('^') => Operator::Xor(by),
        Some('<') => Operator::Min(by),
        Some('>') => Operator::Max(by),
        Some(_) | None => Operator::Assign(by),
    };
    Ok(v1::Operation { field: field.to_owned(), operator: Some(operator) })
}

fn splice(table: &v1::Table, field: &str, range: &str, paste: &str) -> Option<v1::Operation> {
    value::type_of(table, field).ok()?;
    let (at, cut) = range.split_once(',')?;
    let splice = v1::Splice { at: at.trim().parse().ok()?, cut: cut.trim().parse().ok()?, paste: paste.into() };
    Some(v1::Operation { field: field.to_owned(), operator: Some(Operator::Splice(splice)) })
}

fn malformed(typed: &str) -> Complaint {
    let what = format!("{typed:?} is not an operation");
    Complaint::misused(what, "it is none of the forms of an operation", "shardine update --help")
}

#[cfg(test)]
mod tests {
    use shardine_proto::v1::value::Kind;

    use super::*;

    fn users() -> v1::Table {
        let field = |name: &str, kind: v1::FieldType| v1::FieldDefinition {
            name: name.into(),
            r#type: kind.into(),
            ..Default::default()
        };
        let fields = vec![field("age", v1::FieldType::Int64), field("name", v1::FieldType::String)];
        v1::Table { name: "users".into(), fields, ..Default::default() }
    }

    #[test]
    fn every_form_is_read() {
        let number = |number| v1::Value { kind: Some(Kind::Int64(number)) };
        let splice = v1::Splice { at: -2, cut: 1, paste: b"x=y".to_vec() };
        for (typed, field, operator) in [
            ("age=5", "age", Operator::Assign(number(5))),
            ("age+=5", "age", Operator::Add(number(5))),
            ("age-=-5", "age", Operator::Subtract(number(-5))),
            ("age&=1", "age", Operator::And(number(1))),
            ("age|=1", "age", Operator::Or(number(1))),
            ("age^=1", "age", Operator::Xor(number(1))),
            ("age<=9", "age", Operator::Min(number(9))),
            ("age>=9", "age", Operator::Max(number(9))),
            ("name.=+=", "name", Operator::Append(b"+=".to_vec())),
            ("name[-2,1]=x=y", "name", Operator::Splice(splice)),
            ("!name", "name", Operator::Unset(true)),
        ] {
            let operation = parse(&users(), typed).unwrap();

            assert_eq!((operation.field.as_str(), operation.operator), (field, Some(operator)), "{typed}");
        }
    }

    #[test]
    fn slips_are_misuse() {
        for typed in ["age", "shoe=1", "age=ten", "!shoe", "name[x,1]=y", "=1", ""] {
            assert_eq!(parse(&users(), typed).unwrap_err().exit, 2, "{typed}");
        }
    }
}

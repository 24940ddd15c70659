//! A model of records that anyone can check by reading: a map from keys to a version and two fields. The shard must
//! answer as it does.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use shardine_model::{Answer, ErrorCode, FieldId, FieldRef, Reply, RowKey, Value};
use shardine_records::{Lookup, Records};

use crate::history::{Leader, Outcome, Step};

/// What is done to `users:k`.
#[derive(Clone, Debug)]
enum Verb {
    Set(i64),
    SetText(u8),
    Incr(i64),
    Cas(i64, i64),
    Update(i64, i64),
    Delete,
    SetIf(i64, i64),
}

#[derive(Clone, Debug, Default)]
struct Record {
    version: i64,
    number: Option<i64>,
    text: Option<String>,
}

const DEFAULT_NUMBER: i64 = 3;

impl Record {
    fn is_live(&self) -> bool {
        self.version > 0
    }

    fn number(&self) -> i64 {
        self.number.unwrap_or(DEFAULT_NUMBER)
    }

    /// A change of a live record, or a new one from defaults (records 2, 3).
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<i64, ErrorCode> {
        if !self.is_live() {
            *self = Self { version: self.version, ..Self::default() };
        }
        change(self);
        self.version = self.version.abs() + 1;
        Ok(self.version)
    }

    fn act(&mut self, verb: &Verb) -> Result<i64, ErrorCode> {
        match verb {
            Verb::Set(number) => self.change(|record| record.number = Some(*number)),
            Verb::SetText(text) => self.change(|record| record.text = Some(format!("t{text}"))),
            Verb::Incr(by) => {
                let before = if self.is_live() { self.number() } else { DEFAULT_NUMBER };
                let sum = before.checked_add(*by).ok_or(ErrorCode::Overflow)?;
                self.change(|record| record.number = Some(sum))
            }
            Verb::Cas(..) if !self.is_live() => Err(ErrorCode::NotFound),
            Verb::Cas(old, _) if self.number() != *old => Err(ErrorCode::CasMismatch),
            Verb::Cas(_, new) => self.change(|record| record.number = Some(*new)),
            Verb::Update(..) if !self.is_live() => Err(ErrorCode::NotFound),
            Verb::Update(by, most) => {
                let sum = self.number().checked_sub(*by).ok_or(ErrorCode::Overflow)?;
                self.change(|record| record.number = Some(sum.min(*most)))
            }
            Verb::Delete if self.is_live() => {
                *self = Self { version: -(self.version + 1), ..Self::default() };
                Ok(self.version)
            }
            Verb::Delete => Ok(self.version),
            Verb::SetIf(version, _) if *version != self.version => Err(ErrorCode::VersionMismatch),
            Verb::SetIf(_, number) => self.change(|record| record.number = Some(*number)),
        }
    }
}

impl Verb {
    fn line(&self, key: u8) -> String {
        match self {
            Self::Set(number) => format!("set users:k{key} n={number}"),
            Self::SetText(text) => format!("set users:k{key} s=t{text}"),
            Self::Incr(by) => format!("incr users:k{key} n {by}"),
            Self::Cas(old, new) => format!("cas users:k{key} n {old} {new}"),
            Self::Update(by, most) => format!("update users:k{key} n-={by} n.min={most}"),
            Self::Delete => format!("delete users:k{key}"),
            Self::SetIf(version, number) => format!("set users:k{key} n={number} if=v{version}"),
        }
    }
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -5..5i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        number().prop_map(Verb::Set),
        any::<u8>().prop_map(Verb::SetText),
        number().prop_map(Verb::Incr),
        (-2..5i64, number()).prop_map(|(old, new)| Verb::Cas(old, new)),
        (number(), number()).prop_map(|(by, most)| Verb::Update(by, most)),
        Just(Verb::Delete),
        (-4..6i64, number()).prop_map(|(version, number)| Verb::SetIf(version, number)),
    ]
}

proptest! {
    /// records 1-4, 14, 15, 19, 21-23, 25 and 26, for any order of them.
    #[test]
    fn a_shard_answers_as_the_model_does(verbs in vec((0..3u8, verb()), 1..60)) {
        let mut leader = Leader::new(1);
        let mut model: BTreeMap<u8, Record> = BTreeMap::new();

        for (key, verb) in &verbs {
            leader.take(&Step::Requests(vec![verb.line(*key)], 1));
            let record = model.entry(*key).or_default();
            let before = record.version;
            let expected = record.act(verb);

            let Some(Outcome::Answered(Answer::One(reply))) = leader.outcomes.last() else { panic!("one answer each") };
            prop_assert_eq!(told(reply), (expected.ok().unwrap_or(before), expected.err()), "{:?}", verb);
            prop_assert_eq!(found(&leader.records, *key), (record.version, shown(record)));
        }
    }
}

fn told(reply: &Reply) -> (i64, Option<ErrorCode>) {
    (reply.version.0, reply.refusal())
}

fn shown(record: &Record) -> Option<(Option<i64>, Option<String>)> {
    record.is_live().then(|| (record.number, record.text.clone()))
}

/// The record as it is stored: unset fields are not there.
fn found(records: &Records, key: u8) -> (i64, Option<(Option<i64>, Option<String>)>) {
    let table = records.catalogue().named("users").unwrap().id;
    let key = format!("k{key}");
    let row = RowKey { table, key: key.as_bytes(), sort: b"" };
    match records.get(row.position(), row) {
        Lookup::Live(view) => {
            let image = view.fields.to_image();
            let number = image.value(FieldRef::Id(FieldId(1))).map(|value| match value {
                Value::Int(number) => number,
                other => panic!("n is an int64, not {other:?}"),
            });
            let text = image.value(FieldRef::Id(FieldId(2))).map(|value| match value {
                Value::Str(text) => text,
                other => panic!("s is a string, not {other:?}"),
            });
            (view.version.0, Some((number, text)))
        }
        Lookup::Absent { version, .. } => (version.0, None),
        Lookup::NotResident | Lookup::UnknownTable => panic!("users is a table without SQL"),
    }
}

//! Changes as a door hands them over: names and values, owned, not yet checked against any definition.

use std::sync::Arc;

use shardine_model::command::{
    Action, Attempt, Command, Existence, Fields, Give, Kind, Operation, Operations, Operator, Origin, Ttl,
};
use shardine_model::{
    AckAfter, Catalogue, ClientId, ErrorCode, FieldRef, FieldValue, Refusal, RowKeyBuf, Table, Value, Version, limits,
    sort,
};

use crate::fit;

/// The address of a row by the table's name and the values of the sort key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowAddress {
    pub table: String,
    pub key: Vec<u8>,
    pub sort: Vec<Value>,
}

/// One change of one row.
#[derive(Clone, Debug)]
pub struct Order {
    pub row: RowAddress,
    pub terms: Terms,
    pub deed: Deed,
}

/// Conditions and extras of one change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    pub if_version: Option<Version>,
    pub existence: Existence,
    pub give: Give,
    pub expiry: Expiry,
}

/// What becomes of the time to live; counted from the engine's clock when the order is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    #[default]
    Keep,
    Clear,
    AfterMs(u64),
}

/// How a request is delivered: numbered for exactly-once, and how much it waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    pub origin: Option<Origin>,
    pub ack: AckAfter,
}

/// What a client says of a numbered request.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    pub client: u64,
    pub sequence: u64,
    /// Without it the last numbers that may be open count as unanswered.
    pub lowest: Option<u64>,
    pub again: bool,
}

impl Numbered {
    pub fn origin(self) -> Result<Origin, Refusal> {
        let Self { client, sequence, lowest, again } = self;
        let bad = |message: String| Err(Refusal::new(ErrorCode::BadRequest, message));
        if sequence == 0 {
            return bad("sequences count from 1".to_owned());
        }
        let whole = Origin::new(ClientId(client), sequence);
        let lowest = lowest.unwrap_or(whole.lowest);
        if lowest == 0 || lowest > sequence {
            return bad(format!("the lowest unanswered sequence is {lowest}, not one of 1 to {sequence}"));
        }
        if sequence - lowest >= limits::REMEMBERED_RESULTS_MAX as u64 {
            let limit = limits::REMEMBERED_RESULTS_MAX;
            let message = format!("{lowest} is unanswered, and a client may have {limit} open: wait for its answer");
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        Ok(Origin { lowest, attempt: if again { Attempt::Again } else { Attempt::First }, ..whole })
    }
}

pub type NamedValues = Vec<(Vec<u8>, Value)>;

#[derive(Clone, Debug)]
pub enum Deed {
    Set(NamedValues),
    Insert(NamedValues),
    Replace(NamedValues),
    Update {
        create: bool,
        steps: Vec<Step>,
    },
    Cas {
        create: bool,
        field: Vec<u8>,
        old: Value,
        new: Value,
    },
    /// Adds an amount of either sign, whatever number the field holds.
    Incr {
        field: Vec<u8>,
        by: Value,
    },
    Delete,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub field: Vec<u8>,
    pub operator: StepOperator,
}

#[derive(Clone, Debug)]
pub enum StepOperator {
    Assign(Value),
    Add(Value),
    Subtract(Value),
    And(Value),
    Or(Value),
    Xor(Value),
    Min(Value),
    Max(Value),
    Splice { at: i64, cut: u64, paste: Vec<u8> },
    Append(Vec<u8>),
    Unset,
}

/// An order that fits its table. Invariant: every name is a field, every value has the field's type and size.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub table: Arc<Table>,
    pub row: RowKeyBuf,
    terms: Terms,
    deed: Deed,
}

impl RowAddress {
    pub(crate) fn check(&self, catalogue: &Catalogue) -> Result<(Arc<Table>, RowKeyBuf), Refusal> {
        let table = find_table(catalogue, &self.table)?;
        check_key(&self.key)?;
        let sort = fit::sort_key(&table, &self.sort)?;
        if self.sort.len() < table.sort.len() {
            let message = format!("rows of {} are addressed with a sort key of {} parts", table.name, table.sort.len());
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        let row = RowKeyBuf { table: table.id, key: self.key.as_slice().into(), sort: sort.into() };
        Ok((table, row))
    }

    /// The address that a row has in words; the inverse of `check`.
    pub(crate) fn of(table: &Table, row: &RowKeyBuf) -> Self {
        let sort = sort::decode(&table.sort_types(), &row.sort).unwrap_or_default();
        Self { table: table.name.clone(), key: row.key.to_vec(), sort }
    }
}

pub(crate) fn find_table(catalogue: &Catalogue, name: &str) -> Result<Arc<Table>, Refusal> {
    catalogue.named(name).cloned().ok_or_else(|| {
        let message = format!("table {name:?} does not exist; `shardine table list` shows those that do");
        Refusal::new(ErrorCode::UnknownTable, message)
    })
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.len() <= limits::KEY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the key has {} bytes, the limit is {}", key.len(), limits::KEY_BYTES_MAX);
    Err(Refusal::new(ErrorCode::TooLarge, message))
}

impl Order {
    /// Holds the order against the definitions in force; nothing that fails here reaches the log (records 16).
    pub(crate) fn check(self, catalogue: &Catalogue) -> Result<Checked, Refusal> {
        let (table, row) = self.row.check(catalogue)?;
        let mut terms = self.terms;
        let deed = match self.deed {
            Deed::Set(fields) if fields.is_empty() => return Err(no_fields(&table)),
            Deed::Set(fields) => Deed::Set(fit::named_values(&table, fields)?),
            Deed::Insert(fields) | Deed::Replace(fields) if fields.is_empty() && table.dynamic => {
                return Err(no_fields(&table));
            }
            Deed::Insert(fields) => {
                terms.existence = Existence::Absent;
                Deed::Set(fit::named_values(&table, fields)?)
            }
            Deed::Replace(fields) => Deed::Replace(fit::named_values(&table, fields)?),
            Deed::Update { create, steps } => Deed::Update { create, steps: fit::steps(&table, steps)? },
            Deed::Cas { create, field, old, new } => {
                let old = fit::value(&table, &field, old)?;
                let new = fit::value(&table, &field, new)?;
                Deed::Cas { create, field, old, new }
            }
            Deed::Incr { field, by } => {
                terms.give = Give::Touched;
                let operator = fit::amount(&table, &field, by)?;
                Deed::Update { create: true, steps: vec![Step { field, operator }] }
            }
            Deed::Delete => Deed::Delete,
        };
        Ok(Checked { table, row, terms, deed })
    }
}

fn no_fields(table: &Table) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, format!("no field is given for a record of {}", table.name))
}

impl Checked {
    pub(crate) fn command(&self) -> Command<'_> {
        Command {
            row: self.row.as_ref(),
            if_version: self.terms.if_version,
            existence: self.terms.existence,
            ttl: match self.terms.expiry {
                Expiry::Keep => Ttl::Keep,
                Expiry::Clear => Ttl::Clear,
                Expiry::AfterMs(ms) => Ttl::After(ms),
            },
            give: self.terms.give,
            kind: Kind::Any,
            action: self.action(),
        }
    }

    /// Whether the reply's row is the whole record, so that unset fields show their defaults.
    pub(crate) fn gives_whole_record(&self) -> bool {
        matches!(self.terms.give, Give::Old | Give::New)
    }

    fn action(&self) -> Action<'_> {
        match &self.deed {
            Deed::Set(fields) | Deed::Insert(fields) => Action::Set(self.fields(fields)),
            Deed::Replace(fields) => Action::Replace(self.fields(fields)),
            Deed::Update { create, steps } => {
                let all = || steps.iter().map(|step| step.field.as_slice());
                let operations: Operations<'_> =
                    steps.iter().map(|step| operation(self.field(&step.field, all()), step)).collect();
                Action::Update { create: *create, operations }
            }
            Deed::Cas { create, field, old, new } => Action::Cas {
                create: *create,
                field: self.field(field, [field.as_slice()]),
                old: old.as_ref(),
                new: new.as_ref(),
            },
            Deed::Incr { .. } => unreachable!("a checked order spells increments as updates"),
            Deed::Delete => Action::Delete,
        }
    }

    fn fields<'a>(&'a self, fields: &'a NamedValues) -> Fields<'a> {
        let all = || fields.iter().map(|(name, _)| name.as_slice());
        fields
            .iter()
            .map(|(name, value)| FieldValue { field: self.field(name, all()), value: value.as_ref() })
            .collect()
    }

    fn field<'a>(&self, name: &'a [u8], all: impl IntoIterator<Item = &'a [u8]>) -> FieldRef<'a> {
        fit::field_ref(&self.table, name, all).expect("names were checked when the order was taken")
    }
}

fn operation<'a>(field: FieldRef<'a>, step: &'a Step) -> Operation<'a> {
    let operator = match &step.operator {
        StepOperator::Assign(value) => Operator::Assign(value.as_ref()),
        StepOperator::Add(value) => Operator::Add(value.as_ref()),
        StepOperator::Subtract(value) => Operator::Subtract(value.as_ref()),
        StepOperator::And(value) => Operator::And(value.as_ref()),
        StepOperator::Or(value) => Operator::Or(value.as_ref()),
        StepOperator::Xor(value) => Operator::Xor(value.as_ref()),
        StepOperator::Min(value) => Operator::Min(value.as_ref()),
        StepOperator::Max(value) => Operator::Max(value.as_ref()),
        StepOperator::Splice { at, cut, paste } => Operator::Splice { at: *at, cut: *cut, paste },
        StepOperator::Append(bytes) => Operator::Append(bytes),
        StepOperator::Unset => Operator::Unset,
    };
    Operation { field, operator }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(sequence: u64, lowest: Option<u64>) -> Result<u64, ErrorCode> {
        let numbered = Numbered { client: 7, sequence, lowest, again: false };
        numbered.origin().map(|origin| origin.lowest).map_err(|refusal| refusal.code)
    }

    #[test]
    fn records_35_a_client_that_does_not_say_what_it_has_may_have_its_last_128_open() {
        assert_eq!(
            [1, 128, 129, u64::MAX].map(|sequence| origin(sequence, None)),
            [Ok(1), Ok(1), Ok(2), Ok(u64::MAX - 127)]
        );
    }

    #[test]
    fn records_35_numbers_that_cannot_be_are_refused_at_the_door() {
        assert_eq!(origin(0, None), Err(ErrorCode::BadRequest));
        assert_eq!(origin(5, Some(0)), Err(ErrorCode::BadRequest));
        assert_eq!(origin(5, Some(6)), Err(ErrorCode::BadRequest));
        assert_eq!(origin(5, Some(5)), Ok(5));
        assert_eq!(origin(128, Some(1)), Ok(1));
        assert_eq!(origin(129, Some(1)), Err(ErrorCode::Busy));
    }
}

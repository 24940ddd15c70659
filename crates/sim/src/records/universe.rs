//! The tables and rows that a run plays with: few, so that clients meet on them.

use shardine_model::key::Interval;
use shardine_model::table::KV;
use shardine_model::{
    Backing, Field, FieldId, FieldRef, FieldType, FieldValue, FieldsView, RowImage, RowKeyBuf, SqlOptions, Table,
    TableId, Value, ValueRef, Version,
};

use crate::chance::Chance;
use crate::records::plan::TablePlan;

/// A typed table with SQL behind it.
pub const USERS: TableId = TableId(2);
/// The same with a sort key.
pub const EVENTS: TableId = TableId(3);

/// The two fields of every row: a value that no two writes share, and a counter.
pub const VALUE: FieldId = FieldId(1);
pub const COUNT: FieldId = FieldId(2);
pub const VALUE_NAME: &[u8] = b"a";
pub const COUNT_NAME: &[u8] = b"n";

/// What a live row holds, in the simulator's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    /// 0 if it was never set.
    pub value: i64,
    pub count: i64,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub key: RowKeyBuf,
    /// The shard that it begins in.
    pub home: usize,
    /// Only such rows get a time to live, so that the checks of the others need not allow for it.
    pub expires: bool,
    /// The other half of a pair that is written by batches only.
    pub partner: Option<usize>,
    /// What SQL holds before the run begins.
    pub stored: Option<(Version, Content)>,
}

impl Row {
    #[must_use]
    pub fn is_sql(&self) -> bool {
        self.key.table != KV
    }

    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.key.table == KV
    }

    /// The content before the first operation.
    #[must_use]
    pub fn initial(&self) -> Option<Content> {
        self.stored.and_then(|(version, content)| version.is_live().then_some(content))
    }
}

#[derive(Clone, Debug)]
pub struct Universe {
    pub rows: Vec<Row>,
    pub intervals: Vec<Interval>,
}

impl Universe {
    #[must_use]
    pub fn new(shards: u32, chance: &mut Chance) -> Self {
        let mut universe = Self { rows: Vec::new(), intervals: Interval::cut_evenly(shards) };
        for number in 0..4 {
            universe.add(KV, format!("key{number}"), None, chance);
        }
        for number in 0..4 {
            universe.add(USERS, format!("user{number}"), None, chance);
        }
        for number in 0..4 {
            universe.add(EVENTS, format!("log{}", number / 2), Some(number % 2), chance);
        }
        universe.add_pair(KV, chance);
        universe.add_pair(USERS, chance);
        universe.rows[0].expires = true;
        universe.rows[4].expires = true;
        universe
    }

    fn add(&mut self, table: TableId, key: String, sort: Option<i64>, chance: &mut Chance) -> usize {
        let sort = sort.map_or_else(Vec::new, |sort| shardine_model::sort::encode(&[Value::Int(sort)]));
        let key = RowKeyBuf { table, key: key.into_bytes().into(), sort: sort.into() };
        let position = key.as_ref().position();
        let is_here = |interval: &Interval| interval.contains(position);
        let home = self.intervals.iter().position(is_here).expect("the intervals cover every position");
        let stored = (table != KV && chance.percent(50)).then(|| {
            let magnitude = 1 + chance.below(9) as i64;
            let deleted = chance.percent(20);
            // Below any value that a client writes.
            let content = Content { value: 1 + self.rows.len() as i64, count: magnitude };
            (Version(if deleted { -magnitude } else { magnitude }), content)
        });
        self.rows.push(Row { key, home, expires: false, partner: None, stored });
        self.rows.len() - 1
    }

    /// Two rows of one partition. Both begin without a row in SQL, so that both halves begin equal.
    fn add_pair(&mut self, table: TableId, chance: &mut Chance) {
        let halves = ["left", "right"].map(|half| self.add(table, format!("{half}{{pair{table}}}"), None, chance));
        for (half, other) in [(halves[0], halves[1]), (halves[1], halves[0])] {
            self.rows[half].stored = None;
            self.rows[half].partner = Some(other);
        }
    }

    /// Where the row with this address stands in the list.
    #[must_use]
    pub fn find(&self, key: &RowKeyBuf) -> Option<usize> {
        self.rows.iter().position(|row| row.key == *key)
    }
}

/// The tables that are made through the log when a run begins.
#[must_use]
pub fn tables(plan: &TablePlan) -> Vec<Table> {
    let field = |id, name: &[u8]| Field::of(id, String::from_utf8_lossy(name), Value::Int(0));
    let table = |id, name: &str, sort: Vec<shardine_model::table::SortPart>| Table {
        id,
        name: name.to_owned(),
        version: 1,
        fields: vec![field(VALUE, VALUE_NAME), field(COUNT, COUNT_NAME)],
        sort,
        backing: Backing::Sql,
        sql: SqlOptions {
            delay_ms: plan.delay_ms,
            batch: plan.batch,
            tombstone_keep_ms: plan.tombstone_keep_ms,
            conflict: plan.conflict,
            mode: if id == EVENTS { plan.events_mode } else { plan.users_mode },
            ..SqlOptions::default()
        },
        dynamic: false,
        dropped: false,
        next_field: FieldId(3),
    };
    let part = shardine_model::table::SortPart { name: "at".to_owned(), kind: FieldType::Int64 };
    vec![table(USERS, "users", Vec::new()), table(EVENTS, "events", vec![part])]
}

/// Reads what a row holds, by id or by name, whichever its table uses.
#[must_use]
pub fn content_of(fields: FieldsView<'_>) -> Content {
    let number = |id, name| {
        let found = fields.get(FieldRef::Id(id)).or_else(|| fields.get(FieldRef::Name(name)));
        found.map_or(0, |value| match value {
            ValueRef::Int(number) => number,
            ValueRef::Blob(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(-1),
            ValueRef::Uint(_) | ValueRef::Float(_) | ValueRef::Str(_) => -1,
            ValueRef::Null | ValueRef::Bool(_) | ValueRef::Json(_) | ValueRef::Sql(_) => -1,
        })
    };
    Content { value: number(VALUE, VALUE_NAME), count: number(COUNT, COUNT_NAME) }
}

/// A row of a typed table as SQL gives it.
#[must_use]
pub fn image_of(content: Content) -> RowImage {
    let field = |id, value| FieldValue { field: FieldRef::Id(id), value: ValueRef::Int(value) };
    RowImage::of(&[field(VALUE, content.value), field(COUNT, content.count)])
}

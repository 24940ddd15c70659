//! Random histories of one shard, made the way a leader makes them: requests as they come, and entries of its own that fit
//! what it sees. The outcome is a log that any replica can follow.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use shardine_model::entry::{LoadedRow, open_commands};
use shardine_model::{
    Answer, Backing, Entry, FieldId, Request, RequestEpoch, RowImage, RowKey, RowKeyBuf, Table, Timestamp, Version,
};
use shardine_records::{Lookup, Nobody, Records, Sink};

use shardine_story::words;

/// One thing that happens to a shard.
#[derive(Clone, Debug)]
pub enum Step {
    /// Requests that share an entry, and the time since the last one.
    Requests(Vec<String>, u64),
    /// Loads a row if it is not in memory, as SQL holds it.
    Load(String),
    /// Writes a row to SQL as it is and confirms it.
    Write(String),
    /// Kicks a row if it is clean.
    Kick(String),
    Expire,
    Purge,
    Clear,
}

/// The outcome of a request as the leader saw it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Answered(Answer),
    NotResident(Vec<RowKeyBuf>),
}

/// Collects outcomes in order.
#[derive(Default)]
pub struct Outcomes(pub Vec<Outcome>);

impl Sink for Outcomes {
    fn answer(&mut self, answer: Answer) {
        self.0.push(Outcome::Answered(answer));
    }
    fn not_resident(&mut self, _: &[u8], missing: Vec<RowKeyBuf>) {
        self.0.push(Outcome::NotResident(missing));
    }
    fn dirty(&mut self, _: RowKey<'_>) {}
}

/// A shard that leads, the database behind it, and the log it has made.
pub struct Leader {
    pub records: Records,
    pub log: Vec<Vec<u8>>,
    pub outcomes: Vec<Outcome>,
    sql: BTreeMap<RowKeyBuf, (Version, RowImage)>,
    now: Timestamp,
}

/// Tables of every kind: `kv` is dynamic, `users` typed, `notes` backed by SQL, `chat` sorted.
pub fn tables() -> Vec<Table> {
    let mut catalogue = shardine_model::Catalogue::default();
    catalogue.put(Table::kv());
    let definitions =
        ["users n:int64=3 s:string=x u:uint64", "notes n:int64 s:string sql", "chat n:int64 sort=at:int64"];
    let mut made = Vec::new();
    for definition in definitions {
        let table = words::table(&catalogue, &definition.split_whitespace().collect::<Vec<_>>());
        catalogue.put(table.clone());
        made.push(table);
    }
    assert_eq!(made[1].backing, Backing::Sql);
    assert_eq!(made[2].next_field, FieldId(2));
    made
}

impl Leader {
    pub fn new(seed: u64) -> Self {
        let mut leader = Self {
            records: Records::new(seed),
            log: Vec::new(),
            outcomes: Vec::new(),
            sql: BTreeMap::new(),
            now: Timestamp(1_000),
        };
        for table in tables() {
            leader.enter(Entry::definition(table).to_bytes());
        }
        leader
    }

    pub fn follow(steps: &[Step]) -> Self {
        let mut leader = Self::new(7);
        steps.iter().for_each(|step| leader.take(step));
        leader
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Requests(lines, ms) => {
                self.now = self.now.plus_ms(*ms);
                let entry = self.entry(lines);
                self.enter(entry);
            }
            Step::Load(text) => {
                let row = self.row(text);
                if matches!(self.lookup(row), Lookup::NotResident) {
                    let (version, image) = self.sql.get(&row.to_owned()).cloned().unwrap_or_default();
                    self.enter(Entry::Load(vec![LoadedRow { row, version, fields: &image.packed }]).to_bytes());
                }
            }
            Step::Write(text) => self.write(text),
            Step::Kick(text) => {
                let row = self.row(text);
                if let Some((version, _, _)) = self.state_of(row) {
                    self.enter(Entry::Kick(vec![(row, version)]).to_bytes());
                }
            }
            Step::Expire => {
                let rows: Vec<RowKeyBuf> = self.records.due_expiries(self.now).map(RowKey::to_owned).collect();
                let rows = rows.iter().map(RowKeyBuf::as_ref).collect();
                self.enter(Entry::Expire { at: self.now, rows }.to_bytes());
            }
            Step::Purge => {
                let due: Vec<(RowKeyBuf, Version)> =
                    self.records.due_purges(self.now).map(|(row, version)| (row.to_owned(), version)).collect();
                let due = due.iter().map(|(row, version)| (row.as_ref(), *version)).collect();
                self.enter(Entry::Purge(due).to_bytes());
            }
            Step::Clear => self.enter(Entry::Clear { table: shardine_model::table::KV }.to_bytes()),
        }
    }

    fn write(&mut self, text: &str) {
        let row = self.row(text);
        let Some((version, sql_version, image)) = self.state_of(row) else { return };
        if version != sql_version && self.records.is_sql_table(row.table) {
            self.sql.insert(row.to_owned(), (version, image));
            self.enter(Entry::Written(vec![(row, version)]).to_bytes());
        }
    }

    pub fn entry(&self, lines: &[String]) -> Vec<u8> {
        let mut entry = Vec::new();
        open_commands(&mut entry, self.now, RequestEpoch::FIRST);
        for line in lines {
            self.request(line).encode(&mut entry);
        }
        entry
    }

    pub fn request(&self, line: &str) -> Request<'static> {
        words::request(self.records.catalogue(), line).expect("histories are made of requests")
    }

    fn enter(&mut self, entry: Vec<u8>) {
        let mut outcomes = Outcomes::default();
        self.records.apply(&entry, &mut outcomes).expect("a leader's own entries can be applied");
        self.outcomes.extend(outcomes.0);
        self.log.push(entry);
    }

    fn row(&self, text: &str) -> RowKey<'static> {
        words::address(self.records.catalogue(), text)
    }

    fn lookup(&self, row: RowKey<'_>) -> Lookup<'_> {
        self.records.get(row.position(), row)
    }

    fn state_of(&self, row: RowKey<'_>) -> Option<(Version, Version, RowImage)> {
        match self.lookup(row) {
            Lookup::Live(view) => Some((view.version, view.sql_version, view.fields.to_image())),
            Lookup::Absent { version, sql_version } => Some((version, sql_version, RowImage::default())),
            Lookup::NotResident | Lookup::UnknownTable => None,
        }
    }
}

/// Another replica that follows a log.
pub fn replay(seed: u64, log: &[Vec<u8>]) -> Records {
    let mut records = Records::new(seed);
    log.iter().for_each(|entry| records.apply(entry, &mut Nobody).expect("what a leader applied"));
    records
}

const SORTS: [&str; 4] = ["-5", "0", "3", "900"];

fn row() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..4u8).prop_map(|key| format!("kv:k{key}")),
        (0..4u8).prop_map(|key| format!("users:k{key}")),
        (0..4u8).prop_map(|key| format!("notes:k{key}")),
        (0..2u8, 0..4usize).prop_map(|(key, sort)| format!("chat:k{key}@{}", SORTS[sort])),
    ]
}

/// A change of some row: every action, condition, expiry and gift.
fn change() -> impl Strategy<Value = String> {
    let extra = prop_oneof![
        6 => Just(String::new()),
        1 => (-3..6i64).prop_map(|version| format!(" if=v{version}")),
        1 => Just(" nx".to_owned()),
        1 => Just(" xx".to_owned()),
        1 => (1_000..3_000u64).prop_map(|at| format!(" expires={at}")),
        1 => Just(" expires=never".to_owned()),
    ];
    let give = prop_oneof![3 => Just(""), 1 => Just(" give=old"), 1 => Just(" give=new"), 1 => Just(" give=touched")];
    (row(), 0..12u8, -9..9i64, extra, give).prop_map(|(row, verb, n, extra, give)| {
        let dynamic = row.starts_with("kv:");
        let body = match verb {
            0 | 1 => format!("set {row} n={n}"),
            2 => format!("replace {row} n={n}"),
            3 => format!("insert {row} n={n}"),
            4 => format!("incr {row} n {n}"),
            5 => format!("decr {row} n {n}"),
            6 => format!("cas {row} n {n} 5"),
            7 => format!("casnx {row} n {n} 5"),
            8 => format!("delete {row}"),
            9 => format!("update {row} n={n} n+=1 n.unset"),
            10 => format!("touch {row}"),
            _ if dynamic => wide_set(&row, n),
            _ => format!("upsert {row} n+={n} n.max=2"),
        };
        format!("{body}{extra}{give}")
    })
}

/// Enough fields at once to turn a packed record into a tree, or to take most of them away again.
fn wide_set(row: &str, n: i64) -> String {
    let fields = 0..40 + 5 * n.unsigned_abs();
    if n < -4 {
        let unset: Vec<String> = fields.map(|field| format!("f{field}.unset")).collect();
        return format!("update {row} {}", unset.join(" "));
    }
    let set: Vec<String> = fields.map(|field| format!("f{field}={n}")).collect();
    format!("set {row} {}", set.join(" "))
}

fn request() -> impl Strategy<Value = String> {
    let batch = (any::<bool>(), vec(change(), 1..4), row()).prop_map(|(all, changes, read)| {
        let mode = if all { "all" } else { "each" };
        format!("batch {mode}: {} ; read {read}", changes.join(" ; "))
    });
    let watched = (change(), row(), -2..4i64)
        .prop_map(|(change, row, version)| format!("batch all when {row}=v{version}: {change}"));
    let body = prop_oneof![8 => change(), 1 => batch, 1 => watched];
    (body, prop_oneof![3 => Just(None), 1 => (1..4u64, 1..6u64).prop_map(Some)]).prop_map(|(body, origin)| {
        origin.map_or(body.clone(), |(client, sequence)| format!("{body} as={client}/{sequence}"))
    })
}

pub fn requests() -> impl Strategy<Value = Vec<String>> {
    vec(request(), 1..30)
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (vec(request(), 1..4), 0..80u64).prop_map(|(lines, ms)| Step::Requests(lines, ms)),
        3 => row().prop_map(Step::Load),
        2 => row().prop_map(Step::Write),
        2 => row().prop_map(Step::Kick),
        1 => Just(Step::Expire),
        1 => Just(Step::Purge),
        1 => Just(Step::Clear),
    ];
    vec(step, 1..50)
}

//! A backend on a fresh database, a second pair of eyes on the same database, and tables to play with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::table::SortPart;
use shardine_model::{
    Backing, ChangedFields, Field, FieldId, FieldRef, FieldType, FieldValue, NodeId, RowImage, RowKeyBuf, ShardId,
    Table, TableId, Value, Version, sort,
};
use shardine_testkit::sql_server::{Database, HeldLocks, Kind, Shared, SqlServer};
use shardine_writeback::{
    Backend, Change, FlushJob, Found, Handle, Job, JobId, JobOutcome, LoadJob, Loaded, LogProgress, Options, Owner,
    ScanJob, Scope, TableJob, Url,
};
use tempfile::TempDir;

/// Far above what anything here takes; a wait that ends in time costs nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How far the log has come from which these stories write: nowhere, so that all of them may follow each other.
pub const PROGRESS: LogProgress = LogProgress { shard: ShardId(1), applied: 0, inherited: 0 };

pub struct Rig {
    pub handle: Handle,
    pub url: Url,
    done: Receiver<JobOutcome>,
    next_ticket: AtomicU64,
    place: Target,
    /// What SQL calls tables of others that are mapped besides.
    pub mapped: Vec<String>,
}

/// The database itself, to be looked at behind Shardine's back.
enum Target {
    Sqlite {
        _dir: TempDir,
    },
    Server {
        database: Database,
        _shared: Option<Box<Shared>>,
    },
    /// Looked at through another rig.
    Elsewhere,
}

impl Rig {
    /// One rig per database.
    pub fn each() -> impl Iterator<Item = Rig> {
        let makers =
            [|| Self::sqlite(|_| {}), || Self::server(Kind::Postgres, |_| {}), || Self::server(Kind::MariaDb, |_| {})];
        makers.into_iter().map(|make| make())
    }

    pub fn sqlite(adjust: impl Fn(&mut Options)) -> Rig {
        let dir = TempDir::new().unwrap();
        let url = Url::Sqlite(dir.path().join("rows.db"));
        Self::at(url, Target::Sqlite { _dir: dir }, adjust)
    }

    pub fn server(kind: Kind, adjust: impl Fn(&mut Options)) -> Rig {
        let shared = Shared::database(kind).unwrap();
        let database = shared.database.clone();
        Self::at(database.url().parse().unwrap(), Target::Server { database, _shared: Some(Box::new(shared)) }, adjust)
    }

    /// On a server of the test's own, which may be treated badly.
    pub fn on(server: &SqlServer, adjust: impl Fn(&mut Options)) -> Rig {
        let database = server.database().unwrap();
        Self::at(database.url().parse().unwrap(), Target::Server { database, _shared: None }, adjust)
    }

    fn at(url: Url, place: Target, adjust: impl Fn(&mut Options)) -> Rig {
        let (handle, done) = start(&url, adjust);
        Rig { handle, url, done, next_ticket: AtomicU64::new(1), place, mapped: Vec::new() }
    }

    /// On a server that somebody else has.
    pub fn of(url: &str, adjust: impl Fn(&mut Options)) -> Rig {
        Self::at(url.parse().unwrap(), Target::Elsewhere, adjust)
    }

    /// A second process on the same database.
    pub fn beside(rig: &Rig, owner: Owner) -> Rig {
        Self::at(rig.url.clone(), Target::Elsewhere, |options| options.owner = Some(owner.clone()))
    }

    /// Stops the backend and starts another on the same database.
    pub fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    pub fn restart_with(&mut self, adjust: impl Fn(&mut Options)) {
        self.handle.stop();
        (self.handle, self.done) = start(&self.url, adjust);
    }

    /// A connection to SQLite's file that Shardine knows nothing of.
    pub fn direct(&self) -> Connection {
        let Url::Sqlite(path) = &self.url else { panic!("not SQLite") };
        Connection::open(path).unwrap()
    }

    /// The statement in the words of this rig's database.
    pub fn say(&self, sqlite: &'static str, postgres: &'static str, mysql: &'static str) -> &'static str {
        match &self.place {
            Target::Sqlite { .. } => sqlite,
            Target::Server { database, .. } if database.kind == Kind::Postgres => postgres,
            Target::Server { .. } => mysql,
            Target::Elsewhere => panic!("nobody looks through this rig"),
        }
    }

    pub fn sql(&self, batch: &str) {
        match &self.place {
            Target::Sqlite { .. } => self.direct().execute_batch(batch).unwrap(),
            Target::Server { database, .. } => drop(database.sql(batch).unwrap()),
            Target::Elsewhere => panic!("nobody looks through this rig"),
        }
    }

    /// Runs statements whose locks stay until what is given back is dropped.
    pub fn hold(&self, statements: &str) -> HeldLocks {
        let Target::Server { database, .. } = &self.place else { panic!("a file has no sessions") };
        database.hold(statements).unwrap()
    }

    /// The one value that a query gives, as text.
    pub fn ask(&self, query: &str) -> String {
        match &self.place {
            Target::Sqlite { .. } => match self.direct().query_row(query, [], |row| row.get(0)).unwrap() {
                Stored::Integer(value) => value.to_string(),
                Stored::Text(value) => value,
                other => panic!("{other:?} has no plain text form"),
            },
            Target::Server { database, .. } => database.sql(query).unwrap().trim_end_matches('\n').to_owned(),
            Target::Elsewhere => panic!("nobody looks through this rig"),
        }
    }

    pub fn ticket(&self) -> JobId {
        JobId(self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    pub fn outcome(&self) -> JobOutcome {
        self.done.recv_timeout(PATIENCE).expect("every job has an outcome")
    }

    /// Submits a job and waits for its outcome.
    pub fn perform(&self, job: Job) -> JobOutcome {
        let ticket = job.ticket();
        self.handle.submit(job).unwrap();
        let done = self.outcome();
        assert_eq!(done.ticket(), ticket);
        done
    }

    pub fn change(&self, table: &Arc<Table>, change: Change) -> JobOutcome {
        // These stories call a table here as SQL does.
        let (parents, mapped) = (table.sql.after.clone(), self.mapped.clone());
        let (ticket, table) = (self.ticket(), Arc::clone(table));
        self.perform(Job::Table(TableJob { ticket, table, parents, mapped, change }))
    }

    pub fn create(&self, table: &Arc<Table>) {
        let done = self.change(table, Change::Create);
        assert!(matches!(done, JobOutcome::Created { .. }), "{done:?}");
    }

    pub fn try_flush(&self, table: &Arc<Table>, rows: Vec<FlushRow>) -> JobOutcome {
        self.perform(Job::Flush(FlushJob {
            ticket: self.ticket(),
            table: Arc::clone(table),
            rows,
            begin_by: None,
            is_awaited: false,
            progress: PROGRESS,
        }))
    }

    pub fn flush(&self, table: &Arc<Table>, rows: Vec<FlushRow>) -> Vec<FlushResult> {
        let asked: Vec<RowKeyBuf> = rows.iter().map(|flush| flush.row.clone()).collect();
        match self.try_flush(table, rows) {
            JobOutcome::Flushed { rows, .. } => {
                assert!(rows.iter().map(|(row, _)| row).eq(&asked), "results stand in the order of the rows");
                rows.into_iter().map(|(_, result)| result).collect()
            }
            other => panic!("not flushed: {other:?}"),
        }
    }

    pub fn try_load(&self, table: &Arc<Table>, rows: Vec<RowKeyBuf>) -> JobOutcome {
        self.perform(Job::Load(LoadJob { ticket: self.ticket(), table: Arc::clone(table), rows }))
    }

    /// Submits a load without waiting for it.
    pub fn submit_load(&self, table: &Arc<Table>, rows: Vec<RowKeyBuf>) -> JobId {
        let ticket = self.ticket();
        self.handle.submit(Job::Load(LoadJob { ticket, table: Arc::clone(table), rows })).unwrap();
        ticket
    }

    pub fn load(&self, table: &Arc<Table>, rows: &[RowKeyBuf]) -> Found {
        match self.try_load(table, rows.to_vec()) {
            JobOutcome::Loaded { found, .. } => found,
            other => panic!("not loaded: {other:?}"),
        }
    }

    pub fn load_one(&self, table: &Arc<Table>, row: &RowKeyBuf) -> Loaded {
        let found = self.load(table, std::slice::from_ref(row));
        assert_eq!((found.rows.len(), found.quarantined.len()), (1, 0), "{found:?}");
        found.rows.into_iter().next().unwrap()
    }

    pub fn try_scan(&self, table: &Arc<Table>, scope: Scope) -> JobOutcome {
        let job = ScanJob { ticket: self.ticket(), table: Arc::clone(table), scope, after: None, rows_max: 10 };
        self.perform(Job::Scan(Box::new(job)))
    }

    pub fn scan(
        &self,
        table: &Arc<Table>,
        scope: Scope,
        after: Option<RowKeyBuf>,
        rows_max: usize,
    ) -> (Found, Option<RowKeyBuf>) {
        let job = ScanJob { ticket: self.ticket(), table: Arc::clone(table), scope, after, rows_max };
        match self.perform(Job::Scan(Box::new(job))) {
            JobOutcome::Scanned { found, next, .. } => (found, next),
            other => panic!("not scanned: {other:?}"),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

fn start(url: &Url, adjust: impl Fn(&mut Options)) -> (Handle, Receiver<JobOutcome>) {
    let (sender, done) = channel();
    let mut options = Options::new(url.clone());
    options.owner = Some(next_owner());
    adjust(&mut options);
    let handle = Backend::start(&options, move |outcome| drop(sender.send(outcome))).unwrap();
    (handle, done)
}

/// The next start of one node.
pub fn next_owner() -> Owner {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let incarnation = STARTS.fetch_add(1, Ordering::Relaxed);
    Owner { cluster: 0xc1, node: NodeId(1), incarnation, start: incarnation.cast_signed(), adopts: false }
}

fn field(id: u16, name: &str, default: Value) -> Field {
    Field::of(FieldId(id), name, default)
}

/// A table with a field of every type, none of whose defaults is zero.
pub fn users() -> Arc<Table> {
    Arc::new(Table {
        id: TableId(2),
        name: "users".into(),
        version: 1,
        fields: vec![
            field(1, "age", Value::Int(18)),
            field(2, "flags", Value::Uint(1)),
            field(3, "score", Value::Float(0.5)),
            field(4, "name", Value::Str("nobody".into())),
            field(5, "photo", Value::Blob(vec![0xff])),
        ],
        sort: Vec::new(),
        backing: Backing::Sql,
        sql: Default::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(6),
    })
}

/// A table whose rows are ordered inside a key by a number and a text.
pub fn messages() -> Arc<Table> {
    let part = |name: &str, kind| SortPart { name: name.into(), kind };
    Arc::new(Table {
        id: TableId(3),
        name: "messages".into(),
        fields: vec![field(1, "body", Value::Str(String::new()))],
        sort: vec![part("number", FieldType::Int64), part("author", FieldType::String)],
        next_field: FieldId(2),
        ..(*users()).clone()
    })
}

pub fn user(key: impl AsRef<[u8]>) -> RowKeyBuf {
    RowKeyBuf { table: TableId(2), key: key.as_ref().into(), sort: Box::default() }
}

pub fn message(key: &str, number: i64, author: &str) -> RowKeyBuf {
    let sort = sort::encode(&[Value::Int(number), Value::Str(author.into())]);
    RowKeyBuf { table: TableId(3), key: key.as_bytes().into(), sort: sort.into() }
}

pub fn image(fields: &[(u16, Value)]) -> RowImage {
    let fields: Vec<FieldValue<'_>> = fields
        .iter()
        .map(|(id, value)| FieldValue { field: FieldRef::Id(FieldId(*id)), value: value.as_ref() })
        .collect();
    RowImage::of(&fields)
}

pub fn aged(age: i64) -> RowImage {
    image(&[(1, Value::Int(age))])
}

pub fn at(row: RowKeyBuf, version: i64, fields: RowImage) -> FlushRow {
    FlushRow { row, version: Version(version), fields, changed: ChangedFields::ALL }
}

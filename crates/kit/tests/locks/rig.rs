//! The stores under test, each with the means to let a holder die and to take its shard from behind.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};
use shardine_client::{Acquire, Client, Delete, Include, NodeSettings, Session, SessionOptions};
use shardine_kit::Identity;
use shardine_kit::claim::{Error, MysqlTable, PostgresTable, Semaphores, SqliteTable, Store, Table};
use shardine_testkit::sql_server::{Database, Kind, Shared};
use shardine_testkit::{Dir, Shardine};

pub const SHARDS: u32 = 3;
/// Longer than any test, so that nothing expires by itself.
pub const TIMEOUT: Duration = Duration::from_secs(600);

pub fn who(dc: &str, host: &str) -> Identity {
    Identity::new(dc, host)
}

/// A place for claims. A store is one server's view of it.
pub trait Rig: Sized {
    type Store: Store;

    async fn new() -> Self;
    /// As a server that has just started has it.
    async fn store(&self) -> Arc<Self::Store>;
    /// The server's process has died long ago.
    async fn dies(&self, store: Arc<Self::Store>, who: &Identity);
    /// Somebody takes a shard without asking.
    async fn robs(&self, dc: &str, shard: u32);
}

/// What comes of it in so many steps; without an end by then it is given up.
pub async fn within<F: Future>(steps: usize, future: F) -> Option<F::Output> {
    let (mut future, mut taken) = (pin!(future), 0);
    poll_fn(|context| {
        if taken == steps {
            return Poll::Ready(None);
        }
        taken += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Makes a test of each of these functions for each rig, in a module of the rig's name.
macro_rules! on_each {
    ($($name:ident: $rig:ident),+ => $tests:tt) => {
        $(mod $name {
            use super::*;

            $crate::rig::on_each!(@tests $rig $tests);
        })+
    };
    (@tests $rig:ident [$($test:ident,)+]) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            super::$test::<$rig>().await;
        })+
    };
}
pub(crate) use on_each;

/// SQL by hand, behind the back of whoever holds something.
pub trait Hands: Rig {
    async fn sql(&self, statement: &str) -> anyhow::Result<String>;
    /// As a server has it, with claims that live for so long, in a table that is there.
    fn store_for(&self, timeout: Duration) -> Self::Store;
    /// Makes the rows of a data centre.
    async fn prepares(store: &Self::Store, dc: &str) -> Result<(), Error>;
    /// An hour, taken from a time.
    fn hour_before(time: &str) -> String;
    /// A time that was printed, or the moment of the database's clock before it.
    fn literal(time: &str) -> String {
        format!("'{time}'")
    }
    /// The database's time, as rows have it.
    const NOW: &str;
    /// Ends the connections of all stores from the server's side.
    const CUT: &str;
    /// Lists those, by a name that nobody else has afterwards.
    const CONNECTIONS: &str;
}

const ROB: &str = "UPDATE locks SET host = 'thief', generation = generation + 1 WHERE dc = ";

async fn ages<R: Hands>(rig: &R, who: &Identity) {
    let before = R::hour_before("last_ping");
    rig.sql(&format!("UPDATE locks SET last_ping = {before} WHERE host = '{}'", who.host)).await.unwrap();
}

fn table() -> Table {
    Table::new("locks", SHARDS).timeout(TIMEOUT)
}

pub struct Postgres(Shared);
pub struct Mariadb(Shared);
pub struct Sqlite(Dir);

impl Postgres {
    pub fn database(&self) -> &Database {
        &self.0.database
    }
}

impl Mariadb {
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// As a server has it whose sessions have this time zone.
    pub fn store_at(&self, time_zone: &str) -> MysqlTable {
        let options = Opts::from_url(&self.0.database.url()).unwrap();
        let setup = format!("SET time_zone = '{time_zone}'");
        MysqlTable::with_options(OptsBuilder::from_opts(options).setup(vec![setup]).into(), table())
    }
}

impl Rig for Postgres {
    type Store = PostgresTable;

    async fn new() -> Self {
        Self(Shared::database(Kind::Postgres).unwrap())
    }

    async fn store(&self) -> Arc<PostgresTable> {
        let store = PostgresTable::new(&self.0.database.url(), table()).unwrap();
        store.prepare("a").await.unwrap();
        store.prepare("b").await.unwrap();
        Arc::new(store)
    }

    async fn dies(&self, _store: Arc<PostgresTable>, who: &Identity) {
        ages(self, who).await;
    }

    async fn robs(&self, dc: &str, shard: u32) {
        self.sql(&format!("{ROB}'{dc}' AND shard = {shard}")).await.unwrap();
    }
}

impl Hands for Postgres {
    async fn sql(&self, statement: &str) -> anyhow::Result<String> {
        self.0.database.sql(statement)
    }

    fn store_for(&self, timeout: Duration) -> PostgresTable {
        PostgresTable::new(&self.0.database.url(), table().timeout(timeout)).unwrap()
    }

    async fn prepares(store: &PostgresTable, dc: &str) -> Result<(), Error> {
        store.prepare(dc).await
    }

    fn hour_before(time: &str) -> String {
        format!("{time} - interval '1 hour'")
    }

    const NOW: &str = "clock_timestamp()";
    const CUT: &str = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
    const CONNECTIONS: &str = "SELECT pid, backend_start FROM pg_stat_activity \
                               WHERE datname = current_database() AND pid <> pg_backend_pid()";
}

impl Rig for Mariadb {
    type Store = MysqlTable;

    async fn new() -> Self {
        Self(Shared::database(Kind::MariaDb).unwrap())
    }

    async fn store(&self) -> Arc<MysqlTable> {
        let store = MysqlTable::new(&self.0.database.url(), table()).unwrap();
        store.prepare("a").await.unwrap();
        store.prepare("b").await.unwrap();
        Arc::new(store)
    }

    async fn dies(&self, _store: Arc<MysqlTable>, who: &Identity) {
        ages(self, who).await;
    }

    async fn robs(&self, dc: &str, shard: u32) {
        self.sql(&format!("{ROB}'{dc}' AND shard = {shard}")).await.unwrap();
    }
}

impl Hands for Mariadb {
    async fn sql(&self, statement: &str) -> anyhow::Result<String> {
        self.0.database.sql(statement)
    }

    fn store_for(&self, timeout: Duration) -> MysqlTable {
        MysqlTable::new(&self.0.database.url(), table().timeout(timeout)).unwrap()
    }

    async fn prepares(store: &MysqlTable, dc: &str) -> Result<(), Error> {
        store.prepare(dc).await
    }

    fn hour_before(time: &str) -> String {
        format!("{time} - INTERVAL 1 HOUR")
    }

    const NOW: &str = "UTC_TIMESTAMP(6)";
    const CUT: &str = "BEGIN NOT ATOMIC FOR found IN (SELECT id FROM information_schema.processlist \
                       WHERE db = DATABASE() AND id <> CONNECTION_ID()) DO KILL found.id; END FOR; END";
    const CONNECTIONS: &str = "SELECT id FROM information_schema.processlist \
                               WHERE db = DATABASE() AND id <> CONNECTION_ID()";
}

impl Rig for Sqlite {
    type Store = SqliteTable;

    async fn new() -> Self {
        Self(Dir::new().unwrap())
    }

    async fn store(&self) -> Arc<SqliteTable> {
        let store = SqliteTable::new(self.0.join("locks.sqlite"), table());
        store.prepare("a").await.unwrap();
        store.prepare("b").await.unwrap();
        Arc::new(store)
    }

    async fn dies(&self, _store: Arc<SqliteTable>, who: &Identity) {
        ages(self, who).await;
    }

    async fn robs(&self, dc: &str, shard: u32) {
        self.sql(&format!("{ROB}'{dc}' AND shard = {shard}")).await.unwrap();
    }
}

impl Sqlite {
    /// Somebody who has begun a transaction that writes, and does not end it.
    pub fn begin_to_write(&self) -> rusqlite::Connection {
        let writer = rusqlite::Connection::open(self.0.join("locks.sqlite")).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        writer
    }
}

impl Hands for Sqlite {
    async fn sql(&self, statement: &str) -> anyhow::Result<String> {
        let mut sqlite = std::process::Command::new("sqlite3");
        let done = sqlite.args(["-cmd", ".timeout 5000"]).arg(self.0.join("locks.sqlite")).arg(statement).output()?;
        anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?)
    }

    fn store_for(&self, timeout: Duration) -> SqliteTable {
        SqliteTable::new(self.0.join("locks.sqlite"), table().timeout(timeout))
    }

    async fn prepares(store: &SqliteTable, dc: &str) -> Result<(), Error> {
        store.prepare(dc).await
    }

    fn hour_before(time: &str) -> String {
        format!("{time} - 3600000000")
    }

    fn literal(time: &str) -> String {
        format!("{time} - 1000")
    }

    // In milliseconds, as the shell has it, which may be older than the library and knows no `subsec`.
    const NOW: &str = "(strftime('%s', 'now') * 1000000 + substr(strftime('%f', 'now'), 4) * 1000)";
    // There is no server that could.
    const CUT: &str = "SELECT 1";
    const CONNECTIONS: &str = "SELECT 1";
}

pub struct Coordination {
    server: Shardine,
    /// Thieves, who keep what they took.
    thieves: Mutex<Vec<Session>>,
}

const NODE: &str = "/local/goals";

impl Coordination {
    pub fn server(&mut self) -> &mut Shardine {
        &mut self.server
    }

    /// Somebody else's.
    pub async fn session(&self) -> Session {
        let client = self.client();
        client.create_node(NODE, NodeSettings::default()).await.unwrap();
        client.start_session(NODE, SessionOptions::default()).await.unwrap()
    }

    /// The session that holds a semaphore, taken away from the server of this name.
    pub async fn takes_session(&self, who: &Identity, semaphore: &str) -> Session {
        let owners = Include { owners: true, waiters: false };
        let found = self.session().await.describe(semaphore, owners).await.unwrap();
        let (resume, protection_key) = (Some(found.owners[0].session_id), Some(who.host.clone().into_bytes()));
        let options = SessionOptions { timeout: TIMEOUT, resume, protection_key, ..SessionOptions::default() };
        self.client().start_session(NODE, options).await.unwrap()
    }

    /// Whether anybody has a semaphore, that there need not be.
    pub async fn is_held(&self, semaphore: &str) -> bool {
        let owners = Include { owners: true, waiters: false };
        self.session().await.describe(semaphore, owners).await.is_ok_and(|found| !found.owners.is_empty())
    }

    /// As a server has it, with claims that live for so long.
    pub fn store_with(&self, timeout: Duration) -> Arc<Semaphores> {
        Arc::new(Semaphores::new(self.client(), NODE, ["a", "b"], SHARDS).timeout(timeout))
    }

    pub fn client(&self) -> Client {
        Client::new(&self.server.grpc().address().to_string()).unwrap()
    }
}

impl Rig for Coordination {
    type Store = Semaphores;

    async fn new() -> Self {
        Self { server: Shardine::start().unwrap(), thieves: Mutex::default() }
    }

    async fn store(&self) -> Arc<Semaphores> {
        self.store_with(TIMEOUT)
    }

    async fn dies(&self, store: Arc<Semaphores>, _who: &Identity) {
        // The session goes with its last owner, as it does when a dead process' session times out.
        drop(Arc::into_inner(store).unwrap());
    }

    async fn robs(&self, dc: &str, shard: u32) {
        let (session, name) = (self.session().await, format!("{dc}/shard-{shard}"));
        session.delete(&name, Delete::Force).await.unwrap();
        session.create(&name, 1, "").await.unwrap();
        assert!(session.acquire(&name, Acquire::tokens(1)).await.unwrap());
        self.thieves.lock().unwrap().push(session);
    }
}

//! Changes of table definitions, one at a time: SQL first, then every shard's log, then the doors are told.
//!
//! In a cluster definitions live in the map, and shards are taught what it says. On a node that is alone the first shard is their
//! home: it gets each one first, and on start the others are brought to what it holds. So a crash in the middle leaves a
//! definition that is either nowhere or comes everywhere.

mod libraries;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shardine_model::{Backing, Catalogue, Entry, ErrorCode, FieldId, Refusal, ShardId, Table, limits};
use shardine_router::{FieldSpec, LibraryCall, Response, ShardAsk, TableCall, TableSpec};
use shardine_shard::meta::{Command, Libraries, Reply};
use shardine_store::{DataDir, Error};
use shardine_writeback::{Change, Drift, Job, JobId, JobOutcome, TableJob, Why};

use crate::exchange::Exchange;
use crate::lane_message::Respond;
use crate::owner_thread;

/// A call and who waits for it.
pub(crate) struct SchemaRequest {
    pub call: SchemaCall,
    pub done: Respond,
}

pub(crate) enum SchemaCall {
    Table(Box<TableCall>),
    Libraries(LibraryCall),
}

/// The shard that holds the truth about definitions.
const HOME: ShardId = ShardId(1);

/// How long the other nodes may take to know a definition before whoever asked for it is answered all the same.
const OTHERS_TIME: Duration = Duration::from_secs(5);

/// How often it is looked whether this node has heard of it.
const MAP_STEP: Duration = Duration::from_millis(5);

/// What a shard holds: its number, its lane, its definitions.
pub(crate) type ShardCatalogue = (ShardId, usize, Catalogue);

/// Jobs of the schema manager have this lane number; no lane does.
pub(crate) const SCHEMA_LANE: u64 = 0xffff;

pub(crate) struct SchemaManager {
    exchange: Arc<Exchange>,
    catalogue: Catalogue,
    sql: Receiver<JobOutcome>,
    jobs: u64,
    data: Arc<DataDir>,
    /// Of a node that is alone.
    libraries: Libraries,
}

impl SchemaManager {
    pub fn new(
        exchange: Arc<Exchange>,
        catalogue: Catalogue,
        sql: Receiver<JobOutcome>,
        data: Arc<DataDir>,
    ) -> Result<Self, Error> {
        let kept = match exchange.cluster {
            None => libraries::kept(&data)?,
            Some(_) => Libraries::new(),
        };
        if exchange.cluster.is_none() {
            exchange.shelf.turn_to(&kept);
        }
        Ok(Self { exchange, catalogue, sql, jobs: 0, data, libraries: kept })
    }

    /// Brings all shards to the same definitions and tells the doors. Called once, before they open.
    pub fn reconcile(&self, held: &[ShardCatalogue]) -> Result<(), Refusal> {
        for table in self.catalogue.definitions() {
            for (shard, lane, catalogue) in held {
                let known = catalogue.definitions().find(|known| known.id == table.id).map(|known| known.version);
                if known.is_none_or(|version| version < table.version) {
                    self.propose(*shard, *lane, table)?;
                }
            }
        }
        self.exchange.learn(&self.catalogue);
        Ok(())
    }

    pub fn start(self, requests: Receiver<SchemaRequest>) -> std::io::Result<JoinHandle<()>> {
        owner_thread::spawn("schema-manager", move || self.run(&requests))
    }

    /// Says which SQL tables are not what their definitions say. They are served all the same: what is in memory is right.
    fn check_tables(&mut self) {
        let tables: Vec<Arc<Table>> =
            self.catalogue.tables().filter(|table| table.backing == Backing::Sql).cloned().collect();
        for table in tables {
            if let Err(refusal) = self.change_sql(&table, Change::Check) {
                tracing::error!(table = table.name, "SQL and the definition do not agree: {}", refusal.message);
            }
        }
    }

    /// In a cluster others may have changed definitions since.
    fn catch_up(&mut self) {
        if self.exchange.cluster.is_some() {
            self.catalogue = Catalogue::clone(&self.exchange.catalogue.get());
        }
    }

    fn run(mut self, requests: &Receiver<SchemaRequest>) {
        self.check_tables();
        while let Ok(request) = requests.recv() {
            self.catch_up();
            let response = match request.call {
                SchemaCall::Table(call) => self.serve(*call).map(Response::Table),
                SchemaCall::Libraries(call) => self.change_libraries(call).map(|()| Response::Done),
            };
            (request.done)(response.unwrap_or_else(Response::Refused));
        }
    }

    fn serve(&mut self, call: TableCall) -> Result<Arc<Table>, Refusal> {
        match call {
            TableCall::Create(spec) => self.create(spec),
            TableCall::AddField { table, field } => self.add_field(&table, field),
            TableCall::Drop { table } => self.drop_table(&table),
        }
    }

    fn create(&mut self, spec: TableSpec) -> Result<Arc<Table>, Refusal> {
        let is_it = |table: &&Arc<Table>| table.name.eq_ignore_ascii_case(&spec.name);
        let known = self.catalogue.tables().find(is_it).cloned();
        if let Some(known) = known {
            return self.create_again(&known, &spec);
        }
        if self.catalogue.definitions().count() >= limits::TABLES_MAX {
            return Err(Refusal::new(ErrorCode::TooLarge, format!("{} tables are the limit", limits::TABLES_MAX)));
        }
        let mut table = Table {
            id: self.catalogue.next_id(),
            name: spec.name,
            version: 1,
            fields: Vec::new(),
            sort: spec.sort.into_iter().map(|(name, kind)| shardine_model::table::SortPart { name, kind }).collect(),
            backing: spec.backing,
            sql: spec.sql,
            dynamic: false,
            dropped: false,
            next_field: FieldId(1),
        };
        for field in spec.fields {
            push_field(&mut table, field)?;
        }
        table.check()?;
        self.check_parents(&table)?;
        if table.backing == Backing::Sql && self.exchange.sql.is_none() {
            let message = "this node runs without SQL (--sql none): create the table with --backing none";
            return Err(Refusal::new(ErrorCode::Unsupported, message));
        }
        // A table of others is looked at and left as it is.
        self.change_sql(&table, if table.sql.mapping.is_some() { Change::Check } else { Change::Create })?;
        self.settle(Command::CreateTable { table: table.clone() }, table)
    }

    /// Makes an SQL table that was lost as it is defined, for whoever says nothing else about it (records 130).
    fn create_again(&mut self, known: &Arc<Table>, spec: &TableSpec) -> Result<Arc<Table>, Refusal> {
        let exists = || Refusal::new(ErrorCode::Exists, format!("there is a table {} already", known.name));
        let is_bare = spec.name == known.name && spec.fields.is_empty() && spec.sort.is_empty();
        if !is_bare || known.backing != Backing::Sql || known.sql.mapping.is_some() || known.fields.is_empty() {
            return Err(exists());
        }
        let drift = self.ask_sql(known, Change::Check)?;
        if !drift.iter().any(|drift| matches!(drift, Drift::NoTable { .. })) {
            return Err(exists());
        }
        self.change_sql(known, Change::Create)?;
        Ok(Arc::clone(known))
    }

    /// Tables come after others that are there already, or after themselves: so there is an order (write-back 107).
    fn check_parents(&self, table: &Table) -> Result<(), Refusal> {
        let is_known = |name: &str| self.catalogue.named(name).is_some_and(|parent| parent.backing == Backing::Sql);
        let unknown = table.sql.after.iter().find(|name| **name != table.name && !is_known(name));
        unknown.map_or(Ok(()), |name| {
            let message = format!("there is no table {name} with SQL behind it that {} could come after", table.name);
            Err(Refusal::new(ErrorCode::UnknownTable, message))
        })
    }

    fn add_field(&mut self, name: &str, field: FieldSpec) -> Result<Arc<Table>, Refusal> {
        let mut table = self.known(name)?;
        // The meta group gives it its number.
        let command = Command::AddField { table: name.to_owned(), field: field.clone().into_field(FieldId(0)) };
        if table.dynamic {
            return Err(Refusal::new(ErrorCode::Unsupported, format!("table {name} takes any field already")));
        }
        if table.sql.mapping.is_some() {
            let message = format!("table {name} is mapped to an SQL table of others: drop it here and map it again");
            return Err(Refusal::new(ErrorCode::Unsupported, message));
        }
        push_field(&mut table, field)?;
        table.version += 1;
        table.check()?;
        let added = table.fields.last().map_or(FieldId(0), |field| field.id);
        self.change_sql(&table, Change::AddField(added))?;
        self.settle(command, table)
    }

    /// The definition goes first: nothing new is written to a table that is about to vanish.
    fn drop_table(&mut self, name: &str) -> Result<Arc<Table>, Refusal> {
        let mut table = self.known(name)?;
        if table.id == shardine_model::table::KV {
            return Err(Refusal::new(ErrorCode::Forbidden, "the table kv is always there"));
        }
        if let Some(child) = self.catalogue.children(name).find(|child| child.id != table.id) {
            let message = format!("table {} comes after {name} in SQL: drop it first", child.name);
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        table.version += 1;
        table.dropped = true;
        let kept = self.settle(Command::DropTable { table: name.to_owned() }, table.clone())?;
        if table.sql.mapping.is_none() {
            self.change_sql(&table, Change::Drop)?;
        }
        Ok(kept)
    }

    fn known(&self, name: &str) -> Result<Table, Refusal> {
        let unknown = || Refusal::new(ErrorCode::UnknownTable, format!("there is no table {name}"));
        self.catalogue.named(name).map(|table| Table::clone(table)).ok_or_else(unknown)
    }

    /// Puts a definition into force: in a cluster by the map, else by the home shard's log.
    fn settle(&mut self, command: Command, table: Table) -> Result<Arc<Table>, Refusal> {
        if self.exchange.cluster.is_some() {
            return self.settle_in_map(command);
        }
        for place in self.exchange.places.now().places() {
            self.propose(place.shard, place.lane, &table)?;
        }
        self.catalogue.put(table.clone());
        self.exchange.learn(&self.catalogue);
        Ok(Arc::new(table))
    }

    /// The map decides. Then every shard is taught, and every node that lives has confirmed: from then on nobody reads a name
    /// otherwise. What does not answer in time learns it by itself, before it serves.
    fn settle_in_map(&mut self, command: Command) -> Result<Arc<Table>, Refusal> {
        let Reply::Table(table) = self.exchange.ask_meta(command)? else {
            return Err(Refusal::new(ErrorCode::Internal, "the map has no definition to tell"));
        };
        self.await_own_map(&table);
        for place in self.exchange.places.now().places() {
            if let Err(refusal) = self.propose(place.shard, place.lane, &table) {
                tracing::warn!(table = table.name, "{}; whoever leads it next will", refusal.message);
            }
        }
        if !self.exchange.await_others(OTHERS_TIME) {
            tracing::warn!(table = table.name, "not all nodes have confirmed the definition");
        }
        Ok(table)
    }

    /// Whoever leads the map's group has answered; this node hears of the new map a moment later.
    fn await_own_map(&mut self, table: &Table) {
        let until = Instant::now() + OTHERS_TIME;
        loop {
            self.catch_up();
            let mut definitions = self.catalogue.definitions();
            let is_known = definitions.any(|known| known.id == table.id && known.version >= table.version);
            if is_known || Instant::now() >= until {
                return;
            }
            drop(definitions);
            std::thread::sleep(MAP_STEP);
        }
    }

    fn propose(&self, shard: ShardId, lane: usize, table: &Table) -> Result<(), Refusal> {
        let (give, take) = channel();
        let entry = match self.exchange.cluster {
            None => Entry::definition(table.clone()),
            Some(_) => Entry::Schema { catalogue: self.catalogue.version(), table: Box::new(table.clone()) },
        };
        let entry = entry.to_bytes();
        let done = Box::new(move |result| {
            // The schema manager waits for it unless the process is stopping.
            let _ = give.send(result);
        });
        self.exchange.ask(shard, lane, ShardAsk::Propose { entry }, done);
        let result = take.recv().unwrap_or(Err(ErrorCode::Internal));
        result
            .map(|_| ())
            .map_err(|code| Refusal::new(code, format!("shard {shard} did not take the definition of {}", table.name)))
    }

    /// What SQL calls the tables that this one comes after.
    fn parents(&self, table: &Table) -> Vec<String> {
        let known = |name: &String| {
            let parent = if *name == table.name { table } else { self.catalogue.named(name)? };
            Some(parent.sql.mapping.as_ref().map_or(&parent.name, |mapping| &mapping.table).clone())
        };
        table.sql.after.iter().filter_map(known).collect()
    }

    /// What SQL calls the tables of others that are mapped here.
    fn mapped(&self) -> Vec<String> {
        let tables = self.catalogue.tables();
        tables.filter_map(|table| Some(table.sql.mapping.as_ref()?.table.clone())).collect()
    }

    fn change_sql(&mut self, table: &Table, change: Change) -> Result<(), Refusal> {
        if table.backing == Backing::None {
            return Ok(());
        }
        let drift = self.ask_sql(table, change)?;
        if drift.is_empty() {
            return Ok(());
        }
        let faults: Vec<String> = drift.iter().map(ToString::to_string).collect();
        Err(Refusal::new(ErrorCode::BadRequest, faults.join("; ")))
    }

    /// Has SQL do something with a table, and gives what is wrong with it.
    fn ask_sql(&mut self, table: &Table, change: Change) -> Result<Vec<Drift>, Refusal> {
        let unavailable = |message: String| Refusal::new(ErrorCode::BackendUnavailable, message);
        let sql = self.exchange.sql.clone().ok_or_else(|| unavailable("this node runs without SQL".into()))?;
        self.jobs += 1;
        let ticket = JobId(SCHEMA_LANE << 48 | self.jobs);
        let (parents, mapped) = (self.parents(table), self.mapped());
        let job = Job::Table(TableJob { ticket, table: Arc::new(table.clone()), parents, mapped, change });
        sql.submit(job).map_err(|rejected| match rejected.why {
            Why::Full => Refusal::new(ErrorCode::Busy, "too many jobs wait for SQL"),
            Why::Stopped => unavailable("the node is stopping".into()),
        })?;
        match self.sql.recv() {
            Ok(JobOutcome::Failed { error, .. }) => Err(unavailable(error.to_string())),
            Ok(JobOutcome::Checked { drift, .. }) => Ok(drift),
            Ok(_) => Ok(Vec::new()),
            Err(_) => Err(unavailable("SQL has stopped".into())),
        }
    }
}

/// The definitions to begin with: those of the home shard. If it could not be read, the newest that the others hold: it got
/// each one before them, so there is nothing in them that it refused.
pub(crate) fn definitions(held: &[ShardCatalogue]) -> Catalogue {
    if let Some((.., home)) = held.iter().find(|(shard, ..)| *shard == HOME) {
        return home.clone();
    }
    let mut newest = Catalogue::default();
    for table in held.iter().flat_map(|(.., catalogue)| catalogue.definitions()) {
        newest.put(Table::clone(table));
    }
    newest
}

fn push_field(table: &mut Table, spec: FieldSpec) -> Result<(), Refusal> {
    let id = table.next_field;
    let next = id.0.checked_add(1).ok_or_else(|| Refusal::new(ErrorCode::TooLarge, "a table has too many fields"))?;
    table.next_field = FieldId(next);
    table.fields.push(spec.into_field(id));
    Ok(())
}

/// Where requests are sent before the schema manager has started.
pub(crate) fn schema_requests() -> (Sender<SchemaRequest>, Receiver<SchemaRequest>) {
    channel()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(tables: &[(u32, u64)]) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for &(id, version) in tables {
            catalogue.put(Table {
                id: shardine_model::TableId(id),
                name: format!("table{id}"),
                version,
                fields: Vec::new(),
                sort: Vec::new(),
                backing: Backing::None,
                sql: Default::default(),
                dynamic: true,
                dropped: false,
                next_field: FieldId(1),
            });
        }
        catalogue
    }

    fn versions(catalogue: &Catalogue) -> Vec<(u32, u64)> {
        catalogue.definitions().filter(|table| table.name != "kv").map(|table| (table.id.0, table.version)).collect()
    }

    #[test]
    fn the_home_shard_decides_on_definitions() {
        let held = [(ShardId(2), 0, catalogue(&[(2, 1), (3, 1)])), (ShardId(1), 0, catalogue(&[(2, 2)]))];

        assert_eq!(versions(&definitions(&held)), [(2, 2)]);
    }

    #[test]
    fn without_the_home_shard_the_newest_of_the_others_count() {
        let held = [(ShardId(2), 0, catalogue(&[(2, 2)])), (ShardId(3), 0, catalogue(&[(2, 1), (3, 1)]))];

        assert_eq!(versions(&definitions(&held)), [(2, 2), (3, 1)]);
    }
}

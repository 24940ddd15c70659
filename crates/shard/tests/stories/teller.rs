//! A replica that acts the lines of a story. `alice: set …` submits; `turn` proposes what has gathered; `disk` confirms
//! what was handed to the log; `settle` does both until nothing moves; `sql …` is the database; `wait` lets time pass, and `clock` sets the wall
//! clock.
//! Every line is a turn of the host, at the end of which SQL is asked for what was missed; `begin` opens one that lasts
//! until the next `turn`.

use std::collections::BTreeMap;

use shardine_model::entry::RaisedRow;
use shardine_model::log::{LogEntry, Membership, SnapshotMeta};
use shardine_model::sql::{Class, FlushRow};
use shardine_model::{
    Ack, AckAfter, Catalogue, Entry, ReplicaId, Request, RequestEpoch, RowImage, RowKey, RowKeyBuf, ShardId, Timestamp,
    Version,
};
use shardine_records::Records;
use shardine_shard::{
    Actions, Caller, LoadedRow, Options, Question, Replica, Restored, SnapshotPart, SqlLoad, SqlPurge, SqlWrite, Time,
    Trouble,
};
use shardine_story::script::Teller;
use shardine_story::{epochs, show, words};

use crate::database::Database;

pub struct Stage {
    replica: Replica,
    time: Time,
    /// What requests are routed and read by.
    epoch: RequestEpoch,
    database: Database,
    /// Log writes handed out and not yet on disk.
    unwritten: Vec<u64>,
    loads: Vec<SqlLoad>,
    writes: Vec<SqlWrite>,
    purges: Vec<SqlPurge>,
    /// Whether the host is in the middle of a turn.
    is_turning: bool,
    /// What SQL found for questions that were given up on, and has not told yet.
    late: Vec<(Question, Vec<LoadedRow>)>,
    callers: Vec<String>,
    /// The rows that each caller's open request names.
    asked: BTreeMap<String, Vec<RowKeyBuf>>,
}

impl Stage {
    /// A group of one that leads and has nothing to do.
    pub fn open() -> Self {
        let mut options = Options::new(ReplicaId(1), ShardId(1));
        options.snapshot_log_bytes = 128;
        Self::with(options)
    }

    fn with(options: Options) -> Self {
        let membership = Membership::of([ReplicaId(1)]);
        let restored = Restored { snapshot: SnapshotMeta { membership, ..Default::default() }, ..Default::default() };
        let mut stage = Self {
            replica: Replica::new(options, Records::new(1), restored),
            time: Time { monotonic_ms: 1_000, wall: Timestamp(1_000) },
            epoch: RequestEpoch::FIRST,
            database: Database::default(),
            unwritten: Vec::new(),
            loads: Vec::new(),
            writes: Vec::new(),
            purges: Vec::new(),
            is_turning: false,
            late: Vec::new(),
            callers: Vec::new(),
            asked: BTreeMap::new(),
        };
        stage.replica.set_time(stage.time);
        stage.perform(|replica, actions| replica.campaign(actions));
        stage.settle();
        assert!(stage.replica.is_serving(), "a group of one leads at once");
        stage
    }
}

impl Teller for Stage {
    fn act(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(name) = words[0].strip_suffix(':') {
            return self.ask(name, line.split_once(": ").expect("a name asks something").1);
        }
        match words[0] {
            "table" => {
                let caller = self.caller("the definition", Vec::new());
                let entry = epochs::definition(&self.catalogue(), &words[1..]);
                let mut told = self.perform(|replica, actions| replica.propose_for(caller, &entry, actions));
                told.extend(self.settle());
                told.retain(|line| !line.starts_with("the definition"));
                told.retain(|line| !line.starts_with("log: definition"));
                told
            }
            "epoch" => {
                self.epoch = epochs::epoch(words[1]);
                Vec::new()
            }
            "begin" => {
                self.is_turning = true;
                Vec::new()
            }
            "turn" => {
                self.is_turning = false;
                self.perform(|replica, actions| replica.propose_gathered(actions))
            }
            "disk" => self.disk(),
            "settle" => self.settle(),
            "wait" => self.wait(words[1].parse().expect("milliseconds")),
            "clock" => {
                self.time.wall = Timestamp(words[1].parse().expect("milliseconds"));
                let time = self.time;
                self.perform(|replica, _| replica.set_time(time))
            }
            "get" => vec![self.get(words[1])],
            "cut" => self.cut(),
            "sql" => self.sql(&words[1..]),
            "status" => self.status(words[1]),
            "limits" => self.open_again(&words[1..]),
            "letters" => self.letters(),
            other => panic!("{other:?} says nothing"),
        }
    }
}

impl Stage {
    /// A story about limits begins by saying them.
    fn open_again(&mut self, words: &[&str]) -> Vec<String> {
        let mut options = Options::new(ReplicaId(1), ShardId(1));
        for word in words {
            let (name, number) = word.split_once('=').expect("a limit is name=number");
            let number: u64 = number.parse().expect("a number");
            match name {
                "soft-rows" => options.dirty.soft.rows = number,
                "soft-bytes" => options.dirty.soft.bytes = number,
                "hard-rows" => options.dirty.hard.rows = number,
                "hard-bytes" => options.dirty.hard.bytes = number,
                "quiet" => options.purge_quiet_ms = number,
                "memory" => options.memory.bytes_max = number,
                "absent-rows" => options.memory.absent_rows_max = number,
                "absent-keep" => options.memory.absent_keep_ms = number,
                other => panic!("no limit is called {other:?}"),
            }
        }
        *self = Self::with(options);
        Vec::new()
    }

    /// Lets somebody ask for something.
    fn ask(&mut self, name: &str, line: &str) -> Vec<String> {
        let catalogue = self.catalogue();
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = |place: usize| words::address(&catalogue, words[place]);
        match words[0] {
            "read" => {
                let caller = self.caller(name, vec![row(1).to_owned()]);
                self.perform(|replica, actions| replica.read(caller, row(1), actions))
            }
            "kick" => {
                let caller = self.caller(name, vec![row(1).to_owned()]);
                let nowait = words.get(2) == Some(&"nowait");
                self.perform(|replica, actions| replica.kick(caller, row(1), nowait, actions))
            }
            "suspend" | "resume" | "clear" => {
                let caller = self.caller(name, Vec::new());
                let entry = match words[0] {
                    "suspend" => Entry::Suspend,
                    "resume" => Entry::Resume,
                    _ => Entry::Clear { table: catalogue.named(words[1]).expect("a known table").id },
                };
                self.perform(|replica, actions| replica.propose_for(caller, &entry, actions))
            }
            "flush" => {
                let caller = self.caller(name, Vec::new());
                let one = (words[1] != "all").then(|| row(1));
                self.perform(|replica, actions| replica.flush_rows(caller, one, None, actions))
            }
            "await" => {
                let caller = self.caller(name, Vec::new());
                let version = words::version(words[2]);
                let within = words.get(3).map(|ms| ms.parse().expect("milliseconds"));
                self.perform(|replica, actions| replica.await_sql(caller, row(1), version, within, actions))
            }
            "retry" => {
                let caller = self.caller(name, Vec::new());
                let one = (words[1] != "all").then(|| row(1));
                self.perform(|replica, actions| replica.retry_dead_letters(caller, one, None, actions))
            }
            "discard" => {
                let caller = self.caller(name, Vec::new());
                self.perform(|replica, actions| replica.discard_dead_letter(caller, row(1), actions))
            }
            _ => {
                let (ack, line) = acknowledged(line);
                let request: Request<'static> = words::request(&catalogue, line).expect("a request");
                let caller = self.caller(name, request.rows().map(RowKey::to_owned).collect());
                let epoch = self.epoch;
                self.perform(|replica, actions| replica.submit_with(caller, &request, epoch, ack, actions))
            }
        }
    }

    fn caller(&mut self, name: &str, rows: Vec<RowKeyBuf>) -> Caller {
        self.callers.push(name.to_owned());
        self.asked.insert(name.to_owned(), rows);
        Caller { source: 1, sequence: self.callers.len() as u64 }
    }

    /// Lets the replica do something and tells what it wants done.
    fn perform(&mut self, act: impl FnOnce(&mut Replica, &mut Actions)) -> Vec<String> {
        let mut actions = Actions::default();
        act(&mut self.replica, &mut actions);
        actions.refuse_returned();
        if !self.is_turning {
            self.replica.ask_sql(&mut actions);
        }
        self.take(actions)
    }

    fn take(&mut self, actions: Actions) -> Vec<String> {
        let mut told = Vec::new();
        assert!(actions.messages.is_empty(), "a group of one has nobody to write to");
        for persist in actions.persists {
            self.unwritten.push(persist.number);
            told.extend(persist.write.entries.iter().filter_map(|entry| self.entry(entry)));
        }
        for load in actions.loads {
            told.push(format!("ask sql: {}", self.addresses(&load.rows)));
            self.loads.push(load);
        }
        for write in actions.writes {
            let rows: Vec<String> = write.rows.iter().map(|row| self.to_write(row)).collect();
            told.push(format!("write sql: {}", rows.join(" ")));
            self.writes.push(write);
        }
        for purge in actions.purges {
            let rows: Vec<String> = purge.rows.iter().map(|(row, version)| self.versioned(row, *version)).collect();
            told.push(format!("purge sql: {}", rows.join(" ")));
            self.purges.push(purge);
        }
        for (caller, answer) in actions.answers {
            let name = self.callers[caller.sequence as usize - 1].clone();
            let rows: Vec<RowKey<'_>> = self.asked[&name].iter().map(RowKeyBuf::as_ref).collect();
            told.push(format!("{name} gets {}", show::answer(&self.catalogue(), &answer, &rows)));
        }
        for part in actions.snapshot {
            match part {
                SnapshotPart::Begin(meta) => told.push(format!("snapshot of {} begins", meta.index)),
                SnapshotPart::Chunk(_) => {}
                SnapshotPart::End => told.push("snapshot ends".to_owned()),
                SnapshotPart::Abandon => told.push("snapshot given up".to_owned()),
            }
        }
        told.extend(actions.stop.map(|reason| format!("stops: {reason}")));
        told
    }

    fn entry(&self, entry: &LogEntry) -> Option<String> {
        if entry.data.is_empty() {
            return None;
        }
        let kind = match Entry::decode(&entry.data).expect("an entry of our own") {
            Entry::Commands { requests, .. } => format!("{} requests", count_requests(requests)),
            Entry::Load(rows) => {
                let rows: Vec<String> =
                    rows.iter().map(|loaded| self.versioned(&loaded.row.to_owned(), loaded.version)).collect();
                format!("load {}", rows.join(" "))
            }
            Entry::Kick(rows) => format!("kick {}", self.all_versioned(&rows)),
            Entry::Lease { .. } => "lease".to_owned(),
            Entry::Written(rows) => format!("written {}", self.all_versioned(&rows)),
            Entry::Schema { table, .. } => format!("definition of {}", table.name),
            Entry::Purge(rows) => format!("purge {}", self.all_versioned(&rows)),
            // Only the clock moves.
            Entry::Expire { rows, .. } if rows.is_empty() => return None,
            Entry::Expire { rows, .. } => {
                format!("expire {}", self.addresses(&rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()))
            }
            Entry::Clear { table } => format!("clear {table}"),
            Entry::Suspend => "suspend".to_owned(),
            Entry::Floor { table, floor } => {
                format!("floor of {} is {floor}", self.catalogue().get(table).expect("a known table").name)
            }
            Entry::Split(split) => format!("split off {}", split.child),
            Entry::Resume => "resume".to_owned(),
            Entry::Refused { rows, .. } => {
                let rows: Vec<_> = rows.iter().map(|refused| (refused.row, refused.version)).collect();
                format!("refused {}", self.all_versioned(&rows))
            }
            Entry::Settle(settled) => {
                let row = self.versioned(&settled.row.to_owned(), settled.expected);
                format!("settle {row} as v{} sql v{}", settled.version, settled.sql_version)
            }
            Entry::Raise(rows) => {
                let show = |raised: &RaisedRow<'_>| {
                    format!("{} above v{}", self.versioned(&raised.row.to_owned(), raised.expected), raised.held)
                };
                format!("raise {}", rows.iter().map(show).collect::<Vec<_>>().join(" "))
            }
        };
        Some(format!("log: {kind}"))
    }

    fn disk(&mut self) -> Vec<String> {
        let Some(last) = self.unwritten.drain(..).max() else { return Vec::new() };
        self.perform(|replica, actions| replica.persisted(last, actions))
    }

    /// Turns until nothing moves; only SQL is left waiting.
    fn settle(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while self.replica.wants_proposal() || !self.unwritten.is_empty() {
            told.extend(self.perform(|replica, actions| replica.propose_gathered(actions)));
            told.extend(self.disk());
        }
        told
    }

    fn wait(&mut self, ms: u64) -> Vec<String> {
        self.time.monotonic_ms += ms;
        self.time.wall = self.time.wall.plus_ms(ms);
        let time = self.time;
        self.perform(|replica, actions| replica.tick(time, actions))
    }

    /// `sql row ADDRESS vN f=v …`, `sql shows ADDRESS`, `sql answers`, `sql fails`; `sql misses-parent-of` a row and `sql needs` one are foreign keys; `sql finds` looks rows up and keeps what
    /// it found until `sql tells`.
    fn sql(&mut self, words: &[&str]) -> Vec<String> {
        match words[0] {
            "row" => {
                let catalogue = self.catalogue();
                let row = words::address(&catalogue, words[1]);
                let table = catalogue.get(row.table).map(|table| &**table);
                let fields: Vec<_> = words[3..].iter().map(|word| words::field_value(table, word)).collect();
                self.database.put(row.to_owned(), words::version(words[2]), RowImage::of(&fields));
                Vec::new()
            }
            "shows" => {
                let catalogue = self.catalogue();
                let row = words::address(&catalogue, words[1]).to_owned();
                let table = catalogue.get(row.table).map(|table| &**table);
                let shown = self.database.get(&row).map_or("no row".to_owned(), |(version, image)| {
                    format!("v{version} {{{}}}", show::fields(table, image.view()))
                });
                vec![shown]
            }
            "answers" => self.sql_answers(),
            "fails" => self.sql_fails(words.get(1).copied().unwrap_or("retryable")),
            "refuses" | "takes" | "misses-parent-of" | "needs" => {
                let row = words::address(&self.catalogue(), words[1]).to_owned();
                if words[0] == "needs" {
                    self.database.need(row.clone());
                }
                self.database.orphan(row.clone(), words[0] == "misses-parent-of");
                self.database.refuse(row, words[0] == "refuses");
                Vec::new()
            }
            "finds" => {
                let found = self
                    .loads
                    .iter()
                    .map(|load| (load.question, load.rows.iter().map(|row| self.database.load(row)).collect()));
                self.late.extend(found);
                Vec::new()
            }
            "tells" => {
                let (mut told, is_free) = (Vec::new(), self.unwritten.is_empty());
                for (question, rows) in std::mem::take(&mut self.late) {
                    told.extend(self.perform(|replica, actions| replica.loaded(question, rows, actions)));
                }
                told.extend(self.flush_if(is_free));
                told
            }
            other => panic!("sql does not {other}"),
        }
    }

    fn sql_answers(&mut self) -> Vec<String> {
        let (mut told, is_free) = (Vec::new(), self.unwritten.is_empty());
        for load in std::mem::take(&mut self.loads) {
            let rows: Vec<_> = load.rows.iter().map(|row| self.database.load(row)).collect();
            told.extend(self.perform(|replica, actions| replica.loaded(load.question, rows, actions)));
        }
        told.extend(self.flush_if(is_free));
        for write in std::mem::take(&mut self.writes) {
            let is_guest = self.catalogue().get(write.table).is_some_and(|table| table.sql.is_guest());
            let write_row = |row: &FlushRow| (row.row.clone(), self.database.write(row, is_guest));
            let results: Vec<_> = write.rows.iter().map(write_row).collect();
            told.extend(self.perform(|replica, actions| replica.flushed(write.term, &results, actions)));
        }
        for purge in std::mem::take(&mut self.purges) {
            purge.rows.iter().for_each(|(row, version)| self.database.purge(row, *version));
            let needed = purge.rows.iter().map(|(row, _)| row).filter(|row| self.database.is_needed(row));
            self.replica.purge_kept(purge.term, &needed.cloned().collect::<Vec<_>>());
            told.extend(self.perform(|replica, actions| replica.purged(purge.term, &purge.rows, actions)));
        }
        told
    }

    /// What SQL has told enters memory at the end of the turn if the log was free.
    fn flush_if(&mut self, is_free: bool) -> Vec<String> {
        if self.is_turning || !is_free || !self.replica.wants_proposal() {
            return Vec::new();
        }
        self.perform(|replica, actions| replica.propose_gathered(actions))
    }

    fn sql_fails(&mut self, class: &str) -> Vec<String> {
        let class = match class {
            "retryable" => Class::Retryable,
            "definition" => Class::Definition,
            "row" => Class::Row,
            "fatal" => Class::Fatal,
            "busy" => Class::Busy,
            other => panic!("no trouble is called {other:?}"),
        };
        let trouble = Trouble { class, message: "out of order".to_owned() };
        let mut told = Vec::new();
        for load in std::mem::take(&mut self.loads) {
            told.extend(
                self.perform(|replica, actions| replica.load_failed(load.question, &load.rows, &trouble, actions)),
            );
        }
        for write in std::mem::take(&mut self.writes) {
            let rows: Vec<RowKeyBuf> = write.rows.iter().map(|row| row.row.clone()).collect();
            self.replica.flush_failed(write.term, &rows, &trouble);
        }
        for purge in std::mem::take(&mut self.purges) {
            self.replica.purge_failed(purge.term);
        }
        told
    }

    /// Writes out the running snapshot.
    fn cut(&mut self) -> Vec<String> {
        let told = self.perform(|replica, actions| replica.snapshot_step(usize::MAX, actions));
        if told.is_empty() { vec!["no snapshot is due".to_owned()] } else { told }
    }

    fn get(&self, text: &str) -> String {
        let catalogue = self.catalogue();
        let row = words::address(&catalogue, text);
        let table = catalogue.get(row.table).map(|table| &**table);
        show::lookup(table, &self.replica.records().get(row.position(), row))
    }

    fn letters(&self) -> Vec<String> {
        let catalogue = self.catalogue();
        let shown = self.replica.records().dead_letters().map(|(row, letter)| {
            let address = show::address(&catalogue, row);
            format!("{address}@v{} {:?} tries {}", letter.version, letter.error, letter.tries)
        });
        shown.collect()
    }

    fn status(&self, table: &str) -> Vec<String> {
        let catalogue = self.catalogue();
        let id = catalogue.named(table).expect("a known table").id;
        let lines = self.replica.writeback_status();
        let Some(line) = lines.iter().find(|line| line.table == id) else { return vec!["nothing to write".to_owned()] };
        let mut told = format!(
            "dirty {} rows {} bytes queued {} under way {} oldest {} ms written {}",
            line.dirty_rows,
            line.dirty_bytes,
            line.queued_rows,
            line.under_way_rows,
            line.oldest_dirty_ms,
            line.written_rows
        );
        if line.conflicts > 0 {
            told += &format!(" conflicts {}", line.conflicts);
        }
        if line.dead_letters > 0 {
            told += &format!(" dead letters {}", line.dead_letters);
        }
        if let Some(trouble) = &line.last_trouble {
            told += &format!(" trouble {:?} {:?}", trouble.class, trouble.message);
        }
        vec![told]
    }

    fn catalogue(&self) -> Catalogue {
        self.replica.records().catalogue().clone()
    }

    fn addresses(&self, rows: &[RowKeyBuf]) -> String {
        let shown: Vec<String> = rows.iter().map(|row| show::address(&self.catalogue(), row.as_ref())).collect();
        shown.join(" ")
    }

    fn versioned(&self, row: &RowKeyBuf, version: Version) -> String {
        format!("{}@v{version}", show::address(&self.catalogue(), row.as_ref()))
    }

    /// A row on its way to SQL, with the fields that changed where that is known.
    fn to_write(&self, flush: &FlushRow) -> String {
        let row = self.versioned(&flush.row, flush.version);
        let catalogue = self.catalogue();
        let Some(table) = catalogue.get(flush.row.table).filter(|_| !flush.changed.is_all()) else { return row };
        let changed = table.fields.iter().filter(|field| flush.changed.holds(field.id)).map(|field| &*field.name);
        format!("{row}[{}]", changed.collect::<Vec<_>>().join(","))
    }

    fn all_versioned(&self, rows: &[(RowKey<'_>, Version)]) -> String {
        let shown: Vec<String> =
            rows.iter().map(|(row, version)| self.versioned(&(*row).to_owned(), *version)).collect();
        shown.join(" ")
    }
}

/// `ack=raft`, `ack=sql` and `within=MS` may stand before a request.
fn acknowledged(line: &str) -> (Ack, &str) {
    let (mut ack, mut rest) = (Ack::default(), line);
    while let Some((word, next)) = rest.split_once(' ') {
        match word.split_once('=') {
            Some(("ack", "raft")) => ack.after = AckAfter::Raft,
            Some(("ack", "sql")) => ack.after = AckAfter::Sql,
            Some(("within", ms)) => ack.within_ms = ms.parse().expect("milliseconds"),
            _ => break,
        }
        rest = next;
    }
    (ack, rest)
}

fn count_requests(requests: &[u8]) -> usize {
    let mut reader = shardine_model::codec::Reader::new(requests);
    let mut count = 0;
    while !reader.is_empty() {
        Request::decode(&mut reader).expect("requests of our own");
        count += 1;
    }
    count
}

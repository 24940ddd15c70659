//! Load on miss: SQL is asked once per row however many wait, the row enters through the log, then they go on.
//!
//! Who must wait stands in a row's queue, and nobody passes him: commands of one row run in the order in which they came
//! (records 52). A row that is being kicked has a queue too: what comes behind a kick runs after it (records 30).

mod questions;

use std::collections::BTreeMap;

use shardine_model::codec::Reader;
use shardine_model::sql::Class;
use shardine_model::{
    Answer, Entry, ErrorCode, Position, Request, RequestEpoch, RowKey, RowKeyBuf, TableId, Timestamp, limits,
};
use shardine_records::Lookup;

use self::questions::Questions;
use crate::actions::{Actions, Caller, LoadedRow, Question, Trouble};
use crate::gather::Then;
use crate::hold::Wish;
use crate::replica::{Replica, fail};
use crate::row_map::RowMap;
use crate::writeback::{Health, Pause};

#[derive(Debug)]
struct Parked {
    caller: Caller,
    what: ParkedWork,
}

#[derive(Debug)]
enum ParkedWork {
    Read(RowKeyBuf),
    /// An encoded request, what it was routed and read by, and when it wants to be answered.
    Request(Box<[u8]>, RequestEpoch, Wish),
}

/// Who waits for which row. A request that needs several rows waits for one of them at a time, in that row's queue, and
/// holds its place for all of them. Invariant: a row has a queue, or is held by one, or neither; never both.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    waiting: RowMap<Vec<Parked>>,
    /// Rows that requests in another row's queue will touch, and whose queue that is.
    held: BTreeMap<RowKeyBuf, RowKeyBuf>,
    questions: Questions,
    /// Whether SQL answers at all, and which tables it does not know.
    health: Health,
    pauses: BTreeMap<TableId, Pause>,
    /// The last time that was put into the log for absent rows to count from.
    stamped: Timestamp,
}

impl Loads {
    /// Whether somebody waits who will touch the row: whoever comes now must queue behind.
    #[inline]
    pub fn holds(&self, row: RowKey<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let row = row.to_owned();
        self.waiting.contains(&row) || self.held.contains_key(&row)
    }

    fn queue_of(&self, row: &RowKeyBuf) -> Option<RowKeyBuf> {
        if self.waiting.contains(row) { Some(row.clone()) } else { self.held.get(row).cloned() }
    }

    /// The queue for a request of these rows: the one they stand in, made one if they are several, or that of `needed`.
    fn join(&mut self, rows: &[RowKeyBuf], needed: &RowKeyBuf) -> RowKeyBuf {
        let queue = rows.iter().find_map(|row| self.queue_of(row)).unwrap_or_else(|| needed.clone());
        for row in rows {
            match self.queue_of(row) {
                Some(other) if other != queue => self.append(&other, &queue),
                Some(_) => {}
                None if *row == queue => {}
                None => {
                    self.held.insert(row.clone(), queue.clone());
                }
            }
        }
        queue
    }

    fn append(&mut self, from: &RowKeyBuf, to: &RowKeyBuf) {
        let parked = self.waiting.remove(from).unwrap_or_default();
        self.waiting.get_or_default(to).extend(parked);
        self.held.values_mut().filter(|queue| *queue == from).for_each(|queue| queue.clone_from(to));
        self.held.insert(from.clone(), to.clone());
    }

    /// Ends a row's queue.
    fn take(&mut self, row: &RowKeyBuf) -> Vec<Parked> {
        self.questions.close(row);
        self.held.retain(|_, queue| queue != row);
        self.waiting.remove(row).unwrap_or_default()
    }

    /// Whatever was known of SQL was known by another.
    pub fn take_over(&mut self) {
        self.health = Health::default();
        self.pauses.clear();
        self.stamped = Timestamp::default();
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        self.held.clear();
        self.questions.give_up();
        self.waiting.drain_sorted().flatten().map(|parked| parked.caller).collect()
    }
}

impl Loads {
    pub fn next_question(&mut self, term: u64) -> Question {
        self.questions.next(term)
    }

    /// Whether SQL has told rows that are not proposed yet.
    pub fn has_news(&self) -> bool {
        self.questions.has_news()
    }
}

impl Replica {
    /// Parks a request that needs a row from SQL, or that must queue behind one that does.
    #[inline]
    pub(crate) fn park_if_not_resident(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        position: Option<Position>,
        epoch: RequestEpoch,
        wish: Wish,
        actions: &mut Actions,
    ) -> bool {
        if !self.records.has_sql_tables() {
            return false;
        }
        let missing = request.rows().find(|row| {
            let position = position.unwrap_or_else(|| row.position());
            matches!(self.records.get(position, *row), Lookup::NotResident)
                || self.loads.holds(*row)
                || self.writeback.is_kicking(*row)
        });
        let Some(needed) = missing else { return false };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let rows: Vec<RowKeyBuf> = request.rows().map(RowKey::to_owned).collect();
        let what = ParkedWork::Request(bytes.into(), epoch, wish);
        self.park(&needed.to_owned(), &rows, Parked { caller, what }, actions);
        true
    }

    pub(crate) fn park_read(&mut self, caller: Caller, row: RowKey<'_>, actions: &mut Actions) {
        let row = row.to_owned();
        self.park(&row, std::slice::from_ref(&row), Parked { caller, what: ParkedWork::Read(row.clone()) }, actions);
    }

    /// A request that met a row kicked after it was proposed: loads and goes again (records 61).
    pub(crate) fn park_again(
        &mut self,
        caller: Caller,
        request: Box<[u8]>,
        epoch: RequestEpoch,
        wish: Wish,
        missing: &[RowKeyBuf],
        actions: &mut Actions,
    ) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        let needed = missing.first().expect("something was missing");
        let rows: Vec<RowKeyBuf> = decode(&request).rows().map(RowKey::to_owned).collect();
        self.park(needed, &rows, Parked { caller, what: ParkedWork::Request(request, epoch, wish) }, actions);
    }

    fn park(&mut self, needed: &RowKeyBuf, rows: &[RowKeyBuf], parked: Parked, actions: &mut Actions) {
        let ahead = rows.iter().find_map(|row| self.loads.queue_of(row));
        let ahead = ahead.and_then(|queue| self.loads.waiting.get(&queue)).map_or(0, Vec::len);
        if ahead >= limits::LOAD_WAITERS_MAX || (ahead == 0 && self.loads.waiting.len() >= limits::LOADS_MAX) {
            return actions.answers.push((parked.caller, Answer::Failed(ErrorCode::Busy)));
        }
        if ahead == 0 && self.is_out_of_memory() {
            return actions.answers.push((parked.caller, Answer::Failed(ErrorCode::Busy)));
        }
        if ahead == 0 && !self.may_ask(needed.table) {
            // SQL is known to be down: nobody is made to wait for what will not come (write-back 109).
            return actions.answers.push((parked.caller, Answer::Failed(ErrorCode::BackendUnavailable)));
        }
        // A row that nobody waits for, as most of them are when many are missed at once.
        let queue = if ahead == 0 && rows.len() == 1 { needed.clone() } else { self.loads.join(rows, needed) };
        let waiters = self.loads.waiting.get_or_default(&queue);
        waiters.push(parked);
        // The queue of a row that is being kicked asks SQL when the kick is through.
        if waiters.len() == 1 && !self.writeback.is_kicking(queue.as_ref()) {
            self.loads.questions.gather(queue);
            self.loads.health.sent();
        }
    }

    /// Whether rows were missed since SQL was last asked.
    #[must_use]
    pub fn wants_sql(&self) -> bool {
        self.loads.questions.are_open()
    }

    /// Asks SQL for the rows that were missed in this turn. The host calls it at the end of every turn, whether or not its
    /// log is free: nobody waits for a tick.
    pub fn ask_sql(&mut self, actions: &mut Actions) {
        self.loads.questions.ask(self.term(), actions);
    }

    /// Proposes the rows that SQL has told since the last entry of this kind.
    pub(crate) fn propose_news(&mut self) {
        while let Some((entry, rows)) = self.loads.questions.take_news(self.term()) {
            self.propose_bytes(entry, Vec::new(), Then::Loaded(rows));
        }
    }

    /// Absent rows are remembered for a time that counts on the replicated clock, and loads carry no time: where nobody
    /// writes, an entry without rows moves it on.
    fn stamp_absences(&mut self, rows: &[LoadedRow]) {
        let at = self.stamp();
        let is_behind = self.records.clock().max(self.loads.stamped).plus_ms(CLOCK_LAG_MS) <= at;
        if is_behind && rows.iter().any(|loaded| !loaded.version.is_live()) {
            self.loads.stamped = at;
            self.propose(&Entry::Expire { at, rows: Vec::new() }, Vec::new(), Then::Answer);
        }
    }

    fn may_ask(&self, table: TableId) -> bool {
        let (now, definition) = (self.time.monotonic_ms, self.records.catalogue().get(table));
        let pause = self.loads.pauses.get(&table);
        let is_paused = definition.is_some_and(|table| pause.is_some_and(|pause| pause.holds(now, table.version)));
        self.loads.health.may_try(now) && !is_paused
    }

    /// SQL has answered. A result that comes after the term has changed, or to a question that is not the row's open one,
    /// is dropped (records 46). The rows go into the next entry, with whatever else SQL tells until the log is free.
    pub fn loaded(&mut self, question: Question, rows: Vec<LoadedRow>, actions: &mut Actions) {
        if question.term != self.term() || !self.is_serving() {
            return;
        }
        self.loads.health.succeeded();
        self.stamp_absences(&rows);
        for loaded in rows {
            self.loads.pauses.remove(&loaded.row.table);
            if !self.take_settlement(question, &loaded, actions) && self.takes_answer(question, &loaded.row) {
                self.loads.questions.note_news(self.term(), loaded);
            }
        }
        self.drain(actions);
    }

    /// SQL could not be asked: everyone who waits for these rows hears so, and nothing is written (records 47).
    pub fn load_failed(&mut self, question: Question, rows: &[RowKeyBuf], trouble: &Trouble, actions: &mut Actions) {
        if question.term != self.term() {
            return;
        }
        if let Some(row) = rows.first() {
            self.note_load_trouble(row.table, trouble);
        }
        for row in rows {
            if self.fail_settlement(question, row, trouble.code(), actions) || !self.takes_answer(question, row) {
                continue;
            }
            let parked = self.loads.take(row);
            let callers = parked.into_iter().map(|parked| parked.caller).collect();
            fail(actions, callers, trouble.code());
        }
    }

    /// Trouble of the database keeps all loads away for a while, trouble of a table those of that one.
    fn note_load_trouble(&mut self, table: TableId, trouble: &Trouble) {
        let (now, salt) = (self.time.monotonic_ms, self.salt());
        let definition = self.records.catalogue().get(table).map_or(0, |table| table.version);
        match trouble.class {
            Class::Retryable => self.loads.health.failed(now, salt),
            Class::Definition | Class::Fatal | Class::Foreign => {
                self.loads.health.settled();
                self.loads.pauses.entry(table).or_default().begin(now, definition, trouble.class);
            }
            // ParkedWork SQL holds there cannot be read as a record, SQL itself is well (records 49); or it was not asked, and
            // the next one tries again at once (records 48).
            Class::Row | Class::ForeignKey | Class::Busy => self.loads.health.settled(),
        }
    }

    fn takes_answer(&mut self, question: Question, row: &RowKeyBuf) -> bool {
        #[cfg(feature = "mutants")]
        {
            use shardine_records::Mutant::{LoadOverwrites, NoLoadTickets};
            if matches!(self.options.mutant, Some(LoadOverwrites | NoLoadTickets)) {
                return true;
            }
        }
        self.loads.questions.take_answer(question.ticket, row)
    }

    /// The rows are in memory: what waited goes on, in the order in which it came.
    pub(crate) fn release(&mut self, rows: &[RowKeyBuf], actions: &mut Actions) {
        for row in rows {
            for parked in self.loads.take(row) {
                match parked.what {
                    ParkedWork::Read(row) => self.read(parked.caller, row.as_ref(), actions),
                    ParkedWork::Request(bytes, epoch, wish) => {
                        self.take(parked.caller, &decode(&bytes), None, epoch, wish, actions);
                    }
                }
            }
        }
    }
}

/// How far the replicated clock may be behind before a load of an absent row moves it.
const CLOCK_LAG_MS: u64 = 1_000;

fn decode(request: &[u8]) -> Request<'_> {
    Request::decode(&mut Reader::new(request)).expect("encoded here")
}

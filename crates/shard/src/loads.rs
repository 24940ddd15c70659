//! Load on miss: SQL is asked once per row however many wait, the row enters through the log, then they go on.
//!
//! Who must wait stands in a row's queue, and nobody passes him: commands of one row run in the order in which they came
//! (records 52). A row that is being kicked has a queue too: what comes behind a kick runs after it (records 30).

mod questions;
mod queues;

use std::collections::BTreeMap;

use shardine_model::codec::Reader;
use shardine_model::sql::Class;
use shardine_model::{
    Answer, Entry, ErrorCode, Position, Request, RequestEpoch, RowKey, RowKeyBuf, TableId, Timestamp, limits,
};
use shardine_records::Lookup;

use self::questions::Questions;
use self::queues::{Parked, ParkedWork, Queues};
use crate::actions::{Actions, Caller, LoadedRow, Question, Returned, Trouble};
use crate::gather::Then;
use crate::hold::Wish;
use crate::replica::{Replica, fail};
use crate::writeback::{Health, Pause};

/// Who waits for which rows, and what is known of SQL.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    queues: Queues,
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
        self.queues.holds(row)
    }

    /// Whatever was known of SQL was known by another.
    pub fn take_over(&mut self) {
        self.health = Health::default();
        self.pauses.clear();
        self.stamped = Timestamp::default();
    }

    /// Those who waited, with their requests where somebody else can be asked.
    pub fn give_up(&mut self) -> Vec<(Caller, Option<Vec<u8>>)> {
        self.questions.give_up();
        self.queues.give_up().into_iter().map(|parked| (parked.caller, parked.what.for_others())).collect()
    }

    /// Everybody who waits, for another shard: what SQL tells goes to nobody.
    pub fn give_back(&mut self, actions: &mut Actions) {
        self.questions.give_up();
        let why = ErrorCode::StaleRoute;
        for Parked { caller, what } in self.queues.give_up() {
            match what {
                ParkedWork::Read(_) => actions.answers.push((caller, Answer::Failed(why))),
                ParkedWork::Request(request, epoch, _) => {
                    let (request, catalogue) = (request.into(), epoch.catalogue);
                    actions.returned.push(Returned { caller, request, catalogue, why });
                }
            }
        }
    }

    /// Of rows that nobody waits for any longer nobody wants to hear.
    fn forget(&mut self, rows: &[RowKeyBuf]) {
        for row in rows {
            if self.queues.queue_of(row).is_none() {
                self.queues.has_come(row);
                self.questions.close(row);
            }
        }
    }

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
        let missing: Vec<RowKeyBuf> = rows.iter().filter(|row| self.must_be_asked_for(row)).cloned().collect();
        if let Some(code) = self.refuses_to_wait(&parked, rows, &missing) {
            return actions.answers.push((parked.caller, Answer::Failed(code)));
        }
        let queue = self.loads.queues.add(needed, rows, parked);
        for row in missing {
            self.ask_for(row);
        }
        // The queue of a row that is being kicked asks SQL when the kick is through.
        if !self.must_wait_on(&queue) {
            self.ask_for(needed.clone());
        }
    }

    /// Whether the row is neither in memory nor asked for, and not on its way out.
    fn must_be_asked_for(&self, row: &RowKeyBuf) -> bool {
        let key = row.as_ref();
        !self.loads.queues.awaits(row)
            && !self.writeback.is_kicking(key)
            && matches!(self.records.get(key.position(), key), Lookup::NotResident)
    }

    /// Why a request that needs these rows from SQL is not let in. Whoever is let in gets all of them, above the limit of bytes if
    /// need be: one that got a row, was then refused the next, and came back when the first had left, would never end.
    fn refuses_to_wait(&self, parked: &Parked, rows: &[RowKeyBuf], missing: &[RowKeyBuf]) -> Option<ErrorCode> {
        let queues = &self.loads.queues;
        let ahead = queues.ahead_of(rows);
        if ahead >= limits::LOAD_WAITERS_MAX {
            return Some(ErrorCode::Busy);
        }
        // Where nothing can leave, a row that is only read can: it is clean. So one read at a time has its way, or none ever would.
        let has_room = || !self.is_out_of_memory() || !queues.await_any() && parked.what.only_reads();
        if !missing.is_empty() && (queues.are_full() || (ahead == 0 && !has_room())) {
            return Some(ErrorCode::Busy);
        }
        // SQL is known to be down: nobody is made to wait for what will not come (write-back 109).
        let will_not_come = |row: &RowKeyBuf| !self.may_ask(row.table);
        missing.iter().any(will_not_come).then_some(ErrorCode::BackendUnavailable)
    }

    fn ask_for(&mut self, row: RowKeyBuf) {
        self.loads.queues.await_row(row.clone());
        self.loads.questions.gather(row);
        self.loads.health.sent();
    }

    /// Whether something is still to come for the first of a queue: a row from SQL, or the end of a kick.
    fn must_wait_on(&self, queue: &RowKeyBuf) -> bool {
        let rows = self.loads.queues.first_rows(queue);
        rows.iter().any(|row| self.loads.queues.awaits(row) || self.writeback.is_kicking(row.as_ref()))
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
            let Some(queue) = self.loads.queues.queue_of(row) else { continue };
            fail(actions, self.loads.queues.give_up_row(&queue, row), trouble.code());
            self.go_on(&queue, actions);
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

    /// The rows are in memory, or have left it: what waited for nothing else goes on, in its order.
    pub(crate) fn release(&mut self, rows: &[RowKeyBuf], actions: &mut Actions) {
        for row in rows {
            self.loads.questions.close(row);
            self.loads.queues.has_come(row);
            if let Some(queue) = self.loads.queues.queue_of(row) {
                self.go_on(&queue, actions);
            }
        }
    }

    /// Lets a queue go on when its first has all rows. Those behind who have not wait again, for what was asked for already.
    fn go_on(&mut self, queue: &RowKeyBuf, actions: &mut Actions) {
        if self.must_wait_on(queue) {
            return;
        }
        let (parked, unheard) = self.loads.queues.take(queue);
        for parked in parked {
            match parked.what {
                ParkedWork::Read(row) => self.read(parked.caller, row.as_ref(), actions),
                ParkedWork::Request(bytes, epoch, wish) => {
                    // It was taken while it fitted. Tables that have come since have come behind it, and it means what it meant.
                    let catalogue = epoch.catalogue.max(self.records.catalogue().version());
                    let epoch = RequestEpoch { catalogue, ..epoch };
                    self.take(parked.caller, &decode(&bytes), None, epoch, wish, actions);
                }
            }
        }
        self.loads.forget(&unheard);
    }
}

/// How far the replicated clock may be behind before a load of an absent row moves it.
const CLOCK_LAG_MS: u64 = 1_000;

fn decode(request: &[u8]) -> Request<'_> {
    Request::decode(&mut Reader::new(request)).expect("encoded here")
}

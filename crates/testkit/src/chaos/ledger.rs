//! What was sent and what was answered, and whether an answer is possible.
//!
//! Every cell holds a number that only grows: a counter that several clients add one to, or a register that one client sets to
//! 1, 2, 3 and so on. So a read has a floor, which is the largest number that anybody had been answered before the read began,
//! and a ceiling, which is the largest that can have been sent when it was answered.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};

use super::{TABLE, Tally};

/// Lines about impossible answers that are told: the first say most.
const TOLD: usize = 10;

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A string: `SET`, `INCR`, `GET`.
    Text,
    /// A field of a row that SQL has too: `HSET`, `HINCRBY`, `HGET`.
    Row,
}

pub struct Cell {
    key: String,
    form: Form,
    /// The largest number that anybody was answered.
    floor: AtomicU64,
    /// The largest that can be there.
    sent: AtomicU64,
    /// A lost answer lies before later writes: what is read may go back to it, and raises no floor any more.
    is_torn: AtomicBool,
    /// Answers of increments.
    counted: Mutex<BTreeSet<u64>>,
}

impl Cell {
    fn new(name: &str, form: Form) -> Cell {
        let key = match form {
            Form::Text => name.to_owned(),
            Form::Row => format!("{TABLE}:{name}"),
        };
        let (floor, sent, is_torn, counted) = Default::default();
        Cell { key, form, floor, sent, is_torn, counted }
    }

    pub fn floor(&self) -> u64 {
        self.floor.load(SeqCst)
    }

    pub fn read(&self) -> Vec<String> {
        self.command("GET", "HGET", None)
    }

    /// The next number of a register, with the command that sets it.
    pub fn next(&self) -> (u64, Vec<String>) {
        let number = self.sent.fetch_add(1, SeqCst) + 1;
        (number, self.command("SET", "HSET", Some(number)))
    }

    pub fn add_one(&self) -> Vec<String> {
        self.sent.fetch_add(1, SeqCst);
        match self.form {
            Form::Text => self.command("INCR", "", None),
            Form::Row => self.command("", "HINCRBY", Some(1)),
        }
    }

    pub fn tear(&self) {
        self.is_torn.store(true, SeqCst);
    }

    fn command(&self, text: &str, row: &str, value: Option<u64>) -> Vec<String> {
        let mut words = match self.form {
            Form::Text => vec![text.to_owned(), self.key.clone()],
            Form::Row => vec![row.to_owned(), self.key.clone(), "n".to_owned()],
        };
        words.extend(value.map(|value| value.to_string()));
        words
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

pub struct Ledger {
    begun: Instant,
    cells: Mutex<Vec<Arc<Cell>>>,
    impossible: Mutex<Vec<String>>,
    /// Of the clients at each node.
    answered: Vec<[AtomicU64; 2]>,
    failures: AtomicU64,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Write,
    Read,
}

impl Ledger {
    pub fn new(nodes: usize) -> Ledger {
        let answered = (0..nodes).map(|_| Default::default()).collect();
        let (cells, impossible, failures) = Default::default();
        Ledger { begun: Instant::now(), cells, impossible, answered, failures }
    }

    pub fn cell(&self, name: &str, form: Form) -> Arc<Cell> {
        let cell = Arc::new(Cell::new(name, form));
        hold(&self.cells).push(Arc::clone(&cell));
        cell
    }

    pub fn cells(&self) -> Vec<Arc<Cell>> {
        hold(&self.cells).clone()
    }

    /// One of them, the later the likelier.
    pub fn any(&self, chance: u64) -> Option<Arc<Cell>> {
        let cells = hold(&self.cells);
        let back = (chance >> 8) % if chance.is_multiple_of(4) { cells.len() as u64 } else { 32 };
        cells.iter().rev().nth(back as usize).or_else(|| cells.first()).cloned()
    }

    pub fn was_set(&self, cell: &Cell, number: u64, place: usize) {
        cell.floor.fetch_max(number, SeqCst);
        self.answered_at(place, Deed::Write);
    }

    /// `floor` is the one from before it was sent.
    pub fn was_counted(&self, cell: &Cell, floor: u64, number: u64, place: usize) {
        if !hold(&cell.counted).insert(number) {
            self.tell(format!("{cell} was counted to {number} twice, the second time at node {}", place + 1));
        }
        // An increment sees what was there before it, and adds to it.
        self.look(cell, floor + 1, number, place, "counted to");
        cell.floor.fetch_max(number, SeqCst);
        self.answered_at(place, Deed::Write);
    }

    /// `floor` is the one from before it was asked for. Says whether it is possible.
    pub fn was_read(&self, cell: &Cell, floor: u64, number: u64, place: usize) -> bool {
        let is_possible = self.look(cell, floor, number, place, "read as");
        if !cell.is_torn.load(SeqCst) {
            cell.floor.fetch_max(number, SeqCst);
        }
        self.answered_at(place, Deed::Read);
        is_possible
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, SeqCst);
    }

    fn look(&self, cell: &Cell, floor: u64, number: u64, place: usize, deed: &str) -> bool {
        let ceiling = cell.sent.load(SeqCst);
        let is_possible = (floor..=ceiling).contains(&number);
        if !is_possible {
            let bounds = format!("possible was {floor} to {ceiling}");
            self.tell(format!("{cell} was {deed} {number} at node {}, and {bounds}", place + 1));
        }
        is_possible
    }

    fn answered_at(&self, place: usize, deed: Deed) {
        self.answered[place][deed as usize].fetch_add(1, SeqCst);
    }

    pub fn tell(&self, told: String) {
        let at = self.begun.elapsed().as_secs_f64();
        hold(&self.impossible).push(format!("{at:.3} s  {told}"));
    }

    /// Answers so far: writes and reads at each node.
    pub fn answered(&self) -> Vec<u64> {
        self.answered.iter().flatten().map(|count| count.load(SeqCst)).collect()
    }

    pub fn verdict(&self) -> Result<()> {
        let impossible = hold(&self.impossible);
        if impossible.is_empty() {
            return Ok(());
        }
        let first: Vec<&str> = impossible.iter().take(TOLD).map(String::as_str).collect();
        bail!("impossible answers, {} lines:\n{}", impossible.len(), first.join("\n"))
    }

    pub fn tally(&self) -> Tally {
        let sum = |deed: Deed| self.answered.iter().map(|counts| counts[deed as usize].load(SeqCst)).sum();
        let cells = self.cells();
        Tally {
            faults: 0,
            writes_sent: cells.iter().map(|cell| cell.sent.load(SeqCst)).sum(),
            writes_answered: sum(Deed::Write),
            reads: sum(Deed::Read),
            keys: cells.len(),
            numbers: 0,
            shared: 0,
            turns: 0,
            failures: self.failures.load(SeqCst),
        }
    }
}

/// A client that panicked is told by its end.
fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ledger: &Ledger) -> String {
        ledger.verdict().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_read_behind_what_was_answered_is_told() {
        let ledger = Ledger::new(1);
        let cell = ledger.cell("register", Form::Text);
        for _ in 0..3 {
            let (number, _) = cell.next();
            ledger.was_set(&cell, number, 0);
        }
        ledger.was_read(&cell, 2, 2, 0);
        assert_eq!(told(&ledger), "", "it began before the third was answered");

        ledger.was_read(&cell, cell.floor(), 2, 0);

        assert!(told(&ledger).contains("register was read as 2 at node 1, and possible was 3 to 3"));
    }

    #[test]
    fn a_number_that_nobody_sent_is_told() {
        let ledger = Ledger::new(1);
        let cell = ledger.cell("counter", Form::Row);
        assert_eq!(cell.add_one(), ["HINCRBY", "rows:counter", "n", "1"]);

        ledger.was_counted(&cell, 0, 2, 0);

        assert!(told(&ledger).contains("rows:counter was counted to 2 at node 1, and possible was 1 to 1"));
    }

    #[test]
    fn an_answer_that_two_got_is_told() {
        let ledger = Ledger::new(2);
        let cell = ledger.cell("counter", Form::Text);
        cell.add_one();
        cell.add_one();
        ledger.was_counted(&cell, 0, 1, 0);

        ledger.was_counted(&cell, 0, 1, 1);

        assert!(told(&ledger).contains("counter was counted to 1 twice, the second time at node 2"));
    }
}

//! Registers that everybody writes through every door, never the same number twice, and whether there is an order in which
//! everything that was answered can have happened (reliability I13, I14).
//!
//! With numbers that are written once the question has a quick and exact answer (Gibbons and Korach, "Testing shared memories",
//! SIAM J. Comput. 1997). A number's operations are its write and the reads that gave it. If the first of them to end does so
//! before the last one begins, the register held it all the time in between: a *held* zone, and two of those may not overlap.
//! Else they all have a moment in common, and may have happened at any of its instants, one of which must lie outside of every
//! other number's held zone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Nanoseconds since the register was made.
type Moment = u64;
const NEVER: Moment = Moment::MAX;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Certainly not executed.
    Refused,
    /// It may have happened, or may happen later.
    Unknown,
}

/// A register of one record.
pub struct Register {
    pub name: String,
    begun: Instant,
    history: Mutex<History>,
}

/// What was done to one register. Zero is what is there before the first write.
#[derive(Default)]
pub struct History {
    numbers: BTreeMap<u64, Number>,
}

struct Number {
    called: Moment,
    /// Never, as long as there is no answer that says that it was done.
    answered: Moment,
    is_refused: bool,
    /// Of the reads that gave it: the first to end, the last to begin.
    read_ended: Moment,
    read_begun: Option<Moment>,
}

#[derive(Clone, Copy)]
struct Zone {
    number: u64,
    begin: Moment,
    end: Moment,
}

impl Register {
    pub fn new(name: String) -> Register {
        Register { name, begun: Instant::now(), history: Mutex::default() }
    }

    pub fn now(&self) -> Moment {
        // The zeroth is before everything.
        u64::try_from(self.begun.elapsed().as_nanos()).expect("centuries") + 1
    }

    /// A number to write next.
    pub fn write(&self) -> u64 {
        self.with(|history| {
            let number = history.numbers.keys().last().map_or(1, |last| last + 1);
            // Under the lock, so that it is before what is sent.
            history.write(number, self.now());
            number
        })
    }

    pub fn wrote(&self, number: u64, outcome: Outcome) {
        let now = self.now();
        self.with(|history| history.wrote(number, now, outcome));
    }

    /// Fails if nobody ever wrote that.
    pub fn was_read(&self, number: u64, called: Moment) -> Result<(), String> {
        let now = self.now();
        self.with(|history| history.was_read(number, called, now)).map_err(|fault| format!("{}: {fault}", self.name))
    }

    pub fn len(&self) -> usize {
        self.with(|history| history.numbers.len())
    }

    pub fn check(&self) -> Result<(), String> {
        self.with(|history| history.check()).map_err(|fault| format!("{}: {fault}", self.name))
    }

    fn with<T>(&self, deed: impl FnOnce(&mut History) -> T) -> T {
        deed(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl History {
    fn write(&mut self, number: u64, now: Moment) {
        self.numbers.insert(number, Number::new(now, NEVER));
    }

    fn wrote(&mut self, number: u64, now: Moment, outcome: Outcome) {
        let number = self.numbers.get_mut(&number).expect("it was begun");
        match outcome {
            Outcome::Done => number.answered = now,
            Outcome::Refused => number.is_refused = true,
            Outcome::Unknown => {}
        }
    }

    fn was_read(&mut self, number: u64, called: Moment, now: Moment) -> Result<(), String> {
        let found = match number {
            0 => self.numbers.entry(0).or_insert_with(|| Number::new(0, 0)),
            number => self.numbers.get_mut(&number).ok_or(format!("{number} was read, which nobody wrote"))?,
        };
        found.read_ended = found.read_ended.min(now);
        found.read_begun = found.read_begun.max(Some(called));
        Ok(())
    }

    /// Fails if there is no order.
    fn check(&self) -> Result<(), String> {
        let (mut held, mut brief) = (Vec::new(), Vec::new());
        for (number, what) in self.numbers.iter().filter(|(_, what)| what.counts()) {
            if what.is_refused {
                return Err(format!("{number} was refused, and read"));
            }
            if what.read_ended < what.called {
                return Err(format!("{number} was read before it was written"));
            }
            let (first_end, last_begin) = (what.answered.min(what.read_ended), what.read_begun.max(Some(what.called)));
            let last_begin = last_begin.expect("its write begins");
            let zone = |begin, end| Zone { number: *number, begin, end };
            if first_end < last_begin {
                held.push(zone(first_end, last_begin));
            } else {
                brief.push(zone(last_begin, first_end));
            }
        }
        held.sort_by_key(|zone| zone.begin);
        if let Some(two) = held.windows(2).find(|two| two[1].begin < two[0].end) {
            return Err(format!(
                "{} was there at {}, {} at {}, and each both before and after the other", //
                two[0].number,
                two[0].shown(),
                two[1].number,
                two[1].shown()
            ));
        }
        brief.iter().try_for_each(|zone| {
            // They do not overlap: only the last one that begins before it can hold it.
            let before = held.partition_point(|held| held.begin < zone.begin);
            let around = held[..before].last().filter(|held| zone.end < held.end);
            around.map_or(Ok(()), |held| {
                Err(format!(
                    "{} was there only within {}, where {} was all the time {}", //
                    zone.number,
                    zone.shown(),
                    held.number,
                    held.shown()
                ))
            })
        })
    }
}

impl Number {
    fn new(called: Moment, answered: Moment) -> Number {
        Number { called, answered, is_refused: false, read_ended: NEVER, read_begun: None }
    }

    /// A write without an answer that nobody saw may have happened at the end of all time.
    fn counts(&self) -> bool {
        self.answered != NEVER || self.read_begun.is_some()
    }
}

impl Zone {
    fn shown(self) -> String {
        let shown = |moment: Moment| format!("{:.6}", moment as f64 / 1e9);
        let end = if self.end == NEVER { "ever".to_owned() } else { shown(self.end) };
        format!("{}-{end} s", shown(self.begin))
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Finished {
        number: u64,
        is_write: bool,
        called: Moment,
        answered: Moment,
    }

    fn history(all: &[Finished]) -> Result<History, String> {
        let mut history = History::default();
        for done in all.iter().filter(|done| done.is_write) {
            history.write(done.number, done.called);
            history.wrote(
                done.number,
                done.answered,
                if done.answered == NEVER { Outcome::Unknown } else { Outcome::Done },
            );
        }
        for done in all.iter().filter(|done| !done.is_write) {
            history.was_read(done.number, done.called, done.answered)?;
        }
        Ok(history)
    }

    /// Tries every order.
    fn has_order(rest: &[Finished], held: u64) -> bool {
        if rest.iter().all(|done| done.answered == NEVER) {
            return true;
        }
        (0..rest.len()).any(|place| {
            let next = rest[place];
            let is_first = rest.iter().all(|other| other.answered >= next.called);
            let fits = next.is_write || next.number == held;
            let others: Vec<Finished> =
                rest.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, done)| *done).collect();
            is_first && fits && has_order(&others, next.number)
        })
    }

    /// reliability I13: the zones say what a search through all orders says.
    #[test]
    fn zones_agree_with_all_orders() {
        let mut random = Random::new(5);
        let mut counts = [0; 2];
        for _ in 0..60_000 {
            // Moments differ: what is at the same time may be in either order for one, and not for the other.
            let count = 2 + random.place(5);
            let moments = random.order(2 * count);
            let writes = 1 + random.below(3);
            let all: Vec<Finished> = (0..count)
                .map(|place| {
                    let two = [moments[2 * place] as u64 + 1, moments[2 * place + 1] as u64 + 1];
                    let is_write = (place as u64) < writes;
                    let number = if is_write { place as u64 + 1 } else { random.below(writes.min(count as u64) + 1) };
                    let is_lost = is_write && random.below(5) == 0;
                    let answered = if is_lost { NEVER } else { two[0].max(two[1]) };
                    Finished { number, is_write, called: two[0].min(two[1]), answered }
                })
                .collect();

            let said = history(&all).and_then(|history| history.check());

            let is_right = has_order(&all, 0);
            assert_eq!(said.is_ok(), is_right, "{all:?}: {said:?}");
            counts[usize::from(is_right)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 10_000), "{counts:?}");
    }

    #[test]
    fn what_was_refused_is_never_read() {
        let mut history = History::default();
        history.write(1, 1);
        history.wrote(1, 2, Outcome::Refused);
        assert_eq!(history.check(), Ok(()));

        history.was_read(1, 3, 4).unwrap();

        assert!(history.check().unwrap_err().contains("refused"));
    }
}

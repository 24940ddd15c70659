//! Promise: a command sees what those before it on its connection have done, also while leaders change and nodes ask again what a broken
//! link has swallowed (docs/redis.md).
//!
//! What reads saw is not held against those behind them: a read waits for its round, and another one of the same row may go through the
//! log meanwhile. A change lets the door wait for reads before it.

use std::collections::BTreeMap;

use shardine_model::Version;

use crate::check::Violation;
use crate::records::ask::Ask;
use crate::records::history::History;

const NAME: &str = "order_of_connections";

/// Looks at the versions that were told. A number's answer is that of its first execution, which may have been asked for on another connection
/// (also when this one was given up, and its requests still waited in a node that stood still), and a read that a node has asked again may see
/// what came behind it.
pub fn check(history: &History) -> Result<(), Violation> {
    let mut newest: BTreeMap<(u64, usize), (u64, usize)> = BTreeMap::new();
    for (connection, attempt, job, may_be_late, seen) in history.on_connections() {
        if may_be_late || history.may_have_been_executed_elsewhere(attempt) {
            continue;
        }
        for ((row, ask), saw) in job.touches().into_iter().zip(&seen) {
            // A tombstone that was purged is forgotten, and known as never made.
            let Some(version) = saw.version().filter(|version| *version != Version::NEVER) else { continue };
            let (before, by) = newest.get(&(connection, row)).copied().unwrap_or_default();
            if version.magnitude() < before {
                let detail = format!(
                    "on connection {connection} attempt {attempt} at row {row} saw version {version}, and attempt {by} before it has made it {before}"
                );
                return Err(Violation::new(NAME, detail));
            }
            if ask != Ask::Get {
                newest.insert((connection, row), (version.magnitude(), attempt));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use shardine_model::command::Origin;
    use shardine_model::{Answer, ClientId, Outcome, Reply, RowImage};

    use super::*;
    use crate::records::ask::Job;

    /// A change and one behind it, both numbered, that a node takes in on connection 1.
    fn two_changes() -> (History, [usize; 2], [u64; 2]) {
        let mut history = History::default();
        let change = |value| Job::One { row: 0, ask: Ask::Incr { value } };
        let number = |sequence| Some(Origin::new(ClientId(1), sequence));
        let operations = [history.invoke(change(1), number(1)), history.invoke(change(2), number(2))];
        let attempts = operations.map(|operation| history.send(0, operation, 0, Some(1)));
        attempts.into_iter().for_each(|attempt| history.take(attempt, 1, 10));
        (history, operations, attempts)
    }

    fn answer(history: &mut History, attempt: u64, version: i64, now: u64) {
        let row = Some(RowImage::default());
        let outcome = Outcome::Done { changed: 0, row };
        let reply = Reply { version: Version(version), sql_version: Version::NEVER, expires_at: None, outcome };
        history.answer(attempt, &Answer::One(reply), false, now).unwrap();
    }

    #[test]
    fn changes_of_a_connection_that_are_turned_round_are_seen() {
        let (mut history, _, [first, second]) = two_changes();

        answer(&mut history, first, 8, 20);
        answer(&mut history, second, 7, 20);

        assert!(check(&history).is_err());
    }

    #[test]
    fn a_number_that_was_executed_for_another_connection_keeps_the_order_of_that_one() {
        let (mut history, [first, second], attempts) = two_changes();

        for (operation, version) in [(second, 7), (first, 8)] {
            let again = history.send(0, operation, 1, Some(2));
            history.take(again, 1, 11);
            answer(&mut history, again, version, 12);
        }
        answer(&mut history, attempts[0], 8, 20);
        answer(&mut history, attempts[1], 7, 20);

        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn what_is_sent_again_on_another_connection_after_the_answer_excuses_nothing() {
        let (mut history, [_, second], attempts) = two_changes();

        answer(&mut history, attempts[0], 8, 20);
        answer(&mut history, attempts[1], 7, 20);
        let again = history.send(0, second, 1, Some(2));
        history.take(again, 1, 30);

        assert!(check(&history).is_err());
    }
}

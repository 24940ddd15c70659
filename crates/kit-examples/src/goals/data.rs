//! The goals of a shard's counters, read from SQL in the order of counters and kept in memory.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use shardine_kit::Interval;

use super::Hit;

/// Rows of one page of a read.
const PAGE: u32 = 10_000;

/// A goal is reached by a hit whose address contains its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    pub id: u32,
    pub url_part: String,
}

/// Goals by counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goals(BTreeMap<u32, Vec<Goal>>);

impl Goals {
    /// Reads the goals of all counters in the interval, page by page.
    pub fn read(path: &Path, interval: Interval) -> Result<Goals> {
        let connection = Connection::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut page = connection.prepare(
            "SELECT counter_id, goal_id, url_part FROM goals WHERE (counter_id, goal_id) > (?1, ?2) AND counter_id < ?3 \
             ORDER BY counter_id, goal_id LIMIT ?4",
        )?;
        // Counters are of four bytes, and so is what SQLite has to compare with.
        let bound = |key: u64| i64::try_from(key).unwrap_or(i64::MAX);
        let (mut last, end) = ((bound(interval.lo()) - 1, i64::MAX), interval.hi().map_or(i64::MAX, bound));
        let mut goals = Goals::default();
        loop {
            let row =
                |row: &rusqlite::Row<'_>| Ok((row.get::<_, u32>(0)?, Goal { id: row.get(1)?, url_part: row.get(2)? }));
            let rows: Vec<(u32, Goal)> =
                page.query_map(params![last.0, last.1, end, PAGE], row)?.collect::<Result<_, _>>()?;
            let Some((counter, goal)) = rows.last() else { return Ok(goals) };
            last = (i64::from(*counter), i64::from(goal.id));
            for (counter, goal) in rows {
                goals.0.entry(counter).or_default().push(goal);
            }
        }
    }

    pub fn counters(&self) -> usize {
        self.0.len()
    }

    /// The goals that a hit reaches; robots reach none.
    pub fn reached(&self, hit: &Hit) -> Vec<u32> {
        let known = self.0.get(&hit.counter_id).filter(|_| !hit.is_robot);
        let reached = known.into_iter().flatten().filter(|goal| hit.url.contains(&goal.url_part));
        reached.map(|goal| goal.id).collect()
    }
}

/// Makes a table of goals, three for each counter: every hit reaches the first, `/buy` the second, nothing the third.
pub fn make(path: &Path, counters: u32) -> Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "CREATE TABLE goals (counter_id INTEGER, goal_id INTEGER, url_part TEXT, PRIMARY KEY (counter_id, goal_id))",
    )?;
    {
        let mut insert = transaction.prepare("INSERT INTO goals VALUES (?1, ?2, ?3)")?;
        for counter in 0..counters {
            for (number, part) in ["/", "/buy", "/no such page"].into_iter().enumerate() {
                insert.execute(params![counter, counter * 10 + number as u32, part])?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// What a hit reaches by the rule that [`make`] follows.
pub fn expected(hit: &Hit) -> Vec<u32> {
    match hit.url.contains("/buy") {
        true => vec![hit.counter_id * 10, hit.counter_id * 10 + 1],
        false => vec![hit.counter_id * 10],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_reads_its_own_counters_and_matches_their_hits() {
        let dir = shardine_testkit::Dir::new().unwrap();
        let path = dir.join("goals.sqlite");
        make(&path, 30).unwrap();

        let goals = Goals::read(&path, Interval::new(10, 20)).unwrap();

        assert_eq!(goals.counters(), 10);
        let hit = |counter_id, url: &str| Hit { watch_id: 1, counter_id, url: url.to_owned(), is_robot: false };
        assert_eq!(goals.reached(&hit(12, "shop/buy/this")), expected(&hit(12, "shop/buy/this")));
        assert_eq!(goals.reached(&hit(12, "shop/look")), [120]);
        assert!(goals.reached(&hit(20, "shop/look")).is_empty());
        assert!(goals.reached(&Hit { is_robot: true, ..hit(12, "shop/buy") }).is_empty());
        assert_eq!(Goals::read(&path, Interval::WHOLE).unwrap().counters(), 30);
    }
}

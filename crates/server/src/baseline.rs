//! Where this node's logs ended before anything new was written to them, for as long as SQL has not been compared with it.
//!
//! SQL keeps how far a shard's log had come when its rows were written (`shardine_writeback::Owner`). A directory that was put
//! back from an old copy has a shorter log, and is told apart by that; but it serves, its log grows, and after the next start it
//! would look long enough. So what a start finds is kept in a file, which later starts believe more than their logs, until SQL
//! was asked and had seen no more than that. What SQL is ahead of stays in it, and is not written (`docs/damage.md`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use shardine_model::{ShardId, TableId};
use shardine_writeback::Trace;

const FILE: &str = "SQL-BASELINE";
const TITLE: &str = "shardine sql baseline 1";

pub(crate) struct Baseline {
    path: PathBuf,
    state: Mutex<State>,
}

/// The last entries of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// Of shards about which SQL has not been asked.
    unasked: BTreeMap<ShardId, u64>,
    /// Of shards that SQL has seen more of while it was given rows of this table: its entry, and the log's.
    ahead: BTreeMap<(ShardId, TableId), (u64, u64)>,
}

impl Baseline {
    /// Takes up what an earlier start has left, and notes where the logs of the other shards end. To be called before the
    /// first entry of this start is written.
    pub fn open(dir: &Path, ends: &[(ShardId, u64)]) -> anyhow::Result<Self> {
        let path = dir.join(FILE);
        let mut state = match fs::read_to_string(&path) {
            Ok(text) => State::decode(&text).with_context(|| {
                format!("{} is damaged: restore it from a copy of the same directory (docs/damage.md)", path.display())
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        for (shard, end) in ends {
            state.unasked.entry(*shard).or_insert(*end);
        }
        let baseline = Self { path, state: Mutex::new(state) };
        baseline.write(&baseline.lock()).with_context(|| format!("cannot write {}", baseline.path.display()))?;
        Ok(baseline)
    }

    /// Compares with what SQL has seen. Called before SQL is written to for the first time, and when it returns the outcome
    /// is on disk.
    pub fn compare(&self, traces: &[Trace]) -> io::Result<()> {
        let mut state = self.lock();
        let mut next = State { unasked: BTreeMap::new(), ahead: BTreeMap::new() };
        for trace in traces {
            let key = (trace.shard, trace.table);
            let known = state.ahead.get(&key).map(|(_, end)| *end);
            let end = known.or_else(|| state.unasked.get(&trace.shard).copied());
            if let Some(end) = end.filter(|end| trace.applied > *end) {
                next.ahead.insert(key, (trace.applied, end));
            }
        }
        self.write(&next)?;
        for trace in traces {
            if let Some((_, end)) = next.ahead.get(&(trace.shard, trace.table)) {
                let why = trace.beyond(*end).unwrap_or_default();
                tracing::error!(shard = %trace.shard, table = %trace.table, "{why}");
            }
        }
        *state = next;
        Ok(())
    }

    /// The most that SQL may have seen of a shard's log for rows of this table to be written, if it is less than what the
    /// shard itself would say.
    pub fn of(&self, shard: ShardId, table: TableId) -> Option<u64> {
        let state = self.lock();
        let ahead = state.ahead.get(&(shard, table)).map(|(_, end)| *end);
        ahead.or_else(|| state.unasked.get(&shard).copied())
    }

    /// Why rows of this table are not written, and by how many shards.
    pub fn ahead(&self, table: TableId) -> Option<(usize, String)> {
        let state = self.lock();
        let mut found = state.ahead.iter().filter(|((_, ahead), _)| *ahead == table);
        let ((shard, _), (applied, end)) = found.next()?;
        let why = Trace { shard: *shard, table, applied: *applied }.beyond(*end)?;
        Some((1 + found.count(), why))
    }

    fn write(&self, state: &State) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        if *state == State::default() {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return File::open(dir)?.sync_all(),
            }
        }
        let unfinished = self.path.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(state.encode().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        File::open(dir)?.sync_all()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Readable, as everything that somebody may open who wonders what the directory is.
    fn encode(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (shard, end) in &self.unasked {
            text += &format!("shard {shard} ends {end}\n");
        }
        for ((shard, table), (applied, end)) in &self.ahead {
            text += &format!("shard {shard} table {table} ends {end} sql {applied}\n");
        }
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc {crc:08x}\n")
    }

    fn decode(text: &str) -> anyhow::Result<Self> {
        let mut state = Self::default();
        let lines = text.strip_prefix(TITLE).context("its first line is not readable")?.lines().skip(1);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["shard", shard, "ends", end] => {
                    state.unasked.insert(ShardId(shard.parse()?), end.parse()?);
                }
                ["shard", shard, "table", table, "ends", end, "sql", applied] => {
                    let key = (ShardId(shard.parse()?), TableId(table.parse()?));
                    state.ahead.insert(key, (applied.parse()?, end.parse()?));
                }
                ["crc", _] => {}
                _ => bail!("the line {line:?} is not readable"),
            }
        }
        // There is one way to write it, so the checksum need not be taken apart.
        if state.encode() != text {
            bail!("it does not match its checksum");
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: TableId = TableId(2);
    const POSTS: TableId = TableId(3);

    fn seen(table: TableId, applied: u64) -> Trace {
        Trace { shard: ShardId(1), table, applied }
    }

    fn open(dir: &Path, end: u64) -> Baseline {
        Baseline::open(dir, &[(ShardId(1), end)]).unwrap()
    }

    #[test]
    fn where_sql_has_seen_no_more_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let baseline = open(dir.path(), 10);
        assert_eq!(baseline.of(ShardId(1), USERS), Some(10), "nobody has asked SQL");

        baseline.compare(&[seen(USERS, 10)]).unwrap();

        assert_eq!(baseline.of(ShardId(1), USERS), None);
        assert_eq!(baseline.ahead(USERS), None);
        assert!(!dir.path().join(FILE).exists());
    }

    /// The log of an old copy grows past what SQL has seen, and it is an old copy all the same.
    #[test]
    fn write_back_135_a_longer_log_at_a_later_start_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        // SQL is down at the first start, and is compared at the second.
        drop(open(dir.path(), 10));
        let second = open(dir.path(), 30);
        second.compare(&[seen(USERS, 21), seen(POSTS, 9)]).unwrap();

        let third = open(dir.path(), 50);
        third.compare(&[seen(USERS, 21), seen(POSTS, 40)]).unwrap();

        for baseline in [second, third] {
            assert_eq!(baseline.of(ShardId(1), USERS), Some(10));
            assert_eq!(baseline.of(ShardId(1), POSTS), None, "it was written to by this directory since");
            let (shards, why) = baseline.ahead(USERS).unwrap();
            assert_eq!(shards, 1);
            assert!(why.contains("from entry 21") && why.contains("began with entry 10"), "{why}");
        }
    }

    #[test]
    fn a_damaged_file_is_not_guessed_at() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), 10));
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for spoilt in [text.replace("10", "90"), text.replace("shard 1", "shard 9"), String::new(), text[..9].into()] {
            fs::write(&path, spoilt).unwrap();

            let error = Baseline::open(dir.path(), &[]).err().expect("it is refused");

            assert!(format!("{error:#}").contains("is damaged"), "{error:#}");
        }
    }

    #[test]
    fn its_bytes_are_these() {
        let mut state = State::default();
        state.unasked.insert(ShardId(1), 10);
        state.ahead.insert((ShardId(2), USERS), (21, 10));

        let text = "shardine sql baseline 1\nshard 1 ends 10\nshard 2 table 2 ends 10 sql 21\ncrc 8e86bb08\n";

        assert_eq!(state.encode(), text);
        assert_eq!(State::decode(text).unwrap(), state);
    }
}

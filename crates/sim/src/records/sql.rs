//! The SQL database behind all nodes: rows by address, full-row upserts behind the version fence (write-back 94), and
//! the ways in which a statement can go wrong.

use std::collections::BTreeMap;

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{RowKeyBuf, Version};
use shardine_shard::{LoadedRow, Mutant};

use crate::chance::Chance;
use crate::check::Violation;
use crate::ground::{MS, SECOND};
use crate::records::check::sql_never_goes_backwards;
use crate::records::plan::SqlPlan;
use crate::records::universe::{Content, Row, content_of, image_of};

/// How long a node waits for a statement before it gives up on it.
const GIVE_UP: u64 = 2 * SECOND;

/// By how much somebody outside raises a version: more than a run has changes.
const EDIT_JUMP: i64 = 100_000;

const PURGE_LATE_PERCENT: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlRow {
    pub version: Version,
    /// Nothing under a tombstone.
    pub content: Option<Content>,
}

/// What becomes of a statement, decided when it is sent. Times are absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered {
        executed: u64,
        told: u64,
    },
    /// Never executed, and the node hears that something failed.
    Failed {
        told: u64,
    },
    /// Executed, and the node hears that something failed; before or after.
    Unknown {
        executed: u64,
        told: u64,
    },
}

#[derive(Debug)]
pub struct Sql {
    plan: SqlPlan,
    chance: Chance,
    rows: BTreeMap<RowKeyBuf, SqlRow>,
    fenced: bool,
    down_until: u64,
    unreachable_until: Vec<u64>,
    calm: bool,
    pub late: u64,
    pub unknown: u64,
    pub fence_hits: u64,
    pub written: u64,
    /// Versions that somebody outside has given to rows.
    edited: BTreeMap<RowKeyBuf, Version>,
    /// Tombstones that were deleted, each at its newest version.
    purged: BTreeMap<RowKeyBuf, Version>,
}

impl Sql {
    #[must_use]
    pub fn new(plan: SqlPlan, mutant: Option<Mutant>, nodes: usize, universe: &[Row], chance: Chance) -> Self {
        let stored = universe.iter().filter_map(|row| {
            let (version, content) = row.stored?;
            Some((row.key.clone(), SqlRow { version, content: version.is_live().then_some(content) }))
        });
        Self {
            plan,
            chance,
            rows: stored.collect(),
            fenced: mutant != Some(Mutant::NoSqlFence),
            down_until: 0,
            unreachable_until: vec![0; nodes],
            calm: false,
            late: 0,
            unknown: 0,
            fence_hits: 0,
            written: 0,
            edited: BTreeMap::new(),
            purged: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn row(&self, key: &RowKeyBuf) -> SqlRow {
        self.rows.get(key).copied().unwrap_or(SqlRow { version: Version::NEVER, content: None })
    }

    /// Somebody outside raises a row's version, far above whatever memory may count to meanwhile. The content stays, so that
    /// histories can be judged without him.
    pub fn edit(&mut self, key: &RowKeyBuf) -> bool {
        let Some(held) = self.rows.get_mut(key) else { return false };
        held.version = Version(held.version.0 + held.version.0.signum() * EDIT_JUMP);
        self.edited.insert(key.clone(), held.version);
        true
    }

    /// Deletes tombstones that stand at exactly these versions.
    pub fn purge(&mut self, rows: &[(RowKeyBuf, Version)]) {
        for (row, version) in rows {
            if self.row(row).version == *version {
                self.rows.remove(row);
                self.purged.insert(row.clone(), *version);
            }
        }
    }

    /// Whether SQL has no such row because its tombstone was deleted, and that tombstone was no older than this version.
    #[must_use]
    pub fn is_purged(&self, key: &RowKeyBuf, magnitude: u64) -> bool {
        self.row(key).version == Version::NEVER
            && self.purged.get(key).is_some_and(|purged| purged.magnitude() >= magnitude)
    }

    /// The newest tombstone of the row that was deleted.
    #[must_use]
    pub fn purged(&self, key: &RowKeyBuf) -> Option<u64> {
        self.purged.get(key).map(|version| version.magnitude())
    }

    /// Whether what SQL holds of the row is the work of somebody outside.
    #[must_use]
    pub fn is_edited(&self, key: &RowKeyBuf) -> bool {
        self.edited.get(key) == Some(&self.row(key).version)
    }

    pub fn was_ever_edited(&self, key: &RowKeyBuf) -> bool {
        self.edited.contains_key(key)
    }

    pub fn go_down(&mut self, until: u64) {
        self.down_until = self.down_until.max(until);
    }

    pub fn cut_off(&mut self, node: usize, until: u64) {
        self.unreachable_until[node] = self.unreachable_until[node].max(until);
    }

    /// Works without a fault from now on.
    pub fn calm(&mut self) {
        self.calm = true;
        self.down_until = 0;
        self.unreachable_until.fill(0);
    }

    pub fn load_fate(&mut self, node: usize, now: u64) -> Fate {
        let (executed, told) = self.times(now);
        if self.is_away(node, now) || self.strikes(self.plan.fails_percent) {
            return Fate::Failed { told };
        }
        if self.strikes(self.plan.late_percent) {
            return Fate::Unknown { executed, told };
        }
        Fate::Answered { executed, told }
    }

    /// How long the answer to a question that was given up on takes to come after all.
    pub fn detour(&mut self) -> u64 {
        self.chance.between((MS, 3 * SECOND))
    }

    pub fn write_fate(&mut self, node: usize, now: u64) -> Fate {
        let (executed, told) = self.times(now);
        if self.is_away(node, now) || self.strikes(self.plan.fails_percent) {
            return Fate::Failed { told };
        }
        if self.strikes(self.plan.lost_before_percent) {
            self.unknown += 1;
            return Fate::Failed { told };
        }
        if self.strikes(self.plan.lost_after_percent) {
            self.unknown += 1;
            return Fate::Unknown { executed, told };
        }
        if self.strikes(self.plan.late_percent) {
            self.unknown += 1;
            self.late += 1;
            let executed = now + self.chance.between((GIVE_UP, 8 * SECOND));
            return Fate::Unknown { executed, told: now + GIVE_UP };
        }
        Fate::Answered { executed, told }
    }

    /// A purge names the version that it deletes, so it may come late in any run.
    pub fn purge_fate(&mut self, node: usize, now: u64) -> Fate {
        let (executed, told) = self.times(now);
        if self.is_away(node, now) || self.strikes(self.plan.fails_percent) {
            return Fate::Failed { told };
        }
        if self.strikes(PURGE_LATE_PERCENT) {
            return Fate::Unknown { executed: executed + self.chance.between((0, 2 * SECOND)), told };
        }
        Fate::Answered { executed, told }
    }

    /// How long after it was given up on a write may still be executed.
    #[must_use]
    pub fn lateness_ms(&self) -> u64 {
        if self.plan.late_percent == 0 { 1_000 } else { 8_500 }
    }

    pub fn answers_twice(&mut self) -> Option<u64> {
        self.strikes(self.plan.twice_percent).then(|| self.chance.between((MS, 900 * MS)))
    }

    fn times(&mut self, now: u64) -> (u64, u64) {
        let executed = now + self.chance.between(self.plan.latency);
        (executed, executed + self.chance.between(self.plan.latency))
    }

    fn is_away(&self, node: usize, now: u64) -> bool {
        now < self.down_until.max(self.unreachable_until[node])
    }

    fn strikes(&mut self, percent: u32) -> bool {
        self.chance.percent(percent) && !self.calm
    }

    #[must_use]
    pub fn load(&self, rows: &[RowKeyBuf]) -> Vec<LoadedRow> {
        let load = |key: &RowKeyBuf| {
            let held = self.row(key);
            let fields = held.content.map_or_else(Default::default, image_of);
            LoadedRow { row: key.clone(), version: held.version, fields }
        };
        rows.iter().map(load).collect()
    }

    /// Executes a write. A statement that comes late finds newer rows and must leave them alone.
    pub fn write(&mut self, rows: &[FlushRow]) -> Result<Vec<(RowKeyBuf, FlushResult)>, Violation> {
        let mut results = Vec::with_capacity(rows.len());
        for flush in rows {
            let result = match self.strikes(self.plan.refuses_percent) {
                true => FlushResult::Refused("the row was refused".to_owned()),
                false => self.upsert(flush)?,
            };
            results.push((flush.row.clone(), result));
        }
        Ok(results)
    }

    fn upsert(&mut self, flush: &FlushRow) -> Result<FlushResult, Violation> {
        let content = flush.version.is_live().then(|| content_of(flush.fields.view()));
        let (held, new) = (self.row(&flush.row), SqlRow { version: flush.version, content });
        sql_never_goes_backwards::check_same_content(&flush.row, &held, &new)?;
        if self.fenced && held.version.magnitude() >= new.version.magnitude() {
            self.fence_hits += u64::from(held.version != new.version);
            let is_newer = held.version.magnitude() > new.version.magnitude();
            return Ok(if is_newer { FlushResult::Newer(held.version) } else { FlushResult::Written });
        }
        sql_never_goes_backwards::check(&flush.row, &held, &new)?;
        self.written += 1;
        self.rows.insert(flush.row.clone(), new);
        Ok(FlushResult::Written)
    }
}

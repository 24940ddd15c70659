//! What one run of records is made of, besides its ground. Kinds of operations are on in one run and off in the next.

use shardine_model::{Conflict, WriteMode};
use shardine_shard::{MemoryLimits, Mutant};

use crate::chance::Chance;
use crate::clock::Believes;
use crate::ground::{
    DiskPlan, Fault as Struck, Ground, LOG_BYTES_SOFT, MS, NemesisPlan, NetPlan, Planted, SECOND, Span,
};
use crate::records::faults::Fault;
use crate::tenant::Own;
use crate::theme::Theme;

#[derive(Clone, Debug)]
pub struct Plan {
    pub mutant: Option<Mutant>,
    pub shards: u32,
    pub clients: usize,
    /// How often the first row that fits is taken, so that clients meet on it.
    pub hot_percent: u32,
    /// How often a client tries another node than the one it thinks to lead.
    pub stray_percent: u32,
    /// A client's pause between two operations.
    pub think: Span,
    pub tombstone_keep_ms: u64,
    pub limits: LimitPlan,
    pub tables: TablePlan,
    pub sql: SqlPlan,
    pub operations: Operations,
    /// One that no client has any business with.
    pub quiet_shard: Option<usize>,
}

/// How little may be in memory, and how much may wait for SQL.
#[derive(Clone, Copy, Debug)]
pub struct LimitPlan {
    pub memory: MemoryLimits,
    pub dirty_rows_hard: u64,
}

/// How tables meet SQL.
#[derive(Clone, Copy, Debug)]
pub struct TablePlan {
    pub delay_ms: u32,
    pub batch: u32,
    pub tombstone_keep_ms: u64,
    pub events_mode: WriteMode,
    pub users_mode: WriteMode,
    /// Who wins when somebody outside has changed a row.
    pub conflict: Conflict,
}

#[derive(Clone, Copy, Debug)]
pub struct SqlPlan {
    pub latency: Span,
    pub fails_percent: u32,
    pub lost_before_percent: u32,
    pub lost_after_percent: u32,
    /// Statements that the node has given up on and that are executed all the same, later; of loads, the answer comes
    /// later.
    pub late_percent: u32,
    pub refuses_percent: u32,
    /// Answers to loads that come twice, as from a driver that asks again. After a kick, a second answer is news from the
    /// past.
    pub twice_percent: u32,
}

/// How often each kind of operation is drawn; 0 leaves it out.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    pub get: u32,
    pub set: u32,
    pub set_if: u32,
    pub insert: u32,
    pub incr: u32,
    pub cas: u32,
    pub delete: u32,
    pub expire: u32,
    pub pair: u32,
    pub kick: u32,
    pub flush: u32,
    pub stale: u32,
    /// Of tables with SQL behind them, against the table without.
    pub sql_percent: u32,
    /// Clients that number their requests.
    pub numbered_percent: u32,
}

/// Draws everything. A seed stays the run that it was as long as the order of draws does.
#[must_use]
pub fn draw(seed: u64, mutant: Option<Mutant>, theme: Option<Theme>) -> (Ground<Fault>, Plan) {
    let mut chance = Chance::new(seed ^ 0x5eed_0000);
    let chance = &mut chance;
    let drawn = Theme::draw(chance);
    let theme = theme.or(drawn);
    let voters = if chance.percent(10) { 1 } else { 3 };
    let operations = operations(chance);
    let shards = if wants_two_shards(theme) || chance.percent(25) { 2 } else { 1 };
    let clients = 3 + chance.index(5);
    let faults_us = chance.between((12, 24)) * SECOND;
    let tick_skew_percent = chance.pick(&[2, 10, 45]);
    let hot_percent = chance.pick(&[0, 60, 60, 100]);
    let stray_percent = chance.pick(&[3, 10, 35]);
    let think = chance.pick(&[(0, 10 * MS), (5 * MS, 60 * MS), (20 * MS, 150 * MS)]);
    // Small, so that snapshots, truncation and installs happen in every second run.
    let snapshot_log_bytes = chance.pick(&[1_500, 4_000, 12_000, 1 << 20]);
    let window_entries = chance.pick(&[2, 10, 40, 1_000]);
    let tombstone_keep_ms = chance.pick(&[500, 3_000, 60_000]);
    let limits = limits(chance);
    let tables = tables(chance);
    let skew_ms = chance.pick(&[5, 200, 3_000]);
    let lanes = if chance.percent(if shards > 1 { 60 } else { 20 }) { 2 } else { 1 };
    let log_bytes_soft = chance.pick(&LOG_BYTES_SOFT);
    let is_watched = chance.percent(60);
    let stages_snapshots = chance.percent(50);
    let (net, disk) = (NetPlan::draw(chance), DiskPlan::draw(chance));
    let sql = sql(chance);
    let nemesis = NemesisPlan::draw(chance);
    let ground = Ground {
        seed,
        voters,
        machines: voters as usize,
        has_council: false,
        balances: false,
        groups: shards as usize,
        founded: shards as usize,
        faults_us,
        tick_skew_percent,
        snapshot_log_bytes,
        window_entries,
        compare_every_ms: 0,
        skew_ms,
        lanes,
        log_bytes_soft,
        is_watched,
        stages_snapshots,
        has_links: false,
        outbox_bytes: None,
        planted: mutant.and_then(planted),
        believes: believes(mutant),
        net,
        disk,
        nemesis,
    }
    .about(theme, chance)
    .with_council(&mut Chance::new(seed ^ 0xc0_0c11))
    .with_splits(theme, &mut Chance::new(seed ^ 0x5b_117))
    .with_links(theme, &mut Chance::new(seed ^ 0x11_1ce5))
    .balancing(mutant.is_none(), &mut Chance::new(seed ^ 0xba1a));
    let plan = Plan {
        mutant,
        shards,
        clients,
        hot_percent,
        stray_percent,
        think,
        tombstone_keep_ms,
        limits,
        tables,
        sql,
        operations,
        quiet_shard: None,
    }
    .about(theme);
    (ground, plan)
}

impl Ground<Fault> {
    /// Shards are split where that is what the run is about.
    fn with_splits(mut self, theme: Option<Theme>, chance: &mut Chance) -> Self {
        if theme == Some(Theme::Splits) {
            self.groups += 1 + chance.index(3);
            let often = self.nemesis.kinds.len() / 2;
            self.nemesis.kinds.extend((0..=often).map(|_| Struck::Own(Fault::Split)));
            if chance.percent(50) {
                self.nemesis.kinds.extend((0..2).map(|_| Struck::Own(chance.pick(Fault::ALL))));
            }
        }
        self
    }
}

/// A disk that is busy with another group, and a lane with nothing to say.
fn wants_two_shards(theme: Option<Theme>) -> bool {
    match theme {
        Some(Theme::Lagging | Theme::QuietLane) => true,
        None | Some(Theme::HandingOver | Theme::Deceived | Theme::Astray | Theme::Members | Theme::Splits) => false,
    }
}

impl Plan {
    /// The same plan, with people who do what a theme needs.
    fn about(mut self, theme: Option<Theme>) -> Self {
        match theme {
            None => {}
            Some(Theme::Lagging) => self.think = (0, 10 * MS),
            // Whatever is proposed for SQL's sake: loads, evictions, kicks, what was written.
            Some(Theme::HandingOver) => {
                (self.think, self.hot_percent) = ((0, 10 * MS), 0);
                self.limits.memory.bytes_max = 60;
                let (sql_percent, numbered_percent) = (90, self.operations.numbered_percent);
                self.operations =
                    Operations { get: 10, set: 5, kick: 8, sql_percent, numbered_percent, ..self.operations };
            }
            Some(Theme::QuietLane) => {
                self.think = (0, 2 * MS);
                self.operations = Operations { set: 20, incr: 20, ..self.operations };
                self.quiet_shard = Some(1);
            }
            Some(Theme::Astray) => {
                (self.think, self.hot_percent) = ((5 * MS, 60 * MS), 100);
                self.operations = Operations { get: 10, set: 2, expire: 8, delete: 0, ..self.operations };
            }
            Some(Theme::Members) => self.think = (5 * MS, 60 * MS),
            Some(Theme::Splits) => (self.think, self.hot_percent) = ((0, 20 * MS), 0),
            Some(Theme::Deceived) => {
                (self.think, self.hot_percent, self.stray_percent) = ((0, 10 * MS), 100, 35);
                self.operations = Operations { get: 10, set: 10, stale: 0, sql_percent: 0, ..self.operations };
            }
        }
        self
    }
}

fn limits(chance: &mut Chance) -> LimitPlan {
    let memory = MemoryLimits {
        bytes_max: chance.pick(&[0, 0, 60, 160]),
        absent_rows_max: chance.pick(&[1, 100]),
        absent_keep_ms: chance.pick(&[300, 60_000]),
    };
    LimitPlan { memory, dirty_rows_hard: chance.pick(&[2, 1_000, 1_000]) }
}

fn tables(chance: &mut Chance) -> TablePlan {
    TablePlan {
        delay_ms: chance.pick(&[0, 0, 700]),
        batch: chance.pick(&[1, 1_000]),
        tombstone_keep_ms: chance.pick(&[500, 500, 3_600_000]),
        events_mode: chance.pick(&[WriteMode::Behind, WriteMode::Behind, WriteMode::OnEvict]),
        conflict: chance.pick(&[Conflict::CacheWins, Conflict::CacheWins, Conflict::SqlWins, Conflict::Stop]),
        users_mode: chance.pick(&[WriteMode::Behind, WriteMode::Behind, WriteMode::Through]),
    }
}

fn sql(chance: &mut Chance) -> SqlPlan {
    let troubled = chance.percent(60);
    let rate =
        |chance: &mut Chance, max: u64| if troubled && chance.percent(60) { chance.below(max) as u32 } else { 0 };
    SqlPlan {
        latency: chance.pick(&[(300, 2 * MS), (2 * MS, 30 * MS), (20 * MS, 300 * MS)]),
        fails_percent: rate(chance, 25),
        lost_before_percent: rate(chance, 20),
        lost_after_percent: rate(chance, 20),
        late_percent: rate(chance, 30),
        refuses_percent: rate(chance, 15),
        twice_percent: chance.pick(&[0, 0, 40]),
    }
}

fn operations(chance: &mut Chance) -> Operations {
    let weight = |chance: &mut Chance, on_percent: u32, max: u64| {
        if chance.percent(on_percent) { 1 + chance.below(max) as u32 } else { 0 }
    };
    Operations {
        get: 1 + weight(chance, 90, 20),
        set: 1 + weight(chance, 90, 10),
        set_if: weight(chance, 50, 4),
        insert: weight(chance, 60, 4),
        incr: weight(chance, 80, 12),
        cas: weight(chance, 70, 6),
        delete: weight(chance, 60, 4),
        expire: weight(chance, 40, 3),
        pair: weight(chance, 50, 6),
        kick: weight(chance, 65, 8),
        flush: weight(chance, 40, 2),
        stale: weight(chance, 50, 6),
        sql_percent: chance.pick(&[0, 40, 70, 90]),
        numbered_percent: chance.pick(&[0, 50, 100]),
    }
}

fn believes(mutant: Option<Mutant>) -> Believes {
    match mutant {
        Some(Mutant::BelievesAllClocks) => Believes::All,
        Some(Mutant::BelievesWallAtStart) => Believes::AtStart,
        _ => Believes::Sound,
    }
}

/// Bugs of the list that are planted around replicas.
fn planted(mutant: Mutant) -> Option<Planted> {
    Some(match mutant {
        Mutant::TruncateBeforeSnapshot => Planted::CutsLogEarly,
        Mutant::QuietLane => Planted::QuietLane,
        Mutant::SameNumberAgain => Planted::SameNumberAgain,
        Mutant::BornBeforeApplied => Planted::BornBeforeApplied,
        Mutant::ResetBeforeRename => Planted::Store(shardine_store::Mutant::ResetBeforeRename),
        Mutant::InstallBeforeEarlierWrites => Planted::Store(shardine_store::Mutant::InstallBeforeEarlierWrites),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_plan() {
        let plan = |seed| format!("{:?}", draw(seed, None, None));

        assert_eq!(plan(11), plan(11));
        assert_ne!(plan(11), plan(12));
    }
}

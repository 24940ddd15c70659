//! What one run is made of. Everything is drawn from the seed; whole classes of faults and kinds of operations are on in
//! one run and off in the next, because a run with everything on hides what only shows when little happens.

use shardine_model::{Conflict, WriteMode};
use shardine_shard::{MemoryLimits, Mutant};

use crate::chance::Chance;

pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000 * MS;

/// A range of microseconds to draw from.
pub type Span = (u64, u64);

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub mutant: Option<Mutant>,
    pub voters: u64,
    pub shards: u32,
    pub clients: usize,
    /// Length of the phase with faults.
    pub faults_us: u64,
    /// How far the timers of nodes are from ten ticks a second: a leader whose timer is slow notices late that it is alone.
    pub tick_skew_percent: u64,
    /// How often the first row that fits is taken, so that clients meet on it.
    pub hot_percent: u32,
    /// How often a client tries another node than the one it thinks to lead.
    pub stray_percent: u32,
    /// A client's pause between two operations.
    pub think: Span,
    pub snapshot_log_bytes: u64,
    pub window_entries: u64,
    pub tombstone_keep_ms: u64,
    pub limits: LimitPlan,
    pub tables: TablePlan,
    /// Wall clocks of nodes stay within this of the truth.
    pub skew_ms: u64,
    /// Whether gathered requests are proposed at once or wait for the log, as in the server.
    pub eager: bool,
    pub net: NetPlan,
    pub disk: DiskPlan,
    pub sql: SqlPlan,
    pub nemesis: NemesisPlan,
    pub operations: Operations,
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
pub struct NetPlan {
    pub delay: Span,
    pub loss_per_mille: u32,
    pub copy_per_mille: u32,
    /// Messages that take the long way and are overtaken.
    pub detour_per_mille: u32,
    pub detour: Span,
    /// Requests and answers between clients and nodes that are lost.
    pub client_loss_per_mille: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct DiskPlan {
    pub sync: Span,
    pub snapshot: Span,
    /// What a slow disk adds while it is slow.
    pub stall: Span,
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

#[derive(Clone, Debug)]
pub struct NemesisPlan {
    pub every: Span,
    pub kinds: Vec<Fault>,
    /// How often the victim is a leader.
    pub leader_percent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Crash,
    CrashAll,
    /// The process dies while a write is on its way to disk.
    CrashMidWrite,
    Pause,
    /// The process stops right after it has asked the others, for a read, whether it still leads.
    PauseMidRead,
    /// At the same moment the node loses touch: it is not heard, what is sent to it comes late, and so do its timers.
    StarveMidRead,
    /// Cut off from the others, both ways.
    Isolate,
    /// Hears the others and is not heard, or the other way round.
    Deafen,
    CutOneLink,
    Clog,
    /// Down for so long that the others cut their logs meanwhile.
    LongAbsence,
    SlowDisk,
    JumpClock,
    SqlDown,
    SqlUnreachable,
    /// Somebody outside changes a row in SQL.
    SqlEdited,
    /// An operator suspends a shard, and resumes it later.
    Suspend,
    /// An operator gives a dead letter up.
    Discard,
}

const FAULTS: [Fault; 18] = [
    Fault::Crash,
    Fault::CrashAll,
    Fault::CrashMidWrite,
    Fault::Pause,
    Fault::PauseMidRead,
    Fault::StarveMidRead,
    Fault::Isolate,
    Fault::Deafen,
    Fault::CutOneLink,
    Fault::Clog,
    Fault::LongAbsence,
    Fault::SlowDisk,
    Fault::JumpClock,
    Fault::SqlDown,
    Fault::SqlUnreachable,
    Fault::SqlEdited,
    Fault::Suspend,
    Fault::Discard,
];

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

impl Plan {
    #[must_use]
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut chance = Chance::new(seed ^ 0x5eed_0000);
        let chance = &mut chance;
        let voters = if chance.percent(10) { 1 } else { 3 };
        let operations = operations(chance);
        Self {
            seed,
            mutant,
            voters,
            shards: if chance.percent(25) { 2 } else { 1 },
            clients: 3 + chance.index(5),
            faults_us: chance.between((12, 24)) * SECOND,
            tick_skew_percent: chance.pick(&[2, 10, 45]),
            hot_percent: chance.pick(&[0, 60]),
            stray_percent: chance.pick(&[3, 10, 35]),
            think: chance.pick(&[(0, 10 * MS), (5 * MS, 60 * MS), (20 * MS, 150 * MS)]),
            // Small, so that snapshots, truncation and installs happen in every second run.
            snapshot_log_bytes: chance.pick(&[1_500, 4_000, 12_000, 1 << 20]),
            window_entries: chance.pick(&[2, 10, 40, 1_000]),
            tombstone_keep_ms: chance.pick(&[500, 3_000, 60_000]),
            limits: limits(chance),
            tables: tables(chance),
            skew_ms: chance.pick(&[5, 200, 3_000]),
            eager: chance.percent(30),
            net: net(chance),
            disk: disk(chance),
            sql: sql(chance),
            nemesis: nemesis(chance),
            operations,
        }
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

fn net(chance: &mut Chance) -> NetPlan {
    let noisy = chance.percent(50);
    let rate = |chance: &mut Chance, max: u64| if noisy && chance.percent(70) { chance.below(max) as u32 } else { 0 };
    NetPlan {
        delay: chance.pick(&[(100, 400), (200, 3 * MS), (MS, 20 * MS)]),
        loss_per_mille: rate(chance, 100),
        copy_per_mille: rate(chance, 100),
        detour_per_mille: rate(chance, 80),
        detour: (20 * MS, chance.pick(&[100, 400, 2_500]) * MS),
        client_loss_per_mille: rate(chance, 30),
    }
}

fn disk(chance: &mut Chance) -> DiskPlan {
    DiskPlan {
        sync: chance.pick(&[(50, 300), (500, 4 * MS), (2 * MS, 30 * MS)]),
        snapshot: chance.pick(&[(MS, 20 * MS), (50 * MS, 800 * MS)]),
        stall: (20 * MS, 700 * MS),
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

fn nemesis(chance: &mut Chance) -> NemesisPlan {
    // Sometimes a few kinds again and again, sometimes many together.
    let on_percent = chance.pick(&[12, 45]);
    let mut kinds: Vec<Fault> = FAULTS.into_iter().filter(|_| chance.percent(on_percent)).collect();
    if kinds.is_empty() {
        kinds.push(chance.pick(&FAULTS));
    }
    NemesisPlan {
        every: chance.pick(&[(100 * MS, 900 * MS), (500 * MS, 3 * SECOND), (2 * SECOND, 6 * SECOND)]),
        kinds,
        leader_percent: chance.pick(&[30, 60, 90]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_plan() {
        let plan = |seed| format!("{:?}", Plan::new(seed, None));

        assert_eq!(plan(11), plan(11));
        assert_ne!(plan(11), plan(12));
    }
}

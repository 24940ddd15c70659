//! What is written, and what it cost. The same calls for every candidate.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::LogStore;

/// One turn of a lane, over and over.
pub struct Load {
    pub name: &'static str,
    pub groups: u32,
    pub entries: u64,
    pub entry_bytes: usize,
}

pub const LOADS: [Load; 3] = [
    Load { name: "A: 4 groups x 1 entry x 2 KiB", groups: 4, entries: 1, entry_bytes: 2 << 10 },
    Load { name: "B: 4 groups x 1 entry x 16 KiB", groups: 4, entries: 1, entry_bytes: 16 << 10 },
    Load { name: "C: 16 groups x 4 entries x 256 B", groups: 16, entries: 4, entry_bytes: 256 },
];

/// Every so many bytes the groups are truncated, as snapshots would do it.
const TRUNCATE_BYTES: usize = 64 << 20;

/// What one run cost.
pub struct Measured {
    pub writes_per_second: f64,
    pub cpu_us: f64,
    /// The part of it that the writing thread spent; the rest is the store's own threads.
    pub caller_cpu_us: f64,
    pub median_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
}

/// Bytes written before the measurement begins: enough that every store has taken the space that it will write over.
const WARM_UP_BYTES: usize = 160 << 20;

/// Writes for a while. The time for truncation counts as the caller sees it: in writes per second, not in a write's latency.
pub fn run(store: &dyn LogStore, load: &Load, time: Duration) -> Result<Measured> {
    let mut next = warm_up(store, load.groups)?;
    let data = payload(load.entry_bytes);
    let mut took = Vec::new();
    let cpu_before = cpu_time()?;
    let caller_before = caller_cpu_time()?;
    let begin = Instant::now();
    let mut bytes = 0;
    while begin.elapsed() < time {
        let writes = turn(load, next, &data);
        next += load.entries;
        let before = Instant::now();
        store.write(&writes)?;
        took.push(before.elapsed());
        bytes += load.groups as usize * load.entries as usize * load.entry_bytes;
        if bytes > TRUNCATE_BYTES {
            bytes = 0;
            for shard in 1..=load.groups {
                store.truncate_before(ShardId(shard), next - 1)?;
            }
        }
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu_us = (cpu_time()? - cpu_before).as_secs_f64() * 1e6;
    let caller_cpu_us = (caller_cpu_time()? - caller_before).as_secs_f64() * 1e6;
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    Ok(Measured {
        writes_per_second: took.len() as f64 / elapsed,
        cpu_us: cpu_us / took.len() as f64,
        caller_cpu_us: caller_cpu_us / took.len() as f64,
        median_us: at(0.5),
        p99_us: at(0.99),
        worst_us: at(1.0),
    })
}

/// Writes large turns, truncates, and returns the index that comes next.
fn warm_up(store: &dyn LogStore, groups: u32) -> Result<u64> {
    let load = Load { name: "warm-up", groups, entries: 1, entry_bytes: (1 << 20) / groups as usize };
    let turns = (WARM_UP_BYTES >> 20) as u64;
    fill(store, &load, turns)?;
    for shard in 1..=groups {
        store.truncate_before(ShardId(shard), turns)?;
    }
    Ok(turns + 1)
}

/// Writes so many turns and keeps all of them.
pub fn fill(store: &dyn LogStore, load: &Load, writes: u64) -> Result<()> {
    let data = payload(load.entry_bytes);
    for write in 0..writes {
        store.write(&turn(load, 1 + write * load.entries, &data))?;
    }
    Ok(())
}

fn turn(load: &Load, next: u64, data: &Bytes) -> Vec<LogWrite> {
    (1..=load.groups)
        .map(|shard| LogWrite {
            shard: ShardId(shard),
            replica: ReplicaId(1),
            entries: (next..next + load.entries)
                .map(|index| LogEntry { index, term: 1, kind: LogEntryKind::Normal, data: data.clone() })
                .collect(),
            hard_state: Some(HardState { term: 1, vote: ReplicaId(1), commit: next - 1 }),
        })
        .collect()
}

/// Bytes that do not repeat soon.
fn payload(bytes: usize) -> Bytes {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Time that the threads of this process have been on a processor. Threads that have ended are not in it.
fn cpu_time() -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir("/proc/self/task")? {
        total += on_cpu(&task?.path().join("schedstat"))?;
    }
    Ok(total)
}

fn caller_cpu_time() -> Result<Duration> {
    on_cpu(Path::new("/proc/thread-self/schedstat"))
}

fn on_cpu(schedstat: &Path) -> Result<Duration> {
    let text = fs::read_to_string(schedstat)?;
    let nanoseconds = text.split(' ').next().context("schedstat has fields")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

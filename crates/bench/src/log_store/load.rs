//! What is written, and what it cost. The same calls for every candidate.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};

use super::store::LogStore;

/// One turn of a lane, over and over, by one lane or by several at once. Each has groups of its own.
pub struct Load {
    pub name: &'static str,
    pub writers: u32,
    pub groups: u32,
    pub entries: u64,
    pub entry_bytes: usize,
}

pub const LOADS: [Load; 5] = [
    Load { name: "A: 4 groups x 1 entry x 2 KiB", writers: 1, groups: 4, entries: 1, entry_bytes: 2 << 10 },
    Load { name: "B: 4 groups x 1 entry x 16 KiB", writers: 1, groups: 4, entries: 1, entry_bytes: 16 << 10 },
    Load { name: "C: 16 groups x 4 entries x 256 B", writers: 1, groups: 16, entries: 4, entry_bytes: 256 },
    Load { name: "D: as A, by 2 writers", writers: 2, groups: 4, entries: 1, entry_bytes: 2 << 10 },
    Load { name: "E: as A, by 4 writers", writers: 4, groups: 4, entries: 1, entry_bytes: 2 << 10 },
];

/// Every so many bytes the groups are truncated, as snapshots would do it.
const TRUNCATE_BYTES: usize = 64 << 20;

/// What one run cost.
pub struct Measured {
    pub writes_per_second: f64,
    /// Zero where it cannot be told.
    pub syncs_per_second: f64,
    pub cpu_us: f64,
    /// The part of it that the writing threads spent; the rest is the store's own threads.
    pub caller_cpu_us: f64,
    pub median_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
}

/// Bytes written before the measurement begins: enough that every store has taken the space that it will write over.
const WARM_UP_BYTES: usize = 160 << 20;

/// Writes for a while. The time for truncation counts as the caller sees it: in writes per second, not in a write's latency.
pub fn run(store: &dyn LogStore, load: &Load, time: Duration) -> Result<Measured> {
    let next = warm_up(store, load.writers * load.groups)?;
    let (cpu_before, syncs_before) = (cpu_time()?, store.syncs());
    // The writers end together, when the processor time of all threads has been read.
    let line = Barrier::new(load.writers as usize + 1);
    let begin = Instant::now();
    let (mut took, mut caller_cpu, mut cpu, mut elapsed) = (Vec::new(), Duration::ZERO, Duration::ZERO, 0.0);
    std::thread::scope(|scope| -> Result<()> {
        let write = |writer| {
            let written = write(store, load, writer, next, begin, time);
            line.wait();
            line.wait();
            written
        };
        let writers: Vec<_> = (0..load.writers).map(|writer| scope.spawn(move || write(writer))).collect();
        line.wait();
        elapsed = begin.elapsed().as_secs_f64();
        let read = cpu_time();
        line.wait();
        cpu = read? - cpu_before;
        for writer in writers {
            let (times, spent) = writer.join().expect("a writer does not panic")?;
            took.extend(times);
            caller_cpu += spent;
        }
        Ok(())
    })?;
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    let syncs = store.syncs().zip(syncs_before).map_or(0, |(after, before)| after - before);
    Ok(Measured {
        writes_per_second: took.len() as f64 / elapsed,
        syncs_per_second: syncs as f64 / elapsed,
        cpu_us: cpu.as_secs_f64() * 1e6 / took.len() as f64,
        caller_cpu_us: caller_cpu.as_secs_f64() * 1e6 / took.len() as f64,
        median_us: at(0.5),
        p99_us: at(0.99),
        worst_us: at(1.0),
    })
}

/// What one lane does. Returns how long each write took, and the processor time of them all.
fn write(
    store: &dyn LogStore,
    load: &Load,
    writer: u32,
    mut next: u64,
    begin: Instant,
    time: Duration,
) -> Result<(Vec<Duration>, Duration)> {
    let data = payload(load.entry_bytes);
    let shards: Vec<ShardId> = (1..=load.groups).map(|group| ShardId(writer * load.groups + group)).collect();
    let mut took = Vec::new();
    let cpu_before = caller_cpu_time()?;
    let mut bytes = 0;
    while begin.elapsed() < time {
        let writes = turn(load, &shards, next, &data);
        next += load.entries;
        let before = Instant::now();
        store.write(writes)?;
        took.push(before.elapsed());
        bytes += load.groups as usize * load.entries as usize * load.entry_bytes;
        if bytes > TRUNCATE_BYTES {
            bytes = 0;
            store.truncate_before(&shards, next - 1)?;
        }
    }
    Ok((took, caller_cpu_time()? - cpu_before))
}

/// Writes large turns, truncates, and returns the index that comes next.
fn warm_up(store: &dyn LogStore, groups: u32) -> Result<u64> {
    let load = Load { name: "warm-up", writers: 1, groups, entries: 1, entry_bytes: (1 << 20) / groups as usize };
    let turns = (WARM_UP_BYTES >> 20) as u64;
    fill(store, &load, turns)?;
    let shards: Vec<ShardId> = (1..=groups).map(ShardId).collect();
    store.truncate_before(&shards, turns)?;
    Ok(turns + 1)
}

/// Writes so many turns and keeps all of them.
pub fn fill(store: &dyn LogStore, load: &Load, writes: u64) -> Result<()> {
    let data = payload(load.entry_bytes);
    let shards: Vec<ShardId> = (1..=load.groups).map(ShardId).collect();
    for write in 0..writes {
        store.write(turn(load, &shards, 1 + write * load.entries, &data))?;
    }
    Ok(())
}

fn turn(load: &Load, shards: &[ShardId], next: u64, data: &Bytes) -> Vec<LogWrite> {
    shards
        .iter()
        .map(|&shard| LogWrite {
            shard,
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

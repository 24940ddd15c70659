//! How long a snapshot cut holds up a shard of a million records: the longest single step, with writes going on, and the
//! longest write with and without a cut. Asserts nothing, because a machine has other things to do; what it did for others
//! meanwhile is not in the CPU time that is told beside.

use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use shardine_model::command::Action;
use shardine_model::entry::open_commands;
use shardine_model::table::KV;
use shardine_model::{Command, FieldRef, FieldValue, Request, RequestEpoch, RowKey, Timestamp, ValueRef};
use shardine_records::{CutStep, Nobody, Records};

const RECORDS: u64 = 1_000_000;
/// Records written between two steps of the cut, spread over all positions.
const WRITES_BETWEEN: u64 = 64;
/// Rounds of such writes before the first cut, to compare with: about as many as a cut has steps.
const ROUNDS_BEFORE: u64 = 2_000;
/// The first one also pays for what loading has left over, which the allocator gives back to the system at a moment of its own.
const CUTS: usize = 4;
/// The server's, and how many pass between two cuts.
const TICK: Duration = Duration::from_millis(100);
const TICKS_BETWEEN: u64 = 20;

/// The server's. Another one may give all the memory of a snapshot back to the system at its end, in one go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn main() -> anyhow::Result<()> {
    let mut records = Records::new(1);
    for number in 0..RECORDS {
        write(&mut records, number)?;
    }
    let mut longest_write = Longest::default();
    for round in 0..ROUNDS_BEFORE {
        write_some(&mut records, round, &mut longest_write)?;
    }
    println!("{RECORDS} records; longest write with no cut {longest_write}");
    // As in the server: chunks are written, and let go, by a thread of their own.
    let (chunks, taken) = channel::<Vec<u8>>();
    let disk = std::thread::spawn(move || taken.iter().map(|chunk| chunk.len()).sum::<usize>());
    for number in 1..=CUTS {
        cut(&mut records, number, &chunks)?;
        rest(&mut records)?;
    }
    drop(chunks);
    disk.join().map(drop).map_err(|_| anyhow::anyhow!("the thread that takes the chunks has failed"))
}

#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn cut(records: &mut Records, number: usize, chunks: &Sender<Vec<u8>>) -> anyhow::Result<()> {
    let (mut longest_step, mut longest_write) = (Longest::default(), Longest::default());
    let (mut bytes, mut steps) = (0, 0u64);
    longest_step.time(|| records.begin_cut());
    while let CutStep::Chunk(chunk) = longest_step.time(|| records.cut_step()) {
        bytes += chunk.len();
        steps += 1;
        chunks.send(chunk)?;
        write_some(records, steps, &mut longest_write)?;
    }
    println!(
        "cut {number}: {steps} chunks, {bytes} bytes; longest step {longest_step}; longest write meanwhile {longest_write}"
    );
    Ok(())
}

/// Goes on writing until what the cut needed has been let go, a little at every tick, as in the server.
#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn rest(records: &mut Records) -> anyhow::Result<()> {
    let (mut longest_tick, mut longest_write) = (Longest::default(), Longest::default());
    let mut next_tick = Instant::now();
    for round in 0..TICKS_BETWEEN {
        while Instant::now() < next_tick {
            write_some(records, round, &mut longest_write)?;
        }
        next_tick += TICK;
        longest_tick.time(|| records.let_memory_go());
    }
    println!("afterwards: longest tick {longest_tick}; longest write meanwhile {longest_write}");
    Ok(())
}

/// Changes records all over the shard.
fn write_some(records: &mut Records, round: u64, longest: &mut Longest) -> anyhow::Result<()> {
    for place in 0..WRITES_BETWEEN {
        let number = round.wrapping_mul(7919).wrapping_add(place.wrapping_mul(104_729)) % RECORDS;
        longest.time(|| write(records, number))?;
    }
    Ok(())
}

/// The longest of many acts, by the clock on the wall and by the CPU time of this thread.
#[derive(Default)]
struct Longest {
    wall: Duration,
    cpu: Duration,
}

impl Longest {
    fn time<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let (start, cpu_before) = (Instant::now(), cpu_time());
        let given = act();
        self.cpu = self.cpu.max(cpu_time().saturating_sub(cpu_before));
        self.wall = self.wall.max(start.elapsed());
        given
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} ({:?} of CPU)", self.wall, self.cpu)
    }
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or(0))
}

fn write(records: &mut Records, number: u64) -> anyhow::Result<()> {
    let key = format!("user:{number:012}");
    let row = RowKey { table: KV, key: key.as_bytes(), sort: b"" };
    let field = |name, value| FieldValue { field: FieldRef::Name(name), value: ValueRef::Blob(value) };
    let fields = [field(b"name", b"bob"), field(b"age", b"10"), field(b"city", b"london")];
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(1), RequestEpoch::FIRST);
    Request::one(Command::plain(row, Action::Set(fields.into_iter().collect()))).encode(&mut entry);
    records.apply(&entry, &mut Nobody)?;
    Ok(())
}

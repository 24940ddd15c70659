//! How long a snapshot cut holds up a shard of a million records: the longest single step, with writes going on, and the
//! longest write with and without a cut. Asserts nothing, because a machine has other things to do.

use std::time::{Duration, Instant};

use shardine_model::command::Action;
use shardine_model::entry::open_commands;
use shardine_model::table::KV;
use shardine_model::{Command, FieldRef, FieldValue, Request, RowKey, Timestamp, ValueRef};
use shardine_records::{CutStep, Nobody, Records};

const RECORDS: u64 = 1_000_000;
/// Records written between two steps of the cut, spread over all positions.
const WRITES_BETWEEN: u64 = 64;
/// Rounds of such writes before the first cut, to compare with: about as many as a cut has steps.
const ROUNDS_BEFORE: u64 = 2_000;
/// The first one also pays for what loading has left over, which the allocator gives back to the system at a moment of its own.
const CUTS: usize = 4;

/// The server's. Another one may give all the memory of a snapshot back to the system at its end, in one go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn main() -> anyhow::Result<()> {
    let mut records = Records::new(1);
    for number in 0..RECORDS {
        write(&mut records, number)?;
    }
    let mut longest_write = Duration::ZERO;
    for round in 0..ROUNDS_BEFORE {
        longest_write = longest_write.max(write_some(&mut records, round)?);
    }
    println!("{RECORDS} records; longest write with no cut {longest_write:?}");
    for number in 1..=CUTS {
        cut(&mut records, number)?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn cut(records: &mut Records, number: usize) -> anyhow::Result<()> {
    let begun = timed(|| records.begin_cut()).1;
    let (mut longest_step, mut longest_write, mut bytes, mut steps) = (begun, Duration::ZERO, 0, 0u64);
    loop {
        let (step, took) = timed(|| records.cut_step());
        longest_step = longest_step.max(took);
        let CutStep::Chunk(chunk) = step else { break };
        bytes += chunk.len();
        steps += 1;
        longest_write = longest_write.max(write_some(records, steps)?);
    }
    println!(
        "cut {number}: {steps} chunks, {bytes} bytes, longest step {longest_step:?}, longest write meanwhile {longest_write:?}"
    );
    Ok(())
}

/// Changes records all over the shard; the longest that one took.
fn write_some(records: &mut Records, round: u64) -> anyhow::Result<Duration> {
    let mut longest = Duration::ZERO;
    for place in 0..WRITES_BETWEEN {
        let number = round.wrapping_mul(7919).wrapping_add(place.wrapping_mul(104_729)) % RECORDS;
        let (written, took) = timed(|| write(records, number));
        written?;
        longest = longest.max(took);
    }
    Ok(longest)
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let given = act();
    (given, start.elapsed())
}

fn write(records: &mut Records, number: u64) -> anyhow::Result<()> {
    let key = format!("user:{number:012}");
    let row = RowKey { table: KV, key: key.as_bytes(), sort: b"" };
    let field = |name, value| FieldValue { field: FieldRef::Name(name), value: ValueRef::Blob(value) };
    let fields = [field(b"name", b"bob"), field(b"age", b"10"), field(b"city", b"london")];
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(1));
    Request::one(Command::plain(row, Action::Set(fields.into_iter().collect()))).encode(&mut entry);
    records.apply(&entry, &mut Nobody)?;
    Ok(())
}

//! How long a snapshot cut holds up a shard of a million records: the longest single step, with writes going on.
//! Prints one line; asserts nothing, because a machine has other things to do.

use std::time::{Duration, Instant};

use shardine_model::command::Action;
use shardine_model::entry::open_commands;
use shardine_model::table::KV;
use shardine_model::{Command, FieldRef, FieldValue, Request, RowKey, Timestamp, ValueRef};
use shardine_records::{CutStep, Nobody, Records};

const RECORDS: u64 = 1_000_000;
/// Records written between two steps of the cut, spread over all positions.
const WRITES_BETWEEN: u64 = 64;

#[allow(clippy::print_stdout, reason = "a measurement is told to whoever ran it")]
fn main() -> anyhow::Result<()> {
    let mut records = Records::new(1);
    for number in 0..RECORDS {
        write(&mut records, number)?;
    }
    let begun = timed(|| records.begin_cut()).1;
    let (mut longest_step, mut longest_write, mut bytes, mut steps) = (begun, Duration::ZERO, 0, 0u64);
    loop {
        let (step, took) = timed(|| records.cut_step());
        longest_step = longest_step.max(took);
        let CutStep::Chunk(chunk) = step else { break };
        bytes += chunk.len();
        steps += 1;
        for write_number in 0..WRITES_BETWEEN {
            let number = steps.wrapping_mul(7919).wrapping_add(write_number.wrapping_mul(104_729)) % RECORDS;
            let (written, took) = timed(|| write(&mut records, number));
            written?;
            longest_write = longest_write.max(took);
        }
    }
    println!(
        "{RECORDS} records, {steps} chunks, {bytes} bytes: begin {begun:?}, longest step {longest_step:?}, \
         longest write during the cut {longest_write:?}"
    );
    Ok(())
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

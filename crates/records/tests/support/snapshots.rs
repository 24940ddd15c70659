//! Snapshots in memory.

use shardine_model::checksum::Sum;
use shardine_records::{CutStep, Records};

/// All chunks of a cut made now.
pub fn chunks(records: &mut Records) -> Vec<Vec<u8>> {
    records.begin_cut();
    rest_of_cut(records)
}

pub fn rest_of_cut(records: &mut Records) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    while let CutStep::Chunk(chunk) = records.cut_step() {
        chunks.push(chunk);
    }
    chunks
}

/// A replica made from chunks of our own.
pub fn restore(seed: u64, chunks: &[Vec<u8>]) -> Records {
    Records::new(seed).restored(chunks).expect("a snapshot of our own")
}

/// The sum of a state, from a cut that nothing comes between.
#[allow(dead_code, reason = "not every test that cuts also sums")]
pub fn sum(records: &mut Records) -> Sum {
    sum_of(&chunks(records))
}

#[allow(dead_code, reason = "not every test that cuts also sums")]
pub fn sum_of(chunks: &[Vec<u8>]) -> Sum {
    let mut summing = Records::summing();
    chunks.iter().for_each(|chunk| summing.push(chunk).expect("a chunk"));
    summing.finish().expect("a whole stream")
}

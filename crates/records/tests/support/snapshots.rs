//! Snapshots in memory.

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

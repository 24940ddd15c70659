//! Chunks of a snapshot that wait for their turn, in few large pieces of memory.
//!
//! While a cut runs, writes all over a shard can make nearly all of it wait at once. Memory of that size, let go in one
//! moment, is given back to the system in one moment too, and whoever writes then waits for it: 5 to 9 ms for 58 MB
//! (`docs/performance.md`, "Pauses"). So pieces are kept for the next chunk, and go one by one when the cut is over.

use std::collections::VecDeque;

/// The size of a piece. A chunk that is larger has a piece of its own.
const SLAB_BYTES: usize = 1 << 20;

/// A queue of chunks.
#[derive(Debug, Default)]
pub(crate) struct Slabs {
    used: VecDeque<Slab>,
    /// Empty ones.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Slab {
    bytes: Vec<u8>,
    /// Where the chunks end that were not taken yet.
    ends: VecDeque<usize>,
    taken: usize,
}

impl Slabs {
    /// Appends a chunk of about `expected` bytes, which `write` writes; says how many it has.
    pub fn push(&mut self, expected: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let has_room = |slab: &Slab| slab.bytes.capacity() - slab.bytes.len() >= expected;
        if !self.used.back().is_some_and(has_room) {
            let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(SLAB_BYTES));
            self.used.push_back(Slab { bytes, ends: VecDeque::new(), taken: 0 });
        }
        let slab = self.used.back_mut().expect("pushed above if there was none");
        let begin = slab.bytes.len();
        write(&mut slab.bytes);
        slab.ends.push_back(slab.bytes.len());
        slab.bytes.len() - begin
    }

    /// Appends the oldest chunk to `out`; says whether there was one.
    pub fn pop(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(slab) = self.used.front_mut() else { return false };
        let end = slab.ends.pop_front().expect("a slab without chunks is not kept");
        out.extend_from_slice(&slab.bytes[slab.taken..end]);
        slab.taken = end;
        if slab.ends.is_empty() {
            let done = self.used.pop_front().expect("looked at above");
            self.put_aside(done.bytes);
        }
        true
    }

    /// Forgets all chunks.
    pub fn clear(&mut self) {
        while let Some(slab) = self.used.pop_front() {
            self.put_aside(slab.bytes);
        }
    }

    /// Lets a little memory go.
    pub fn shrink(&mut self) {
        self.spare.pop();
    }

    /// One that had to grow for a large chunk is not worth keeping.
    fn put_aside(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= SLAB_BYTES {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u8, size: usize) -> Vec<u8> {
        vec![number; size]
    }

    fn pop(slabs: &mut Slabs) -> Option<Vec<u8>> {
        let mut chunk = Vec::new();
        slabs.pop(&mut chunk).then_some(chunk)
    }

    #[test]
    fn chunks_come_out_in_the_order_in_which_they_went_in() {
        let mut slabs = Slabs::default();
        let chunks: Vec<Vec<u8>> = (0..100).map(|number| chunk(number, 30_000 + usize::from(number))).collect();

        let mut out = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            slabs.push(30_000, |bytes| bytes.extend(chunk));
            if number % 3 == 0 {
                out.extend(pop(&mut slabs));
            }
        }
        out.extend(std::iter::from_fn(|| pop(&mut slabs)));

        assert_eq!(out, chunks);
    }

    #[test]
    fn memory_is_used_again_and_goes_piece_by_piece() {
        let mut slabs = Slabs::default();
        for round in 0..3 {
            for _ in 0..100 {
                slabs.push(100_000, |bytes| bytes.extend(chunk(round, 100_000)));
            }
            while pop(&mut slabs).is_some() {}
            assert_eq!(slabs.spare.len(), 10, "ten chunks to a piece, and as many pieces in every round");
        }

        slabs.shrink();

        assert_eq!(slabs.spare.len(), 9);
    }

    #[test]
    fn a_chunk_larger_than_expected_is_whole() {
        let mut slabs = Slabs::default();
        slabs.push(0, |bytes| bytes.extend(chunk(1, 10)));
        assert_eq!(slabs.push(10, |bytes| bytes.extend(chunk(2, 3 * SLAB_BYTES))), 3 * SLAB_BYTES);

        assert_eq!(pop(&mut slabs), Some(chunk(1, 10)));
        assert_eq!(pop(&mut slabs), Some(chunk(2, 3 * SLAB_BYTES)));
        assert!(slabs.spare.is_empty(), "a piece that has grown is let go");
    }
}

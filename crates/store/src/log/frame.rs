//! Frames: how one synced write lies in a segment. A head that tells whose sections follow, then the sections.
//!
//! ```text
//! frame     head | the contents of its sections, one after another
//! head      crc u32 | sections u32 | nonce u64 | number u64 | table     the crc covers the rest of the head
//! table     per section: shard u32 | replica u64 | length u32 | crc of the content u32
//! ```
//!
//! Numbers are little-endian. The head has a checksum of its own, so that damage in a section does not hide whose section
//! it was, nor where the next frame begins: it costs that shard, and no other. The nonce is drawn anew each time a
//! segment is written over, so a frame of the segment's earlier life is never taken for one of this life, nor is
//! anything a client sends us to keep. Knows nothing of what a section holds.

use bytes::Buf;
use memchr::memmem;
use shardine_model::ids::{ReplicaId, ShardId};

/// The head of a frame without sections.
pub(super) const HEAD_BYTES: usize = 4 + 4 + 8 + 8;
/// What a section adds to the head.
pub(super) const SECTION_BYTES: usize = 4 + 8 + 4 + 4;

/// One frame. Who writes keeps far below it; it is well inside the `u32` that carries a section's length.
pub(super) const BODY_BYTES_MAX: usize = 1 << 30;

/// The number of the frame that ends a segment when the next one is in place: higher than any other.
pub(super) const SEAL: u64 = u64::MAX;

const NONCE_AT: usize = 8;
const TABLE_AT: usize = HEAD_BYTES;

/// A frame under construction: one buffer from the first byte to the last. Its memory is kept for the next one.
pub(super) struct Builder {
    buffer: Vec<u8>,
    /// How many sections there is room for.
    announced: usize,
    /// Whose the sections are and where they begin.
    sections: Vec<(ShardId, ReplicaId, usize)>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; HEAD_BYTES], announced: 0, sections: Vec::new() }
    }

    /// Begins a frame of so many sections or fewer: the head comes first and must know its length.
    pub(super) fn begin(&mut self, sections: usize) {
        self.buffer.clear();
        self.buffer.resize(HEAD_BYTES + sections * SECTION_BYTES, 0);
        self.announced = sections;
        self.sections.clear();
    }

    /// Begins the next section; what is put into the buffer until the next one belongs to it.
    pub(super) fn section(&mut self, shard: ShardId, replica: ReplicaId) -> &mut Vec<u8> {
        assert!(self.sections.len() < self.announced, "the head has a place for each section");
        self.sections.push((shard, replica, self.buffer.len()));
        &mut self.buffer
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Fills in the head and returns the whole frame. Every byte goes through a checksum once.
    pub(super) fn seal(&mut self, nonce: u64, number: u64) -> &[u8] {
        self.drop_spare_places();
        assert!(self.buffer.len() - HEAD_BYTES <= BODY_BYTES_MAX, "a frame must be measured first");
        let mut end = self.buffer.len();
        for (place, &(shard, replica, start)) in self.sections.iter().enumerate().rev() {
            let crc = crc32fast::hash(&self.buffer[start..end]);
            let at = TABLE_AT + place * SECTION_BYTES;
            let row = &mut self.buffer[at..at + SECTION_BYTES];
            row[..4].copy_from_slice(&shard.0.to_le_bytes());
            row[4..12].copy_from_slice(&replica.0.to_le_bytes());
            row[12..16].copy_from_slice(&((end - start) as u32).to_le_bytes());
            row[16..].copy_from_slice(&crc.to_le_bytes());
            end = start;
        }
        self.buffer[4..8].copy_from_slice(&(self.announced as u32).to_le_bytes());
        self.buffer[NONCE_AT..16].copy_from_slice(&nonce.to_le_bytes());
        self.buffer[16..24].copy_from_slice(&number.to_le_bytes());
        let crc = crc32fast::hash(&self.buffer[4..end]);
        self.buffer[..4].copy_from_slice(&crc.to_le_bytes());
        &self.buffer
    }

    /// Closes the gap that sections leave which were announced and did not come.
    fn drop_spare_places(&mut self) {
        let spare = (self.announced - self.sections.len()) * SECTION_BYTES;
        if spare > 0 {
            let used = TABLE_AT + self.sections.len() * SECTION_BYTES;
            self.buffer.drain(used..used + spare);
            self.sections.iter_mut().for_each(|(_, _, start)| *start -= spare);
            self.announced = self.sections.len();
        }
    }

    /// Gives memory back after an unusually large write.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if self.buffer.capacity() > bytes {
            self.begin(0);
            self.buffer.shrink_to(bytes);
        }
    }
}

/// A frame whose head is whole. Its sections need not be.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) number: u64,
    pub(super) sections: Vec<Section<'a>>,
    /// The length of the whole frame.
    pub(super) bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub(super) shard: ShardId,
    pub(super) replica: ReplicaId,
    /// Where it begins, counted from the frame.
    pub(super) at: usize,
    /// `None` if it is not what was written.
    pub(super) content: Option<&'a [u8]>,
}

impl Frame<'_> {
    pub(super) fn is_whole(&self) -> bool {
        self.sections.iter().all(|section| section.content.is_some())
    }
}

/// The frame at the start of `bytes`, if the head of one of this segment's life is there, and room for its sections.
pub(super) fn read(bytes: &[u8], nonce: u64) -> Option<Frame<'_>> {
    let (number, mut table) = read_head(bytes, nonce)?;
    let mut end = TABLE_AT + table.len();
    let mut sections = Vec::with_capacity(table.len() / SECTION_BYTES);
    while table.has_remaining() {
        let (shard, replica) = (ShardId(table.get_u32_le()), ReplicaId(table.get_u64_le()));
        let (len, crc) = (table.get_u32_le() as usize, table.get_u32_le());
        let content = bytes.get(end..end.checked_add(len)?)?;
        let content = (crc32fast::hash(content) == crc).then_some(content);
        sections.push(Section { shard, replica, at: end, content });
        end += len;
    }
    Some(Frame { number, sections, bytes: end })
}

/// The number and the table of a head that is whole.
fn read_head(bytes: &[u8], nonce: u64) -> Option<(u64, &[u8])> {
    let mut fixed = bytes.get(..HEAD_BYTES)?;
    let crc = fixed.get_u32_le();
    let sections = fixed.get_u32_le() as usize;
    if fixed.get_u64_le() != nonce {
        return None;
    }
    let number = fixed.get_u64_le();
    let covered = bytes.get(4..TABLE_AT.checked_add(sections.checked_mul(SECTION_BYTES)?)?)?;
    (crc32fast::hash(covered) == crc).then(|| (number, &covered[TABLE_AT - 4..]))
}

/// The first frame anywhere in `bytes` whose head is whole and whose number is above `number`: its offset and number. A head is
/// proof enough that the frame was begun, and so that all frames before it were synced.
pub(super) fn find_above(bytes: &[u8], nonce: u64, number: u64) -> Option<(usize, u64)> {
    let needle = nonce.to_le_bytes();
    memmem::find_iter(bytes, &needle).filter_map(|at| at.checked_sub(NONCE_AT)).find_map(|start| {
        let (found, _) = read_head(&bytes[start..], nonce)?;
        (found > number).then_some((start, found))
    })
}

/// Whether a frame of this life was begun at the start of `bytes`, as far as one can tell.
pub(super) fn was_begun(bytes: &[u8], nonce: u64) -> bool {
    bytes.get(NONCE_AT..NONCE_AT + 8) == Some(nonce.to_le_bytes().as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0x1122_3344_5566_7788;

    fn sample() -> Vec<u8> {
        let mut builder = Builder::new();
        builder.begin(3);
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"lili");
        builder.section(ShardId(3), ReplicaId(6));
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"bob");
        builder.seal(NONCE, 7).to_vec()
    }

    fn contents(bytes: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
        let frame = read(bytes, NONCE)?;
        Some(frame.sections.iter().map(|section| section.content.map(<[u8]>::to_vec)).collect())
    }

    #[test]
    fn a_frame_has_these_bytes_for_ever() {
        let hex: String = sample().iter().map(|byte| format!("{byte:02x}")).collect();

        assert_eq!(
            hex,
            concat!(
                "a2ed9e79",                                 // crc of the head
                "03000000",                                 // three sections
                "8877665544332211",                         // nonce
                "0700000000000000",                         // number
                "020000000500000000000000040000005f9a94ea", // shard 2, replica 5, four bytes, crc
                "0300000006000000000000000000000000000000", // shard 3, replica 6, nothing
                "0200000005000000000000000300000040b1cbf5", // shard 2 again, three bytes, crc
                "6c696c69",                                 // lili
                "626f62",                                   // bob
            )
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = sample();

        let frame = read(&bytes, NONCE).unwrap();

        assert_eq!((frame.number, frame.bytes), (7, bytes.len()));
        assert!(frame.is_whole());
        let whose: Vec<_> = frame.sections.iter().map(|section| (section.shard.0, section.replica.0)).collect();
        assert_eq!(whose, [(2, 5), (3, 6), (2, 5)]);
        assert_eq!(contents(&bytes).unwrap(), [Some(b"lili".to_vec()), Some(Vec::new()), Some(b"bob".to_vec())]);
    }

    #[test]
    fn a_builder_remembers_nothing_of_the_frame_before() {
        let mut builder = Builder::new();
        builder.begin(2);
        builder.section(ShardId(9), ReplicaId(9)).extend_from_slice(&[0xff; 100]);
        builder.section(ShardId(9), ReplicaId(9)).extend_from_slice(&[0xff; 100]);
        builder.seal(1, 1);

        builder.begin(3);
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"lili");
        builder.section(ShardId(3), ReplicaId(6));
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"bob");

        assert_eq!(builder.seal(NONCE, 7), sample());
    }

    #[test]
    fn sections_that_did_not_come_leave_no_trace() {
        let mut builder = Builder::new();
        builder.begin(9);
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"lili");
        builder.section(ShardId(3), ReplicaId(6));
        builder.section(ShardId(2), ReplicaId(5)).extend_from_slice(b"bob");

        assert_eq!(builder.seal(NONCE, 7), sample());
    }

    #[test]
    fn a_frame_of_an_earlier_life_is_not_read() {
        assert!(read(&sample(), 1).is_none());
    }

    #[test]
    fn every_flipped_bit_is_noticed_in_the_head_or_in_its_section_alone() {
        let good = sample();
        let body_at = HEAD_BYTES + 3 * SECTION_BYTES;
        let whole = contents(&good).unwrap();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);

            let hit = match bit / 8 {
                byte if byte < body_at => None,
                byte if byte < body_at + 4 => Some(0),
                _ => Some(2),
            };
            let expected = hit.map(|hit| {
                let mut contents = whole.clone();
                contents[hit] = None;
                contents
            });
            assert_eq!(contents(&bad), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_not_read() {
        let good = sample();

        for len in 0..good.len() {
            assert!(read(&good[..len], NONCE).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn a_later_head_is_found_whatever_became_of_its_sections() {
        let mut bytes = vec![0xa5; 100];
        bytes.extend_from_slice(&sample()[..HEAD_BYTES + 3 * SECTION_BYTES]);

        assert_eq!(find_above(&bytes, NONCE, 6), Some((100, 7)));
        assert_eq!(find_above(&bytes, NONCE, 7), None);
        assert_eq!(find_above(&bytes[..bytes.len() - 1], NONCE, 6), None);
    }

    #[test]
    fn a_claimed_number_of_sections_is_not_believed() {
        let mut bytes = sample();
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());

        assert!(read(&bytes, NONCE).is_none());
    }
}

//! Frames: how one synced write lies in a segment. Bytes to records and back, nothing else.
//!
//! ```text
//! frame   crc u32 | body length u32 | nonce u64 | number u64 | body       the crc covers everything after itself
//! body    any number of: kind u8 | shard u32 | content
//! ```
//!
//! Numbers are little-endian. The nonce is drawn anew each time a segment is written over, so a frame of the
//! segment's earlier life is never taken for one of this life, nor is anything a client sends us to keep.

use bytes::{Buf, Bytes};
use memchr::memmem;
use shardine_model::ids::ShardId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind};

pub(super) const HEADER_BYTES: usize = 24;

/// One write. Far above what Raft hands over in a turn, and well inside the `u32` that carries the length.
pub(super) const BODY_BYTES_MAX: usize = 1 << 30;

/// The number of the frame that ends a segment when the next one is in place: higher than any other.
pub(super) const SEAL: u64 = u64::MAX;

// Kinds are frozen. A new one takes the next number, a retired one is not used again.
const KIND_ENTRIES: u8 = 1;
const KIND_HARD_STATE: u8 = 2;
const KIND_TRUNCATE: u8 = 3;
const KIND_RESET: u8 = 4;

const ENTRY_NORMAL: u8 = 0;
const ENTRY_MEMBERSHIP: u8 = 1;

const RECORD_HEADER_BYTES: usize = 1 + 4;
const ENTRIES_HEADER_BYTES: usize = 8 + 4;
const ENTRY_HEADER_BYTES: usize = 8 + 1 + 4;
const HARD_STATE_BYTES: usize = 3 * 8;

/// What a frame tells of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Entries {
        shard: ShardId,
        /// Never empty, indexes without gaps.
        entries: Vec<LogEntry>,
    },
    HardState {
        shard: ShardId,
        hard_state: HardState,
    },
    Truncate {
        shard: ShardId,
        index: u64,
    },
    Reset {
        shard: ShardId,
        hard_state: HardState,
    },
}

/// A frame under construction. Its memory is kept for the next one.
pub(super) struct Builder {
    buffer: Vec<u8>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; HEADER_BYTES] }
    }

    pub(super) fn clear(&mut self) {
        self.buffer.truncate(HEADER_BYTES);
    }

    /// Gives memory back after an unusually large write.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if self.buffer.capacity() > bytes {
            self.clear();
            self.buffer.shrink_to(bytes);
        }
    }

    /// The entries' indexes must follow each other: only the first is stored.
    pub(super) fn entries(&mut self, shard: ShardId, entries: &[LogEntry]) {
        let Some(first) = entries.first() else { return };
        self.record(KIND_ENTRIES, shard);
        self.u64(first.index);
        self.u32(entries.len());
        for entry in entries {
            self.u64(entry.term);
            self.buffer.push(match entry.kind {
                LogEntryKind::Normal => ENTRY_NORMAL,
                LogEntryKind::Membership => ENTRY_MEMBERSHIP,
            });
            self.u32(entry.data.len());
            self.buffer.extend_from_slice(&entry.data);
        }
    }

    pub(super) fn hard_state(&mut self, shard: ShardId, hard_state: HardState) {
        self.record(KIND_HARD_STATE, shard);
        self.hard_state_content(hard_state);
    }

    pub(super) fn truncate(&mut self, shard: ShardId, index: u64) {
        self.record(KIND_TRUNCATE, shard);
        self.u64(index);
    }

    pub(super) fn reset(&mut self, shard: ShardId, hard_state: HardState) {
        self.record(KIND_RESET, shard);
        self.hard_state_content(hard_state);
    }

    /// Fills in the header and returns the whole frame.
    pub(super) fn seal(&mut self, nonce: u64, number: u64) -> &[u8] {
        let body_len = self.buffer.len() - HEADER_BYTES;
        assert!(body_len <= BODY_BYTES_MAX, "a frame must be measured first");
        self.buffer[4..8].copy_from_slice(&(body_len as u32).to_le_bytes());
        self.buffer[8..16].copy_from_slice(&nonce.to_le_bytes());
        self.buffer[16..24].copy_from_slice(&number.to_le_bytes());
        let crc = crc32fast::hash(&self.buffer[4..]);
        self.buffer[..4].copy_from_slice(&crc.to_le_bytes());
        &self.buffer
    }

    fn record(&mut self, kind: u8, shard: ShardId) {
        self.buffer.push(kind);
        self.buffer.extend_from_slice(&shard.0.to_le_bytes());
    }

    fn hard_state_content(&mut self, hard_state: HardState) {
        self.u64(hard_state.term);
        self.u64(hard_state.vote);
        self.u64(hard_state.commit);
    }

    fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: usize) {
        let value = u32::try_from(value).expect("bounded by BODY_BYTES_MAX");
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }
}

/// The bytes that `entries` and `hard_state` will take in a body.
pub(super) fn measure(entries: &[LogEntry], hard_state: Option<HardState>) -> usize {
    let data: usize = entries.iter().map(|entry| ENTRY_HEADER_BYTES + entry.data.len()).sum();
    let entries_bytes = match data {
        0 => 0,
        data => RECORD_HEADER_BYTES + ENTRIES_HEADER_BYTES + data,
    };
    let hard_state_bytes = hard_state.map_or(0, |_| RECORD_HEADER_BYTES + HARD_STATE_BYTES);
    entries_bytes + hard_state_bytes
}

/// A frame that was found whole.
pub(super) struct Whole<'a> {
    pub(super) number: u64,
    pub(super) body: &'a [u8],
}

impl Whole<'_> {
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// The frame at the start of `bytes`, if there is a whole one of this segment's life.
pub(super) fn read(bytes: &[u8], nonce: u64) -> Option<Whole<'_>> {
    let mut header = bytes.get(..HEADER_BYTES)?;
    let crc = header.get_u32_le();
    let body_len = header.get_u32_le() as usize;
    if header.get_u64_le() != nonce {
        return None;
    }
    let number = header.get_u64_le();
    let covered = bytes.get(4..HEADER_BYTES.checked_add(body_len)?)?;
    (crc32fast::hash(covered) == crc).then(|| Whole { number, body: &covered[HEADER_BYTES - 4..] })
}

/// The first whole frame anywhere in `bytes` whose number is at least `number_min`, with its offset.
pub(super) fn find(bytes: &[u8], nonce: u64, number_min: u64) -> Option<(usize, u64)> {
    let needle = nonce.to_le_bytes();
    memmem::find_iter(bytes, &needle).filter_map(|at| at.checked_sub(8)).find_map(|start| {
        let frame = read(&bytes[start..], nonce)?;
        (frame.number >= number_min).then_some((start, frame.number))
    })
}

/// The records of a body. `None` if the bytes do not form records; the checksum was right, so a version that
/// this one does not know must have written them.
pub(super) fn decode(mut body: Bytes) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while body.has_remaining() {
        let kind = body.try_get_u8().ok()?;
        let shard = ShardId(body.try_get_u32_le().ok()?);
        records.push(match kind {
            KIND_ENTRIES => Record::Entries { shard, entries: decode_entries(&mut body)? },
            KIND_HARD_STATE => Record::HardState { shard, hard_state: decode_hard_state(&mut body)? },
            KIND_TRUNCATE => Record::Truncate { shard, index: body.try_get_u64_le().ok()? },
            KIND_RESET => Record::Reset { shard, hard_state: decode_hard_state(&mut body)? },
            _ => return None,
        });
    }
    Some(records)
}

fn decode_entries(body: &mut Bytes) -> Option<Vec<LogEntry>> {
    let first = body.try_get_u64_le().ok()?;
    let count = body.try_get_u32_le().ok()?;
    first.checked_add(u64::from(count))?;
    if count == 0 || count as usize > body.remaining() / ENTRY_HEADER_BYTES {
        return None;
    }
    (first..first + u64::from(count))
        .map(|index| {
            let term = body.try_get_u64_le().ok()?;
            let kind = match body.try_get_u8().ok()? {
                ENTRY_NORMAL => LogEntryKind::Normal,
                ENTRY_MEMBERSHIP => LogEntryKind::Membership,
                _ => return None,
            };
            let len = body.try_get_u32_le().ok()? as usize;
            let data = (len <= body.remaining()).then(|| body.split_to(len))?;
            Some(LogEntry { index, term, kind, data })
        })
        .collect()
}

pub(super) fn decode_hard_state(body: &mut impl Buf) -> Option<HardState> {
    Some(HardState {
        term: body.try_get_u64_le().ok()?,
        vote: body.try_get_u64_le().ok()?,
        commit: body.try_get_u64_le().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARD_STATE: HardState = HardState { term: 3, vote: 1, commit: 9 };

    fn entry(index: u64, kind: LogEntryKind, data: &'static [u8]) -> LogEntry {
        LogEntry { index, term: 3, kind, data: Bytes::from_static(data) }
    }

    fn sample() -> Vec<u8> {
        let entries = [entry(9, LogEntryKind::Normal, b"lili"), entry(10, LogEntryKind::Membership, b"")];
        let mut builder = Builder::new();
        builder.entries(ShardId(2), &entries);
        builder.hard_state(ShardId(2), HARD_STATE);
        builder.truncate(ShardId(3), 5);
        builder.reset(ShardId(4), HARD_STATE);
        assert_eq!(
            builder.buffer.len() - HEADER_BYTES,
            measure(&entries, Some(HARD_STATE)) + 13 + 29,
            "what is measured must be what is written"
        );
        builder.seal(0x1122_3344_5566_7788, 7).to_vec()
    }

    #[test]
    fn a_frame_has_these_bytes_for_ever() {
        let hex: String = sample().iter().map(|byte| format!("{byte:02x}")).collect();

        assert_eq!(
            hex,
            concat!(
                "1c423c04",                                                   // crc
                "76000000",                                                   // body length
                "8877665544332211",                                           // nonce
                "0700000000000000",                                           // number
                "0102000000",                                                 // entries of shard 2
                "090000000000000002000000",                                   // first 9, two of them
                "030000000000000000040000006c696c69",                         // term 3, normal, lili
                "03000000000000000100000000",                                 // term 3, membership, nothing
                "0202000000030000000000000001000000000000000900000000000000", // hard state of shard 2
                "03030000000500000000000000",                                 // truncate shard 3 before 5
                "0404000000030000000000000001000000000000000900000000000000", // reset shard 4
            )
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = sample();

        let frame = read(&bytes, 0x1122_3344_5566_7788).unwrap();
        let records = decode(Bytes::copy_from_slice(frame.body)).unwrap();

        assert_eq!(frame.number, 7);
        assert_eq!(frame.bytes(), bytes.len());
        assert_eq!(records.len(), 4);
        let Record::Entries { shard, entries } = &records[0] else {
            panic!("entries come first: {records:?}");
        };
        assert_eq!(*shard, ShardId(2));
        assert_eq!(entries[0], entry(9, LogEntryKind::Normal, b"lili"));
        assert_eq!(entries[1], entry(10, LogEntryKind::Membership, b""));
    }

    #[test]
    fn a_frame_of_an_earlier_life_is_not_whole() {
        assert!(read(&sample(), 1).is_none());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = sample();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);

            assert!(read(&bad, 0x1122_3344_5566_7788).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_body_cut_anywhere_never_panics() {
        let bytes = sample();
        let body = Bytes::copy_from_slice(&bytes[HEADER_BYTES..]);

        for len in 0..body.len() {
            let _ = decode(body.slice(..len));
        }
    }
}

//! Records: what a frame tells of one group. Bytes to records and back; whose they are and whether they are whole is told
//! by the frame around them.
//!
//! ```text
//! entries     1u8 | first index u64 | count u32 | per entry: term u64, kind u8, length u32, data
//! hard state  2u8 | term u64 | vote u64 | commit u64
//! truncate    3u8 | first index kept u64
//! reset       4u8 | term u64 | vote u64 | commit u64 | index of the snapshot u64
//! remove      5u8
//! ```

use bytes::{Buf, Bytes};
use shardine_model::ReplicaId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind};

// Kinds are frozen. A new one takes the next number, a retired one is not used again.
const KIND_ENTRIES: u8 = 1;
const KIND_HARD_STATE: u8 = 2;
const KIND_TRUNCATE: u8 = 3;
const KIND_RESET: u8 = 4;
const KIND_REMOVE: u8 = 5;

const ENTRY_NORMAL: u8 = 0;
const ENTRY_MEMBERSHIP: u8 = 1;

const KIND_BYTES: usize = 1;
/// What stands before entries.
pub(super) const ENTRIES_BYTES: usize = KIND_BYTES + 8 + 4;
const ENTRY_HEADER_BYTES: usize = 8 + 1 + 4;
const HARD_STATE_BYTES: usize = 3 * 8;

/// The longest record without entries.
pub(super) const SHORT_BYTES_MAX: usize = KIND_BYTES + HARD_STATE_BYTES + 8;

/// What happened to one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Never empty, indexes without gaps.
    Entries(Vec<LogEntry>),
    HardState(HardState),
    /// Entries below this index are forgotten.
    Truncate(u64),
    /// All entries are forgotten: a snapshot holds everything up to this index.
    Reset {
        hard_state: HardState,
        index: u64,
    },
    /// The replica is gone for good.
    Remove,
}

/// The bytes that `entries` and `hard_state` will take. Nothing if there is nothing to write.
pub(super) fn measure(entries: &[LogEntry], hard_state: Option<HardState>) -> usize {
    let entries_bytes = match entries.iter().map(entry_bytes).sum() {
        0 => 0,
        data => ENTRIES_BYTES + data,
    };
    entries_bytes + hard_state.map_or(0, |_| KIND_BYTES + HARD_STATE_BYTES)
}

pub(super) fn entry_bytes(entry: &LogEntry) -> usize {
    ENTRY_HEADER_BYTES + entry.data.len()
}

/// The entries' indexes must follow each other: only the first is stored.
pub(super) fn put_entries(out: &mut Vec<u8>, entries: &[LogEntry]) {
    let Some(first) = entries.first() else { return };
    out.push(KIND_ENTRIES);
    out.extend_from_slice(&first.index.to_le_bytes());
    put_len(out, entries.len());
    for entry in entries {
        out.extend_from_slice(&entry.term.to_le_bytes());
        out.push(match entry.kind {
            LogEntryKind::Normal => ENTRY_NORMAL,
            LogEntryKind::Membership => ENTRY_MEMBERSHIP,
        });
        put_len(out, entry.data.len());
        out.extend_from_slice(&entry.data);
    }
}

pub(super) fn put_hard_state(out: &mut Vec<u8>, hard_state: HardState) {
    out.push(KIND_HARD_STATE);
    put_hard_state_content(out, hard_state);
}

pub(super) fn put_truncate(out: &mut Vec<u8>, index: u64) {
    out.push(KIND_TRUNCATE);
    out.extend_from_slice(&index.to_le_bytes());
}

pub(super) fn put_reset(out: &mut Vec<u8>, hard_state: HardState, index: u64) {
    out.push(KIND_RESET);
    put_hard_state_content(out, hard_state);
    out.extend_from_slice(&index.to_le_bytes());
}

pub(super) fn put_remove(out: &mut Vec<u8>) {
    out.push(KIND_REMOVE);
}

fn put_hard_state_content(out: &mut Vec<u8>, hard_state: HardState) {
    for number in [hard_state.term, hard_state.vote.0, hard_state.commit] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a frame is measured before it is filled");
    out.extend_from_slice(&len.to_le_bytes());
}

/// The records of a section. `None` if the bytes do not form records; the checksum was right, so a version that
/// this one does not know must have written them.
pub(super) fn decode(mut content: Bytes) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while content.has_remaining() {
        records.push(match content.try_get_u8().ok()? {
            KIND_ENTRIES => Record::Entries(decode_entries(&mut content)?),
            KIND_HARD_STATE => Record::HardState(decode_hard_state(&mut content)?),
            KIND_TRUNCATE => Record::Truncate(content.try_get_u64_le().ok()?),
            KIND_RESET => {
                Record::Reset { hard_state: decode_hard_state(&mut content)?, index: content.try_get_u64_le().ok()? }
            }
            KIND_REMOVE => Record::Remove,
            _ => return None,
        });
    }
    Some(records)
}

fn decode_entries(content: &mut Bytes) -> Option<Vec<LogEntry>> {
    let first = content.try_get_u64_le().ok()?;
    let count = content.try_get_u32_le().ok()?;
    first.checked_add(u64::from(count))?;
    if count == 0 || count as usize > content.remaining() / ENTRY_HEADER_BYTES {
        return None;
    }
    (first..first + u64::from(count))
        .map(|index| {
            let term = content.try_get_u64_le().ok()?;
            let kind = match content.try_get_u8().ok()? {
                ENTRY_NORMAL => LogEntryKind::Normal,
                ENTRY_MEMBERSHIP => LogEntryKind::Membership,
                _ => return None,
            };
            let len = content.try_get_u32_le().ok()? as usize;
            let data = (len <= content.remaining()).then(|| content.split_to(len))?;
            Some(LogEntry { index, term, kind, data })
        })
        .collect()
}

pub(super) fn decode_hard_state(content: &mut impl Buf) -> Option<HardState> {
    Some(HardState {
        term: content.try_get_u64_le().ok()?,
        vote: ReplicaId(content.try_get_u64_le().ok()?),
        commit: content.try_get_u64_le().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARD_STATE: HardState = HardState { term: 3, vote: ReplicaId(1), commit: 9 };

    fn entry(index: u64, kind: LogEntryKind, data: &'static [u8]) -> LogEntry {
        LogEntry { index, term: 3, kind, data: Bytes::from_static(data) }
    }

    fn sample() -> Vec<Record> {
        let entries = vec![entry(9, LogEntryKind::Normal, b"lili"), entry(10, LogEntryKind::Membership, b"")];
        let reset = Record::Reset { hard_state: HARD_STATE, index: 8 };
        vec![Record::Entries(entries), Record::HardState(HARD_STATE), Record::Truncate(5), reset, Record::Remove]
    }

    fn encode(records: &[Record]) -> Vec<u8> {
        let mut out = Vec::new();
        for record in records {
            match record {
                Record::Entries(entries) => put_entries(&mut out, entries),
                Record::HardState(hard_state) => put_hard_state(&mut out, *hard_state),
                Record::Truncate(index) => put_truncate(&mut out, *index),
                Record::Reset { hard_state, index } => put_reset(&mut out, *hard_state, *index),
                Record::Remove => put_remove(&mut out),
            }
        }
        out
    }

    #[test]
    fn records_have_these_bytes_for_ever() {
        let hex: String = encode(&sample()).iter().map(|byte| format!("{byte:02x}")).collect();

        assert_eq!(
            hex,
            concat!(
                "01090000000000000002000000",                         // entries: first 9, two of them
                "030000000000000000040000006c696c69",                 // term 3, normal, lili
                "03000000000000000100000000",                         // term 3, membership, nothing
                "02030000000000000001000000000000000900000000000000", // hard state
                "030500000000000000",                                 // truncate before 5
                "04030000000000000001000000000000000900000000000000", // reset, hard state
                "0800000000000000",                                   // behind entry 8
                "05",                                                 // remove
            )
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(decode(Bytes::from(encode(&sample()))), Some(sample()));
    }

    #[test]
    fn what_is_measured_is_what_is_written() {
        let records = sample();
        let Record::Entries(entries) = &records[0] else { panic!("entries come first") };

        assert_eq!(measure(entries, Some(HARD_STATE)), encode(&records[..2]).len());
        assert_eq!(measure(&[], Some(HARD_STATE)), encode(&records[1..2]).len());
        assert_eq!(measure(&[], None), 0);
        assert!(records[2..].iter().all(|record| encode(std::slice::from_ref(record)).len() <= SHORT_BYTES_MAX));
    }

    #[test]
    fn records_cut_anywhere_never_panic() {
        let bytes = Bytes::from(encode(&sample()));

        for len in 0..bytes.len() {
            let _ = decode(bytes.slice(..len));
        }
    }
}

//! The bytes of a segment: its rows as they lie in memory, in no particular order, and their dead letters.
//!
//! ```text
//! start of the segment | rows u32, each bytes | partitions, each table, key, rows of (sort key, row) | letters
//! ```
//!
//! Rows have the form of `record.rs`. Those that are too large come in items of their own.

use shardine_model::codec::{put_bytes, put_varint};
use shardine_model::stream::put_item;
use shardine_model::{RowKey, RowKeyBuf};

use super::large::{LARGE_ROW_BYTES, LargeRows};
use super::{VERSION, tag};
use crate::index::Index;
use crate::record::{Big, Partition, Slot, Wide, open_packed};

pub(super) fn put_segment(index: &Index, segment: usize, large: &mut LargeRows, out: &mut Vec<u8>) {
    put_item(out, tag::SEGMENT, VERSION, |out| {
        index.start(segment).encode(out);
        let partitions = put_rows(index, segment, large, out);
        put_varint(out, partitions.len() as u64);
        partitions.iter().for_each(|partition| put_partition(partition, large, out));
        let letters = &index.segment(segment).derived.letters;
        put_varint(out, letters.len() as u64);
        letters.iter().for_each(|(row, letter)| letter.encode(row.as_ref(), out));
    });
}

/// Rows outside of partitions. Gives the partitions that it met.
fn put_rows<'a>(index: &'a Index, segment: usize, large: &mut LargeRows, out: &mut Vec<u8>) -> Vec<&'a Partition> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    let (mut rows, mut partitions) = (0u32, Vec::new());
    for slot in index.segment(segment).slots() {
        match slot {
            Slot::Packed(bytes) if bytes.len() > LARGE_ROW_BYTES => {
                large.wait_packed(slot.filed_under().to_owned());
                continue;
            }
            Slot::Packed(bytes) => put_bytes(out, bytes),
            Slot::Big(big) => match &**big {
                Big::Partition(partition) => {
                    partitions.push(partition);
                    continue;
                }
                Big::Wide(wide) if wide.bytes > LARGE_ROW_BYTES => {
                    large.wait_wide(slot.filed_under().to_owned(), wide.versions);
                    continue;
                }
                Big::Wide(wide) => put_bytes(out, &packed(slot.filed_under(), wide)),
            },
        }
        rows += 1;
    }
    out[place..place + 4].copy_from_slice(&rows.to_le_bytes());
    partitions
}

/// A tree record in the form of a packed one.
fn packed(row: RowKey<'_>, wide: &Wide) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(wide.bytes);
    open_packed(&mut bytes, row, &wide.versions);
    wide.view().fields.pack(&mut bytes);
    bytes
}

fn put_partition(partition: &Partition, large: &mut LargeRows, out: &mut Vec<u8>) {
    put_varint(out, u64::from(partition.table.0));
    put_bytes(out, &partition.key);
    let is_large = |bytes: &[u8]| bytes.len() > LARGE_ROW_BYTES;
    let small = partition.rows.values().filter(|bytes| !is_large(bytes)).count();
    put_varint(out, small as u64);
    for (sort, bytes) in &partition.rows {
        if is_large(bytes) {
            let (table, key) = (partition.table, partition.key.clone());
            large.wait_packed(RowKeyBuf { table, key, sort: sort.clone() });
        } else {
            put_bytes(out, sort);
            put_bytes(out, bytes);
        }
    }
}

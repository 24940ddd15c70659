//! The sum of a group's state, from the stream of a cut: everything counts for itself, in whichever items it came.

use shardine_model::GroupKind;
use shardine_model::checksum::{Sum, Summing};
use shardine_model::codec::{DecodeError, Reader};
use shardine_model::stream::{Assembler, Item, SnapshotError};

use super::form::{read_claim, read_resource, read_semaphore, read_session};
use super::tag;
use crate::state::Coord;

#[derive(Debug)]
struct CoordSum {
    stream: Assembler,
    sum: Sum,
}

impl Coord {
    /// For the chunks of a cut.
    #[must_use]
    pub fn summing() -> Box<dyn Summing> {
        Box::new(CoordSum { stream: Assembler::new(GroupKind::Coordination), sum: Sum::default() })
    }
}

impl Summing for CoordSum {
    fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError> {
        let Self { stream, sum } = self;
        stream.push(chunk, |item| add(sum, &item))
    }

    fn finish(self: Box<Self>) -> Result<Sum, SnapshotError> {
        self.stream.finish()?;
        Ok(self.sum)
    }
}

fn add(sum: &mut Sum, item: &Item<'_>) -> Result<(), SnapshotError> {
    let mut reader = Reader::new(&item.content);
    let reader = &mut reader;
    match (item.tag, item.version) {
        (tag::HEAD | tag::NODE, 1) => {
            sum.add(&[&[item.tag], &*item.content].concat());
        }
        (tag::SESSIONS, 1) => {
            reader.varint("node")?;
            add_each(sum, item, reader, |reader| read_session(reader).map(drop))?;
        }
        (tag::SEMAPHORES, 1) => {
            reader.varint("node")?;
            add_each(sum, item, reader, |reader| read_semaphore(reader).map(drop))?;
        }
        (tag::CLAIMS, 1) => {
            reader.varint("node")?;
            reader.varint("semaphore")?;
            add_each(sum, item, reader, |reader| read_claim(reader).map(drop))?;
        }
        (tag::RESOURCES, 1) => {
            reader.varint("node")?;
            add_each(sum, item, reader, |reader| read_resource(reader).map(drop))?;
        }
        _ => return Err(item.unknown()),
    }
    Ok(())
}

/// Adds every element of a list, each with what was read before the first: whose list it is. An item without any counts for
/// nothing.
fn add_each(
    sum: &mut Sum,
    item: &Item<'_>,
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let whose = &item.content[..item.content.len() - reader.rest().len()];
    while !reader.is_empty() {
        let before = reader.rest();
        read(reader)?;
        sum.add(&[&[item.tag], whose, &before[..before.len() - reader.rest().len()]].concat());
    }
    Ok(())
}

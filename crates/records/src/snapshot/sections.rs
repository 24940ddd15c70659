//! The head of a snapshot: everything beside rows and kept results, in sections that each have a tag and a version.

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::stream::{Item, SnapshotError, put_item};
use shardine_model::{
    Bounds, CatalogueVersion, Generation, RangeVersion, ReplicaId, ShardState, Table, TableId, Timestamp,
};

use super::{VERSION, tag};
use crate::state::{Lease, Records};

impl Records {
    /// Everything of the head but the tables, which may be large.
    pub(super) fn put_sections(&self, out: &mut Vec<u8>) {
        let state = if self.suspended { ShardState::Suspended } else { ShardState::Serving };
        put_item(out, tag::RANGE, VERSION, |out| {
            put_varint(out, self.generation.0);
            put_varint(out, self.range_version.0);
            out.push(state.tag());
            self.bounds.encode(out);
        });
        put_item(out, tag::CLOCK, VERSION, |out| put_varint(out, self.clock.0));
        put_item(out, tag::CATALOGUE, VERSION, |out| {
            put_varint(out, self.catalogue.version().0);
            put_varint(out, self.catalogue.named_in().0);
        });
        if let Some(lease) = self.lease {
            put_item(out, tag::LEASE, VERSION, |out| {
                put_varint(out, lease.holder.0);
                put_varint(out, lease.term);
                put_varint(out, lease.length_ms);
            });
        }
        if self.remembered.forgotten() > 0 {
            put_item(out, tag::FORGOTTEN_CLIENTS, VERSION, |out| put_varint(out, self.remembered.forgotten()));
        }
        if !self.floors.is_empty() {
            put_item(out, tag::FLOORS, VERSION, |out| {
                put_varint(out, self.floors.len() as u64);
                for (table, floor) in &self.floors {
                    put_varint(out, u64::from(table.0));
                    put_varint(out, *floor);
                }
            });
        }
    }

    /// The whole head, for comparing states.
    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) {
        self.put_sections(out);
        self.catalogue.definitions().for_each(|table| put_table(out, table));
    }

    /// Takes a section of the head in; says whether it is one.
    pub(super) fn take_section(&mut self, item: &Item<'_>) -> Result<bool, SnapshotError> {
        let mut reader = Reader::new(&item.content);
        match (item.tag, item.version) {
            (tag::RANGE, 1) => self.take_range(&mut reader)?,
            (tag::CLOCK, 1) => self.clock = Timestamp(reader.varint("clock")?),
            (tag::LEASE, 1) => {
                self.lease = Some(Lease {
                    holder: ReplicaId(reader.varint("lease holder")?),
                    term: reader.varint("lease term")?,
                    length_ms: reader.varint("lease length")?,
                });
            }
            (tag::FLOORS, 1) => self.take_floors(&mut reader)?,
            (tag::FORGOTTEN_CLIENTS, 1) => self.remembered.set_forgotten(reader.varint("forgotten clients")?),
            (tag::CATALOGUE, 1) => {
                let version = CatalogueVersion(reader.varint("catalogue version")?);
                let named_in = CatalogueVersion(reader.varint("catalogue version of the last name")?);
                self.catalogue = std::mem::take(&mut self.catalogue).versioned(version, named_in);
            }
            (tag::TABLE, 1) => {
                // Which version it came with is told by the catalogue's own section.
                self.put_table(CatalogueVersion::FIRST, Table::decode(&mut reader)?);
            }
            _ => return Ok(false),
        }
        reader.finish("section")?;
        Ok(true)
    }

    fn take_range(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.generation = Generation(reader.varint("generation")?);
        self.range_version = RangeVersion(reader.varint("range version")?);
        self.suspended = match ShardState::from_tag(reader.u8("state")?)? {
            ShardState::Serving => false,
            ShardState::Suspended => true,
        };
        self.bounds = Bounds::decode(reader)?;
        Ok(())
    }

    fn take_floors(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.count("floor count")? {
            let table = TableId(reader.varint_u32("table id")?);
            self.floors.insert(table, reader.varint("floor")?);
        }
        Ok(())
    }
}

pub(super) fn put_table(out: &mut Vec<u8>, table: &Table) {
    put_item(out, tag::TABLE, VERSION, |out| table.encode(out));
}

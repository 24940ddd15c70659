//! What changes from one version of the map to the next, as every node is told it. The whole map is told in the same words:
//! as what leads to it from nothing.

use std::sync::Arc;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{CatalogueVersion, Descriptor, Generation, ReplicaId, ShardId, Table};

use crate::codec::{fixed_u128, flag, list, put_list, put_text, text, unknown};
use crate::event::Event;
use crate::map::{Keyspace, Map, Place};
use crate::node::Node;
use crate::operation::{Operation, OperationId};

const FORMAT: u8 = 1;

// Frozen tags.
const TAG_NODE: u8 = 1;
const TAG_GROUP: u8 = 2;
const TAG_TABLE: u8 = 3;
const TAG_CATALOGUE: u8 = 4;
// 5 was a path without a number; no map has ever had one.
const TAG_SETTING: u8 = 6;
const TAG_KEYSPACE: u8 = 7;
const TAG_OPERATION: u8 = 8;
const TAG_OPERATION_OVER: u8 = 9;
const TAG_GIVEN: u8 = 10;
const TAG_PATH: u8 = 11;
const TAG_EVENT: u8 = 50;
const TAG_LIBRARY: u8 = 60;

/// One thing that is otherwise than before. Says how it is now, not how it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Node(Node),
    Group(Descriptor),
    Table(Table),
    Catalogue {
        version: CatalogueVersion,
        named_in: CatalogueVersion,
    },
    /// A path of coordination has this place, or none any more.
    Path(String, Option<Place>),
    Setting(String, Option<String>),
    /// A library of functions has this text, or is gone.
    Library(String, Option<Arc<[u8]>>),
    Keyspace(Keyspace),
    Operation(OperationId, Operation),
    OperationOver(OperationId),
    /// The last number that was given to a replica of a group.
    Given(ShardId, ReplicaId),
    /// The history has one more line.
    Event(Event),
}

impl Change {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Node(node) => {
                out.push(TAG_NODE);
                node.encode(out);
            }
            Self::Group(group) => {
                out.push(TAG_GROUP);
                group.encode(out);
            }
            Self::Table(table) => {
                out.push(TAG_TABLE);
                table.encode(out);
            }
            Self::Catalogue { version, named_in } => {
                out.push(TAG_CATALOGUE);
                put_varint(out, version.0);
                put_varint(out, named_in.0);
            }
            Self::Path(path, place) => {
                out.push(TAG_PATH);
                put_text(out, path);
                out.push(u8::from(place.is_some()));
                if let Some(Place { group, placed }) = place {
                    put_varint(out, u64::from(group.0));
                    put_varint(out, *placed);
                }
            }
            Self::Setting(name, value) => {
                out.push(TAG_SETTING);
                put_text(out, name);
                out.push(u8::from(value.is_some()));
                value.iter().for_each(|value| put_text(out, value));
            }
            Self::Library(name, library) => {
                out.push(TAG_LIBRARY);
                put_text(out, name);
                out.push(u8::from(library.is_some()));
                library.iter().for_each(|text| put_bytes(out, text));
            }
            Self::Keyspace(keyspace) => {
                out.push(TAG_KEYSPACE);
                put_text(out, &keyspace.sql);
                put_varint(out, keyspace.scheme.0);
            }
            Self::Operation(id, operation) => {
                out.push(TAG_OPERATION);
                operation.encode(*id, out);
            }
            Self::OperationOver(id) => {
                out.push(TAG_OPERATION_OVER);
                put_varint(out, id.0);
            }
            Self::Event(event) => {
                out.push(TAG_EVENT);
                event.encode(out);
            }
            Self::Given(shard, replica) => {
                out.push(TAG_GIVEN);
                put_varint(out, u64::from(shard.0));
                put_varint(out, replica.0);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("change of the map")? {
            TAG_NODE => Self::Node(Node::decode(reader)?),
            TAG_GROUP => Self::Group(Descriptor::decode(reader)?),
            TAG_TABLE => Self::Table(Table::decode(reader)?),
            TAG_CATALOGUE => Self::Catalogue {
                version: CatalogueVersion(reader.varint("catalogue version")?),
                named_in: CatalogueVersion(reader.varint("catalogue version")?),
            },
            TAG_PATH => {
                let path = text(reader, "path")?;
                let place = match flag(reader, "place of a path")? {
                    true => {
                        let group = ShardId(reader.varint_u32("shard")?);
                        Some(Place { group, placed: reader.varint("place of a path")? })
                    }
                    false => None,
                };
                Self::Path(path, place)
            }
            TAG_SETTING => {
                let name = text(reader, "setting")?;
                let is_set = flag(reader, "setting")?;
                Self::Setting(name, is_set.then(|| text(reader, "value of a setting")).transpose()?)
            }
            TAG_LIBRARY => {
                let name = text(reader, "name of a library")?;
                let is_there = flag(reader, "library")?;
                Self::Library(name, is_there.then(|| reader.bytes("library").map(Into::into)).transpose()?)
            }
            TAG_KEYSPACE => Self::Keyspace(Keyspace {
                sql: text(reader, "address of a database")?,
                scheme: Generation(reader.varint("generation")?),
            }),
            TAG_OPERATION => {
                let (id, operation) = Operation::decode(reader)?;
                Self::Operation(id, operation)
            }
            TAG_OPERATION_OVER => Self::OperationOver(OperationId(reader.varint("operation")?)),
            TAG_GIVEN => Self::Given(ShardId(reader.varint_u32("shard")?), ReplicaId(reader.varint("replica")?)),
            TAG_EVENT => Self::Event(Event::decode(reader)?),
            other => return Err(unknown("change of the map", u64::from(other))),
        })
    }
}

/// What leads from one version to a later one; from version 0, the whole map.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    pub cluster: u128,
    pub from: u64,
    pub to: u64,
    pub changes: Vec<Change>,
}

impl Delta {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.cluster.to_le_bytes());
        put_varint(&mut out, self.from);
        put_varint(&mut out, self.to);
        put_list(&mut out, &self.changes, |out, change| change.encode(out));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8("format of the map")? {
            FORMAT => {}
            other => return Err(unknown("format of the map", u64::from(other))),
        }
        let cluster = fixed_u128(&mut reader, "cluster")?;
        let (from, to) = (reader.varint("version of the map")?, reader.varint("version of the map")?);
        if to < from {
            return Err(unknown("version of the map", to));
        }
        let changes = list(&mut reader, "changes of the map", Change::decode)?;
        reader.finish("change of the map")?;
        Ok(Self { cluster, from, to, changes })
    }
}

impl Map {
    /// A map that was written by [`Map::whole`].
    pub fn decode(bytes: &[u8]) -> Result<Self, crate::BadDelta> {
        let (mut map, delta) = (Self::default(), Delta::decode(bytes)?);
        map.take(&delta)?;
        Ok(map)
    }
}

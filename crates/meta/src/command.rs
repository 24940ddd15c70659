//! Commands of the map's log: what they say, and the bytes that say it (`docs/encoding.md`).
//!
//! An entry opens with a format byte and a kind, like those of the other machines; its kind is none of theirs, so that an entry
//! which strays into the wrong group stops the replica instead of meaning something. Commands follow, in order of arrival.

use std::collections::BTreeMap;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{
    Bound, ClusterMap, ConfVersion, DoorAddresses, Epoch, Field, FieldId, NodeId, NodeMode as Mode, ReplicaId, ShardId,
    Table, Timestamp, ValueRef,
};

use crate::codec::{
    addresses, flag, list, nodes, put_addresses, put_list, put_nodes, put_replicas, put_text, replicas, text, unknown,
};
use crate::node::{labels, put_labels, weight};
use crate::operation::OperationId;

const ENTRY_FORMAT: u8 = 1;
const KIND_META: u8 = 101;

// Frozen tags.
const TAG_INIT: u8 = 1;
const TAG_JOIN: u8 = 2;
const TAG_ANNOUNCE: u8 = 3;
const TAG_SET_MODE: u8 = 4;
const TAG_SET_WEIGHT: u8 = 5;
const TAG_REMOVE_NODE: u8 = 6;
const TAG_REPLACE: u8 = 7;
const TAG_RECONFIGURE: u8 = 8;
const TAG_CONF_CHANGED: u8 = 9;
const TAG_CAUGHT_UP: u8 = 10;
const TAG_CANCEL: u8 = 11;
const TAG_CREATE_TABLE: u8 = 12;
const TAG_ADD_FIELD: u8 = 13;
const TAG_DROP_TABLE: u8 = 14;
// 15 and 16 assigned paths without a number; no node has ever written them.
const TAG_SET: u8 = 17;
const TAG_SET_SQL: u8 = 18;
const TAG_MARK: u8 = 19;
const TAG_PLACE_PATH: u8 = 20;
const TAG_FORGET_PATH: u8 = 21;
const TAG_FIND_PATH: u8 = 22;
const TAG_SPLIT: u8 = 30;
const TAG_SPLIT_OVER: u8 = 31;
const TAG_PUT_LIBRARIES: u8 = 60;
const TAG_DROP_LIBRARY: u8 = 61;
/// A field of a type, or that may be NULL, which tag 13 cannot say.
const TAG_ADD_TYPED_FIELD: u8 = 40;
const TAG_AT: u8 = 50;

/// What a node says of itself when it joins, and at each of its starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joiner {
    pub name: String,
    pub addresses: DoorAddresses,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    pub is_gateway: bool,
    pub incarnation: u64,
    pub start: u64,
}

/// A node whose place another one of the same name takes: it was silent and could not be dialled. If it has started anew
/// meanwhile, its incarnation is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub node: NodeId,
    pub incarnation: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The first map. It has the group of meta itself among its groups.
    Init {
        map: ClusterMap,
        /// What was drawn at the start of each of its nodes that waited for it, in their order: who asks with it is that node, and
        /// nobody else is.
        starts: Vec<u64>,
    },
    /// A node that was dialled back wants a number.
    Join {
        joiner: Joiner,
        replaces: Option<Replaced>,
    },
    /// A node has started.
    Announce {
        node: NodeId,
        joiner: Joiner,
    },
    SetMode {
        node: NodeId,
        mode: Mode,
    },
    SetWeight {
        node: NodeId,
        weight: u16,
    },
    RemoveNode {
        node: NodeId,
    },
    /// A replica's place is taken by a new one on another node.
    Replace {
        shard: ShardId,
        replica: ReplicaId,
        node: NodeId,
    },
    /// A group's members are to be on these nodes. Refused if they have changed since somebody decided that.
    Reconfigure {
        shard: ShardId,
        conf: ConfVersion,
        voters: Vec<NodeId>,
        learners: Vec<NodeId>,
    },
    /// A group's leader reports the members that its log has settled on. The version is the index of the entry that made them.
    ConfChanged {
        shard: ShardId,
        conf: ConfVersion,
        voters: Vec<ReplicaId>,
        learners: Vec<ReplicaId>,
    },
    /// A group's leader reports that a replica is as good as up to date.
    CaughtUp {
        operation: OperationId,
        replica: ReplicaId,
    },
    /// Gives an operation up, if that is still possible.
    Cancel {
        operation: OperationId,
    },
    /// Id and versions are given when it is applied.
    CreateTable {
        table: Table,
    },
    /// The field's id is given when it is applied.
    AddField {
        table: String,
        field: Field,
    },
    DropTable {
        table: String,
    },
    /// A path of coordination is to have a place: the one that it has, or one in this group, or in the group with the fewest paths.
    /// The place with this number has been given up by its group, and is given anew under another one.
    PlacePath {
        path: String,
        instead_of: u64,
        group: Option<ShardId>,
    },
    /// The path's node is gone, and its group makes none any more for this place.
    ForgetPath {
        path: String,
        placed: u64,
    },
    /// Changes nothing: tells the place of a path as of everything that was there before.
    FindPath {
        path: String,
    },
    /// `None` takes a setting back.
    Set {
        name: String,
        value: Option<String>,
    },
    SetSql {
        sql: String,
    },
    /// A shard of records is to be parted. Refused if it has changed since somebody decided that.
    Split {
        shard: ShardId,
        epoch: Epoch,
        at: Bound,
    },
    /// A shard's leader reports that it was parted, or that it cannot be any more because its members have changed since.
    SplitOver {
        operation: OperationId,
        is_done: bool,
    },
    /// Libraries of functions come beside those that are there, or in their place. One of a name that is there is refused, with all
    /// others, if it does not replace that.
    PutLibraries {
        libraries: Vec<(String, Box<[u8]>)>,
        replaces: bool,
        begins_anew: bool,
    },
    DropLibrary {
        name: String,
    },
    /// Changes nothing. Proves that whoever proposed it still leads, and has everything that was there before.
    Mark,
    /// Another command, given at that time and for that reason: what comes of it gets a line in the history.
    At {
        at: Timestamp,
        why: String,
        command: Box<Self>,
    },
}

/// Opens an entry; commands are appended by [`Command::encode`].
#[must_use]
pub fn open_entry() -> Vec<u8> {
    vec![ENTRY_FORMAT, KIND_META]
}

pub(crate) fn read_opening(entry: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(entry);
    match reader.u8("entry format")? {
        ENTRY_FORMAT => {}
        other => return Err(unknown("entry format", u64::from(other))),
    }
    match reader.u8("entry kind")? {
        KIND_META => Ok(reader),
        other => Err(unknown("entry kind", u64::from(other))),
    }
}

impl Joiner {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.name);
        put_addresses(out, &self.addresses);
        put_text(out, &self.zone);
        put_labels(out, &self.labels);
        out.push(u8::from(self.is_gateway));
        put_varint(out, self.incarnation);
        out.extend_from_slice(&self.start.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: text(reader, "name of a node")?,
            addresses: addresses(reader)?,
            zone: text(reader, "zone")?,
            labels: labels(reader)?,
            is_gateway: flag(reader, "gateway")?,
            incarnation: reader.varint("incarnation")?,
            start: reader.fixed_u64("start number")?,
        })
    }
}

impl Command {
    /// The same, given at this time and for this reason. One is dated once: whoever was first knows better.
    #[must_use]
    pub fn dated(self, at: Timestamp, why: String) -> Self {
        match self {
            Self::At { .. } => self,
            command => Self::At { at, why, command: Box::new(command) },
        }
    }

    /// An entry of this command alone.
    #[must_use]
    pub fn to_entry(&self) -> Vec<u8> {
        let mut entry = open_entry();
        self.encode(&mut entry);
        entry
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Init { map, starts } => {
                out.push(TAG_INIT);
                put_bytes(out, &map.to_bytes());
                put_list(out, starts, |out, start| out.extend_from_slice(&start.to_le_bytes()));
            }
            Self::Join { joiner, replaces } => {
                out.push(TAG_JOIN);
                joiner.encode(out);
                out.push(u8::from(replaces.is_some()));
                if let Some(Replaced { node, incarnation }) = replaces {
                    put_numbers(out, [node.0, *incarnation]);
                }
            }
            Self::Announce { node, joiner } => {
                out.push(TAG_ANNOUNCE);
                put_varint(out, node.0);
                joiner.encode(out);
            }
            Self::SetMode { node, mode } => {
                out.push(TAG_SET_MODE);
                put_varint(out, node.0);
                out.push(mode.tag());
            }
            Self::SetWeight { node, weight } => {
                out.push(TAG_SET_WEIGHT);
                put_numbers(out, [node.0, u64::from(*weight)]);
            }
            Self::RemoveNode { node } => {
                out.push(TAG_REMOVE_NODE);
                put_varint(out, node.0);
            }
            Self::Replace { shard, replica, node } => {
                out.push(TAG_REPLACE);
                put_numbers(out, [u64::from(shard.0), replica.0, node.0]);
            }
            Self::Reconfigure { shard, conf, voters, learners } => {
                out.push(TAG_RECONFIGURE);
                put_numbers(out, [u64::from(shard.0), conf.0]);
                put_nodes(out, voters);
                put_nodes(out, learners);
            }
            Self::ConfChanged { shard, conf, voters, learners } => {
                out.push(TAG_CONF_CHANGED);
                put_numbers(out, [u64::from(shard.0), conf.0]);
                put_replicas(out, voters);
                put_replicas(out, learners);
            }
            Self::CaughtUp { operation, replica } => {
                out.push(TAG_CAUGHT_UP);
                put_numbers(out, [operation.0, replica.0]);
            }
            Self::Cancel { operation } => {
                out.push(TAG_CANCEL);
                put_varint(out, operation.0);
            }
            Self::CreateTable { table } => {
                out.push(TAG_CREATE_TABLE);
                table.encode(out);
            }
            Self::AddField { table, field } if field.is_plain() => {
                put_texts(out, TAG_ADD_FIELD, &[table, &field.name]);
                field.default.as_ref().encode(out);
            }
            Self::AddField { table, field } => {
                put_texts(out, TAG_ADD_TYPED_FIELD, &[table, &field.name]);
                field.encode_type(out);
            }
            Self::DropTable { table } => put_texts(out, TAG_DROP_TABLE, &[table]),
            Self::PlacePath { path, instead_of, group } => {
                put_texts(out, TAG_PLACE_PATH, &[path]);
                put_varint(out, *instead_of);
                out.push(u8::from(group.is_some()));
                group.iter().for_each(|group| put_varint(out, u64::from(group.0)));
            }
            Self::ForgetPath { path, placed } => {
                put_texts(out, TAG_FORGET_PATH, &[path]);
                put_varint(out, *placed);
            }
            Self::FindPath { path } => put_texts(out, TAG_FIND_PATH, &[path]),
            Self::Set { name, value } => {
                put_texts(out, TAG_SET, &[name]);
                out.push(u8::from(value.is_some()));
                value.iter().for_each(|value| put_text(out, value));
            }
            Self::SetSql { sql } => put_texts(out, TAG_SET_SQL, &[sql]),
            Self::Split { shard, epoch, at } => {
                out.push(TAG_SPLIT);
                put_varint(out, u64::from(shard.0));
                epoch.encode(out);
                at.encode(out);
            }
            Self::SplitOver { operation, is_done } => {
                out.push(TAG_SPLIT_OVER);
                put_varint(out, operation.0);
                out.push(u8::from(*is_done));
            }
            Self::PutLibraries { libraries, replaces, begins_anew } => {
                out.push(TAG_PUT_LIBRARIES);
                put_list(out, libraries, |out, (name, text)| {
                    put_text(out, name);
                    put_bytes(out, text);
                });
                out.extend([u8::from(*replaces), u8::from(*begins_anew)]);
            }
            Self::DropLibrary { name } => put_texts(out, TAG_DROP_LIBRARY, &[name]),
            Self::Mark => out.push(TAG_MARK),
            Self::At { at, why, command } => {
                put_texts(out, TAG_AT, &[why]);
                put_varint(out, at.0);
                command.encode(out);
            }
        }
    }

    /// One command alone, as [`Command::encode`] has written it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let command = Self::decode(&mut reader)?;
        reader.finish("command")?;
        Ok(command)
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8("command")?;
        if tag != TAG_AT {
            return Self::decode_undated(tag, reader);
        }
        let (why, at) = (text(reader, "reason")?, Timestamp(reader.varint("time of a command")?));
        let tag = reader.u8("command")?;
        Ok(Self::At { at, why, command: Box::new(Self::decode_undated(tag, reader)?) })
    }

    fn decode_undated(tag: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match tag {
            TAG_INIT => {
                let map = ClusterMap::from_bytes(reader.bytes("map")?);
                let map = map.map_err(|_| unknown("first map", 0))?;
                Self::Init { map, starts: list(reader, "starts", |reader| reader.fixed_u64("start number"))? }
            }
            TAG_JOIN => Self::Join {
                joiner: Joiner::decode(reader)?,
                replaces: match flag(reader, "replaced node")? {
                    true => Some(Replaced { node: node(reader)?, incarnation: reader.varint("incarnation")? }),
                    false => None,
                },
            },
            TAG_ANNOUNCE => Self::Announce { node: node(reader)?, joiner: Joiner::decode(reader)? },
            TAG_SET_MODE => Self::SetMode { node: node(reader)?, mode: Mode::from_tag(reader.u8("mode of a node")?)? },
            TAG_SET_WEIGHT => Self::SetWeight { node: node(reader)?, weight: weight(reader)? },
            TAG_REMOVE_NODE => Self::RemoveNode { node: node(reader)? },
            TAG_REPLACE => Self::Replace { shard: shard(reader)?, replica: replica(reader)?, node: node(reader)? },
            TAG_RECONFIGURE => Self::Reconfigure {
                shard: shard(reader)?,
                conf: conf(reader)?,
                voters: nodes(reader)?,
                learners: nodes(reader)?,
            },
            TAG_CONF_CHANGED => Self::ConfChanged {
                shard: shard(reader)?,
                conf: conf(reader)?,
                voters: replicas(reader)?,
                learners: replicas(reader)?,
            },
            TAG_CAUGHT_UP => Self::CaughtUp { operation: operation(reader)?, replica: replica(reader)? },
            TAG_CANCEL => Self::Cancel { operation: operation(reader)? },
            TAG_CREATE_TABLE => Self::CreateTable { table: Table::decode(reader)? },
            TAG_ADD_FIELD => {
                let (table, name) = (text(reader, "table")?, text(reader, "field")?);
                Self::AddField { table, field: Field::of(FieldId(0), name, ValueRef::decode(reader)?.to_owned()) }
            }
            TAG_ADD_TYPED_FIELD => {
                let (table, name) = (text(reader, "table")?, text(reader, "field")?);
                Self::AddField { table, field: Field::decode_type(FieldId(0), name, reader)? }
            }
            TAG_DROP_TABLE => Self::DropTable { table: text(reader, "table")? },
            TAG_PLACE_PATH => Self::PlacePath {
                path: text(reader, "path")?,
                instead_of: reader.varint("place of a path")?,
                group: flag(reader, "group of a path")?.then(|| shard(reader)).transpose()?,
            },
            TAG_FORGET_PATH => {
                Self::ForgetPath { path: text(reader, "path")?, placed: reader.varint("place of a path")? }
            }
            TAG_FIND_PATH => Self::FindPath { path: text(reader, "path")? },
            TAG_SET => {
                let name = text(reader, "setting")?;
                let is_set = flag(reader, "setting")?;
                Self::Set { name, value: is_set.then(|| text(reader, "value of a setting")).transpose()? }
            }
            TAG_SET_SQL => Self::SetSql { sql: text(reader, "address of a database")? },
            TAG_SPLIT => {
                Self::Split { shard: shard(reader)?, epoch: Epoch::decode(reader)?, at: Bound::decode(reader)? }
            }
            TAG_SPLIT_OVER => {
                Self::SplitOver { operation: operation(reader)?, is_done: flag(reader, "whether it is done")? }
            }
            TAG_PUT_LIBRARIES => Self::PutLibraries {
                libraries: list(reader, "libraries", |reader| {
                    Ok((text(reader, "name of a library")?, reader.bytes("library")?.into()))
                })?,
                replaces: flag(reader, "whether it replaces")?,
                begins_anew: flag(reader, "whether it begins anew")?,
            },
            TAG_DROP_LIBRARY => Self::DropLibrary { name: text(reader, "name of a library")? },
            TAG_MARK => Self::Mark,
            other => return Err(unknown("command", u64::from(other))),
        })
    }
}

fn put_numbers<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    numbers.into_iter().for_each(|number| put_varint(out, number));
}

fn put_texts(out: &mut Vec<u8>, tag: u8, texts: &[&str]) {
    out.push(tag);
    texts.iter().for_each(|text| put_text(out, text));
}

fn node(reader: &mut Reader<'_>) -> Result<NodeId, DecodeError> {
    reader.varint("node").map(NodeId)
}

fn shard(reader: &mut Reader<'_>) -> Result<ShardId, DecodeError> {
    reader.varint_u32("shard").map(ShardId)
}

fn replica(reader: &mut Reader<'_>) -> Result<ReplicaId, DecodeError> {
    reader.varint("replica").map(ReplicaId)
}

fn conf(reader: &mut Reader<'_>) -> Result<ConfVersion, DecodeError> {
    reader.varint("conf version").map(ConfVersion)
}

fn operation(reader: &mut Reader<'_>) -> Result<OperationId, DecodeError> {
    reader.varint("operation").map(OperationId)
}

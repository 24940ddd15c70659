//! Commands of a coordination group's log: what they say, and the bytes that say it (`docs/encoding.md`).
//!
//! An entry opens with a format byte and a kind, like those of records; its kind is none of theirs, so that an entry which
//! strays into the wrong group stops the replica instead of meaning something. Commands follow, in order of arrival.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};

use crate::config::Config;
use crate::ids::{NodeNumber, OrderId, SemaphoreId, SessionId};
use crate::resources::Pace;

const ENTRY_FORMAT: u8 = 1;
const KIND_COORD: u8 = 100;

// Frozen tags.
const TAG_CREATE_NODE: u8 = 1;
const TAG_ALTER_NODE: u8 = 2;
const TAG_DROP_NODE: u8 = 3;
const TAG_DESCRIBE_NODE: u8 = 4;
const TAG_ATTACH: u8 = 5;
const TAG_STOP: u8 = 6;
const TAG_EXPIRE: u8 = 7;
const TAG_CREATE: u8 = 8;
const TAG_UPDATE: u8 = 9;
const TAG_DELETE: u8 = 10;
const TAG_ACQUIRE: u8 = 11;
const TAG_RELEASE: u8 = 12;
const TAG_DESCRIBE: u8 = 13;
const TAG_TIME_OUT: u8 = 14;
const TAG_MARK: u8 = 15;
const TAG_CREATE_RESOURCE: u8 = 16;
const TAG_ALTER_RESOURCE: u8 = 17;
const TAG_DROP_RESOURCE: u8 = 18;
const TAG_CREATE_PLACED: u8 = 19;
const TAG_DROP_PLACED: u8 = 20;
const TAG_GIVE_UP: u8 = 21;

/// Who asks: a session of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker {
    pub node: NodeNumber,
    pub session: SessionId,
}

/// What opens a session, or comes back to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// As it was sent; compared by its components.
    pub path: &'a str,
    /// 0 asks for a new one.
    pub session: SessionId,
    pub timeout_ms: u64,
    pub description: &'a str,
    pub protection_key: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `placed` is the number of the path's place in the cluster's map; 0 where there is no map.
    CreateNode {
        path: &'a str,
        config: Config,
        placed: u64,
    },
    AlterNode {
        path: &'a str,
        config: Config,
    },
    DropNode {
        path: &'a str,
        placed: u64,
    },
    /// Changes nothing: a read that takes its place among the changes.
    DescribeNode {
        path: &'a str,
    },
    Attach(Start<'a>),
    /// Its client has ended the session.
    Stop(Asker),
    /// The leader's clock says that a detached session's time is over.
    Expire(Asker),
    Create {
        by: Asker,
        name: &'a str,
        limit: u64,
        data: &'a [u8],
    },
    Update {
        by: Asker,
        name: &'a str,
        data: &'a [u8],
    },
    Delete {
        by: Asker,
        name: &'a str,
        force: bool,
    },
    Acquire {
        by: Asker,
        name: &'a str,
        timeout_ms: u64,
        count: u64,
        data: &'a [u8],
        ephemeral: bool,
    },
    Release {
        by: Asker,
        name: &'a str,
    },
    /// A read like `DescribeNode`.
    Describe {
        by: Asker,
        name: &'a str,
    },
    /// The leader's clock says that a waiter has waited long enough. One that has asked again since has another revision.
    TimeOut {
        node: NodeNumber,
        semaphore: SemaphoreId,
        order: OrderId,
        revision: u32,
    },
    /// Proves that whoever proposed it still leads.
    Mark,
    CreateResource {
        node: &'a str,
        path: &'a str,
        pace: Pace,
    },
    AlterResource {
        node: &'a str,
        path: &'a str,
        pace: Pace,
    },
    DropResource {
        node: &'a str,
        path: &'a str,
    },
    /// No node is made any more for places with this number or a lower one, so that the map may forget them.
    GiveUp {
        placed: u64,
    },
}

/// Opens an entry; encoded commands are appended behind it.
pub fn open_entry(out: &mut Vec<u8>) {
    out.extend_from_slice(&[ENTRY_FORMAT, KIND_COORD]);
}

/// Takes the opening of an entry away; commands are left.
pub fn read_opening<'a>(entry: &'a [u8]) -> Result<Reader<'a>, DecodeError> {
    let mut reader = Reader::new(entry);
    let format = reader.u8("entry format")?;
    if format != ENTRY_FORMAT {
        return Err(DecodeError::Unknown { what: "entry format", value: u64::from(format) });
    }
    match reader.u8("entry kind")? {
        KIND_COORD => Ok(reader),
        kind => Err(DecodeError::Unknown { what: "entry kind", value: u64::from(kind) }),
    }
}

impl<'a> Command<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::CreateNode { path, config, placed: 0 } => put_node(out, TAG_CREATE_NODE, path, config),
            Self::CreateNode { path, config, placed } => {
                put_node(out, TAG_CREATE_PLACED, path, config);
                put_varint(out, *placed);
            }
            Self::AlterNode { path, config } => put_node(out, TAG_ALTER_NODE, path, config),
            Self::DropNode { path, placed: 0 } => put_named(out, TAG_DROP_NODE, path),
            Self::DropNode { path, placed } => {
                put_named(out, TAG_DROP_PLACED, path);
                put_varint(out, *placed);
            }
            Self::DescribeNode { path } => put_named(out, TAG_DESCRIBE_NODE, path),
            Self::Attach(start) => {
                put_named(out, TAG_ATTACH, start.path);
                put_varint(out, start.session.0);
                put_varint(out, start.timeout_ms);
                put_bytes(out, start.description.as_bytes());
                put_bytes(out, start.protection_key);
            }
            Self::Stop(by) => put_asker(out, TAG_STOP, *by),
            Self::Expire(by) => put_asker(out, TAG_EXPIRE, *by),
            Self::Create { by, name, limit, data } => {
                put_request(out, TAG_CREATE, *by, name);
                put_varint(out, *limit);
                put_bytes(out, data);
            }
            Self::Update { by, name, data } => {
                put_request(out, TAG_UPDATE, *by, name);
                put_bytes(out, data);
            }
            Self::Delete { by, name, force } => {
                put_request(out, TAG_DELETE, *by, name);
                out.push(u8::from(*force));
            }
            Self::Acquire { by, name, timeout_ms, count, data, ephemeral } => {
                put_request(out, TAG_ACQUIRE, *by, name);
                put_varint(out, *timeout_ms);
                put_varint(out, *count);
                put_bytes(out, data);
                out.push(u8::from(*ephemeral));
            }
            Self::Release { by, name } => put_request(out, TAG_RELEASE, *by, name),
            Self::Describe { by, name } => put_request(out, TAG_DESCRIBE, *by, name),
            Self::TimeOut { node, semaphore, order, revision } => {
                out.push(TAG_TIME_OUT);
                for number in [node.0, semaphore.0, order.0, u64::from(*revision)] {
                    put_varint(out, number);
                }
            }
            Self::Mark => out.push(TAG_MARK),
            Self::CreateResource { node, path, pace } => put_resource(out, TAG_CREATE_RESOURCE, node, path, Some(pace)),
            Self::AlterResource { node, path, pace } => put_resource(out, TAG_ALTER_RESOURCE, node, path, Some(pace)),
            Self::DropResource { node, path } => put_resource(out, TAG_DROP_RESOURCE, node, path, None),
            Self::GiveUp { placed } => {
                out.push(TAG_GIVE_UP);
                put_varint(out, *placed);
            }
        }
    }

    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("command tag")? {
            tag @ (TAG_CREATE_NODE | TAG_CREATE_PLACED) => Self::CreateNode {
                path: reader.text("path")?,
                config: Config::decode(reader)?,
                placed: read_placed(reader, tag == TAG_CREATE_PLACED)?,
            },
            TAG_ALTER_NODE => Self::AlterNode { path: reader.text("path")?, config: Config::decode(reader)? },
            tag @ (TAG_DROP_NODE | TAG_DROP_PLACED) => {
                Self::DropNode { path: reader.text("path")?, placed: read_placed(reader, tag == TAG_DROP_PLACED)? }
            }
            TAG_DESCRIBE_NODE => Self::DescribeNode { path: reader.text("path")? },
            TAG_ATTACH => Self::Attach(Start {
                path: reader.text("path")?,
                session: SessionId(reader.varint("session")?),
                timeout_ms: reader.varint("session timeout")?,
                description: reader.text("description")?,
                protection_key: reader.bytes("protection key")?,
            }),
            TAG_STOP => Self::Stop(read_asker(reader)?),
            TAG_EXPIRE => Self::Expire(read_asker(reader)?),
            TAG_CREATE => Self::Create {
                by: read_asker(reader)?,
                name: reader.text("name")?,
                limit: reader.varint("limit")?,
                data: reader.bytes("data")?,
            },
            TAG_UPDATE => {
                Self::Update { by: read_asker(reader)?, name: reader.text("name")?, data: reader.bytes("data")? }
            }
            TAG_DELETE => {
                Self::Delete { by: read_asker(reader)?, name: reader.text("name")?, force: read_flag(reader)? }
            }
            TAG_ACQUIRE => Self::Acquire {
                by: read_asker(reader)?,
                name: reader.text("name")?,
                timeout_ms: reader.varint("acquire timeout")?,
                count: reader.varint("count")?,
                data: reader.bytes("data")?,
                ephemeral: read_flag(reader)?,
            },
            TAG_RELEASE => Self::Release { by: read_asker(reader)?, name: reader.text("name")? },
            TAG_DESCRIBE => Self::Describe { by: read_asker(reader)?, name: reader.text("name")? },
            TAG_TIME_OUT => Self::TimeOut {
                node: NodeNumber(reader.varint("node")?),
                semaphore: SemaphoreId(reader.varint("semaphore")?),
                order: OrderId(reader.varint("order")?),
                revision: read_revision(reader)?,
            },
            TAG_MARK => Self::Mark,
            TAG_CREATE_RESOURCE => Self::CreateResource {
                node: reader.text("path")?,
                path: reader.text("resource")?,
                pace: Pace::decode(reader)?,
            },
            TAG_ALTER_RESOURCE => Self::AlterResource {
                node: reader.text("path")?,
                path: reader.text("resource")?,
                pace: Pace::decode(reader)?,
            },
            TAG_DROP_RESOURCE => Self::DropResource { node: reader.text("path")?, path: reader.text("resource")? },
            TAG_GIVE_UP => Self::GiveUp { placed: reader.varint("place of a path")? },
            tag => return Err(DecodeError::Unknown { what: "command tag", value: u64::from(tag) }),
        })
    }
}

fn read_placed(reader: &mut Reader<'_>, is_there: bool) -> Result<u64, DecodeError> {
    if is_there { reader.varint("place of a path") } else { Ok(0) }
}

fn put_named(out: &mut Vec<u8>, tag: u8, text: &str) {
    out.push(tag);
    put_bytes(out, text.as_bytes());
}

fn put_node(out: &mut Vec<u8>, tag: u8, path: &str, config: &Config) {
    put_named(out, tag, path);
    config.encode(out);
}

fn put_resource(out: &mut Vec<u8>, tag: u8, node: &str, path: &str, pace: Option<&Pace>) {
    put_named(out, tag, node);
    put_bytes(out, path.as_bytes());
    if let Some(pace) = pace {
        pace.encode(out);
    }
}

fn put_asker(out: &mut Vec<u8>, tag: u8, by: Asker) {
    out.push(tag);
    put_varint(out, by.node.0);
    put_varint(out, by.session.0);
}

fn put_request(out: &mut Vec<u8>, tag: u8, by: Asker, name: &str) {
    put_asker(out, tag, by);
    put_bytes(out, name.as_bytes());
}

fn read_asker(reader: &mut Reader<'_>) -> Result<Asker, DecodeError> {
    Ok(Asker { node: NodeNumber(reader.varint("node")?), session: SessionId(reader.varint("session")?) })
}

pub(crate) fn read_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::Unknown { what: "flag", value: u64::from(value) }),
    }
}

pub(crate) fn read_revision(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let value = reader.varint("revision")?;
    u32::try_from(value).map_err(|_| DecodeError::Unknown { what: "revision", value })
}

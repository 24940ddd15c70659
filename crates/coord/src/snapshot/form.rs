//! The bytes of one node, session, semaphore, claim or resource in a snapshot.

use std::collections::BTreeMap;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::stream::put_item;

use super::progress::List;
use super::{VERSION, tag};
use crate::command::{read_flag, read_revision};
use crate::config::Config;
use crate::ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
use crate::path::Path;
use crate::resources::{Pace, Resource};
use crate::state::{Claim, Node, Semaphore, Session};

/// A node without what is in it.
pub(super) fn put_node(out: &mut Vec<u8>, number: NodeNumber, node: &Node) {
    put_item(out, tag::NODE, VERSION, |out| {
        put_varint(out, number.0);
        put_bytes(out, node.path.as_str().as_bytes());
        node.config.encode(out);
        for last in [node.last_session, node.last_semaphore, node.last_order, node.last_resource] {
            put_varint(out, last);
        }
    });
}

pub(super) fn read_node(reader: &mut Reader<'_>) -> Result<(NodeNumber, Node), DecodeError> {
    let number = NodeNumber(reader.varint("node")?);
    let path = Path::parse(reader.text("path")?).ok_or(DecodeError::Unknown { what: "path", value: 0 })?;
    let mut node = Node::new(path, Config::decode(reader)?);
    node.last_session = reader.varint("last session")?;
    node.last_semaphore = reader.varint("last semaphore")?;
    node.last_order = reader.varint("last order")?;
    node.last_resource = reader.varint("last resource")?;
    Ok((number, node))
}

pub(super) fn put_session(out: &mut Vec<u8>, id: SessionId, session: &Session) {
    put_varint(out, id.0);
    put_varint(out, session.timeout_ms);
    put_bytes(out, session.description.as_bytes());
    put_bytes(out, &session.protection_key);
}

pub(super) fn put_semaphore(out: &mut Vec<u8>, id: SemaphoreId, semaphore: &Semaphore) {
    put_varint(out, id.0);
    put_bytes(out, semaphore.name.as_bytes());
    put_varint(out, semaphore.limit);
    out.push(u8::from(semaphore.ephemeral));
    put_bytes(out, &semaphore.data);
}

pub(super) fn put_resource(out: &mut Vec<u8>, id: ResourceId, resource: &Resource) {
    put_varint(out, id.0);
    put_bytes(out, resource.path.as_bytes());
    resource.pace.encode(out);
}

pub(super) fn read_session(reader: &mut Reader<'_>) -> Result<(SessionId, Session), DecodeError> {
    let id = SessionId(reader.varint("session")?);
    let session = Session {
        timeout_ms: reader.varint("session timeout")?,
        description: reader.text("description")?.into(),
        protection_key: reader.bytes("protection key")?.into(),
    };
    Ok((id, session))
}

pub(super) fn read_semaphore(reader: &mut Reader<'_>) -> Result<(SemaphoreId, Semaphore), DecodeError> {
    let id = SemaphoreId(reader.varint("semaphore")?);
    let semaphore = Semaphore {
        name: reader.text("name")?.into(),
        limit: reader.varint("limit")?,
        count: 0,
        ephemeral: read_flag(reader)?,
        data: reader.bytes("data")?.into(),
        owners: BTreeMap::new(),
        waiters: BTreeMap::new(),
    };
    Ok((id, semaphore))
}

pub(super) fn read_resource(reader: &mut Reader<'_>) -> Result<(ResourceId, Resource), DecodeError> {
    let id = ResourceId(reader.varint("resource")?);
    Ok((id, Resource { path: reader.text("resource path")?.into(), pace: Pace::decode(reader)? }))
}

pub(super) fn put_claim(out: &mut Vec<u8>, list: List, order: OrderId, claim: &Claim) {
    out.push(list.tag());
    for number in [order.0, claim.session.0, claim.count, claim.timeout_ms, u64::from(claim.revision)] {
        put_varint(out, number);
    }
    put_bytes(out, &claim.data);
}

pub(super) fn read_claim(reader: &mut Reader<'_>) -> Result<(List, OrderId, Claim), DecodeError> {
    let list = List::from_tag(reader.u8("list of a claim")?)?;
    let order = OrderId(reader.varint("order")?);
    let claim = Claim {
        session: SessionId(reader.varint("session")?),
        count: reader.varint("count")?,
        timeout_ms: reader.varint("acquire timeout")?,
        revision: read_revision(reader)?,
        data: reader.bytes("data")?.into(),
    };
    Ok((list, order, claim))
}

//! The bytes of one session, semaphore or resource in a snapshot.

use std::collections::BTreeMap;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};

use crate::command::{read_flag, read_revision};
use crate::ids::{OrderId, ResourceId, SemaphoreId, SessionId};
use crate::resources::{Pace, Resource};
use crate::state::{Claim, Semaphore, Session};

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
    put_claims(out, &semaphore.owners);
    put_claims(out, &semaphore.waiters);
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
    let mut semaphore = Semaphore {
        name: reader.text("name")?.into(),
        limit: reader.varint("limit")?,
        count: 0,
        ephemeral: read_flag(reader)?,
        data: reader.bytes("data")?.into(),
        owners: read_claims(reader)?,
        waiters: read_claims(reader)?,
    };
    semaphore.count = sum_of(&semaphore)?;
    Ok((id, semaphore))
}

pub(super) fn read_resource(reader: &mut Reader<'_>) -> Result<(ResourceId, Resource), DecodeError> {
    let id = ResourceId(reader.varint("resource")?);
    Ok((id, Resource { path: reader.text("resource path")?.into(), pace: Pace::decode(reader)? }))
}

fn put_claims(out: &mut Vec<u8>, claims: &BTreeMap<OrderId, Claim>) {
    put_varint(out, claims.len() as u64);
    for (order, claim) in claims {
        for number in [order.0, claim.session.0, claim.count, claim.timeout_ms, u64::from(claim.revision)] {
            put_varint(out, number);
        }
        put_bytes(out, &claim.data);
    }
}

fn read_claims(reader: &mut Reader<'_>) -> Result<BTreeMap<OrderId, Claim>, DecodeError> {
    let mut claims = BTreeMap::new();
    for _ in 0..reader.count("claim count")? {
        let order = OrderId(reader.varint("order")?);
        let claim = Claim {
            session: SessionId(reader.varint("session")?),
            count: reader.varint("count")?,
            timeout_ms: reader.varint("acquire timeout")?,
            revision: read_revision(reader)?,
            data: reader.bytes("data")?.into(),
        };
        claims.insert(order, claim);
    }
    Ok(claims)
}

/// What the owners hold together. More than the limit is no state that ever was.
fn sum_of(semaphore: &Semaphore) -> Result<u64, DecodeError> {
    let held = semaphore.owners.values().try_fold(0u64, |sum, claim| sum.checked_add(claim.count));
    match held {
        Some(held) if held <= semaphore.limit => Ok(held),
        _ => Err(DecodeError::Unknown { what: "tokens held", value: held.unwrap_or(u64::MAX) }),
    }
}

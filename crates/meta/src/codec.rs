//! What the forms of this crate have in common.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{DoorAddresses, NodeId, Placement, ReplicaId, limits};

pub(crate) fn unknown(what: &'static str, value: u64) -> DecodeError {
    DecodeError::Unknown { what, value }
}

pub(crate) fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown(what, u64::from(other))),
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(crate) fn text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    reader.text(what).map(str::to_owned)
}

pub(crate) fn fixed_u128(reader: &mut Reader<'_>, what: &'static str) -> Result<u128, DecodeError> {
    let bytes = reader.take(16, what)?.try_into().expect("take returned sixteen bytes");
    Ok(u128::from_le_bytes(bytes))
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, list.len() as u64);
    list.iter().for_each(|one| put(out, one));
}

pub(crate) fn list<'a, T>(
    reader: &mut Reader<'a>,
    what: &'static str,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    (0..reader.count(what)?).map(|_| read(reader)).collect()
}

pub(crate) fn put_placement(out: &mut Vec<u8>, placement: &Placement) {
    put_varint(out, placement.node.0);
    put_varint(out, placement.replica.0);
}

pub(crate) fn placement(reader: &mut Reader<'_>) -> Result<Placement, DecodeError> {
    Ok(Placement { node: NodeId(reader.varint("node")?), replica: ReplicaId(reader.varint("replica")?) })
}

pub(crate) fn put_nodes(out: &mut Vec<u8>, nodes: &[NodeId]) {
    put_list(out, nodes, |out, node| put_varint(out, node.0));
}

pub(crate) fn nodes(reader: &mut Reader<'_>) -> Result<Vec<NodeId>, DecodeError> {
    list(reader, "nodes", |reader| reader.varint("node").map(NodeId))
}

pub(crate) fn put_replicas(out: &mut Vec<u8>, replicas: &[ReplicaId]) {
    put_list(out, replicas, |out, replica| put_varint(out, replica.0));
}

pub(crate) fn replicas(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>, DecodeError> {
    list(reader, "replicas", |reader| reader.varint("replica").map(ReplicaId))
}

pub(crate) fn put_addresses(out: &mut Vec<u8>, addresses: &DoorAddresses) {
    let DoorAddresses { peer, grpc, redis, http } = addresses;
    [peer, grpc, redis, http].into_iter().for_each(|address| put_text(out, address));
}

pub(crate) fn addresses(reader: &mut Reader<'_>) -> Result<DoorAddresses, DecodeError> {
    let mut address = |what| {
        let address = text(reader, what)?;
        let (value, limit) = (address.len() as u64, limits::ADDRESS_BYTES_MAX as u64);
        if value > limit { Err(DecodeError::TooLong { what, value, limit }) } else { Ok(address) }
    };
    Ok(DoorAddresses {
        peer: address("peer")?,
        grpc: address("grpc")?,
        redis: address("redis")?,
        http: address("http")?,
    })
}

//! A node as the map has it.

use std::collections::BTreeMap;

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::{DoorAddresses, NodeEntry, NodeId, NodeMode as Mode};

use crate::codec::{addresses, flag, put_addresses, put_text, text, unknown};

/// Whether a node belongs to the cluster. Whether it lives is not in the map. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Member,
    /// For good: its number is not given again, and who comes with it is turned away. Its name is free.
    Removed,
}

impl NodeState {
    fn tag(self) -> u8 {
        match self {
            Self::Member => 1,
            Self::Removed => 2,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        match tag {
            1 => Ok(Self::Member),
            2 => Ok(Self::Removed),
            _ => Err(unknown("state of a node", u64::from(tag))),
        }
    }
}

/// A node. Its number is given once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub node: NodeId,
    /// Unique among members.
    pub name: String,
    pub addresses: DoorAddresses,
    /// Where it stands; replicas of one group go to different zones first.
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    /// Its share of reads that any replica may answer; 0 means none while another one is up, and no replicas while others can
    /// have them.
    pub weight: u16,
    pub mode: Mode,
    pub state: NodeState,
    /// Whether it holds no data and only passes requests on.
    pub is_gateway: bool,
    /// Its newest start that meta has heard of, and the number that was drawn at it.
    pub incarnation: u64,
    pub start: u64,
}

impl Node {
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.state == NodeState::Member
    }

    /// Whether it is one that data is kept on.
    #[must_use]
    pub fn holds_data(&self) -> bool {
        self.is_member() && !self.is_gateway
    }

    /// Whether its replicas are to be on other nodes, as far as there are any.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.mode == Mode::Draining || self.weight == 0
    }

    /// Whether data is meant to stay on it.
    #[must_use]
    pub fn keeps_data(&self) -> bool {
        self.holds_data() && !self.is_draining()
    }

    /// Whether it should lead groups.
    #[must_use]
    pub fn may_lead(&self) -> bool {
        self.keeps_data() && self.mode == Mode::ReadWrite
    }

    #[must_use]
    pub fn entry(&self) -> NodeEntry {
        let Self { node, name, zone, addresses, .. } = self.clone();
        NodeEntry { node, name, zone, addresses }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.node.0);
        put_text(out, &self.name);
        put_addresses(out, &self.addresses);
        put_text(out, &self.zone);
        put_labels(out, &self.labels);
        put_varint(out, u64::from(self.weight));
        out.extend([self.mode.tag(), self.state.tag(), u8::from(self.is_gateway)]);
        put_varint(out, self.incarnation);
        out.extend_from_slice(&self.start.to_le_bytes());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: NodeId(reader.varint("node")?),
            name: text(reader, "name of a node")?,
            addresses: addresses(reader)?,
            zone: text(reader, "zone")?,
            labels: labels(reader)?,
            weight: weight(reader)?,
            mode: Mode::from_tag(reader.u8("mode of a node")?)?,
            state: NodeState::from_tag(reader.u8("state of a node")?)?,
            is_gateway: flag(reader, "gateway")?,
            incarnation: reader.varint("incarnation")?,
            start: reader.fixed_u64("start number")?,
        })
    }
}

pub(crate) fn weight(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let value = reader.varint("weight")?;
    u16::try_from(value).map_err(|_| unknown("weight", value))
}

pub(crate) fn put_labels(out: &mut Vec<u8>, labels: &BTreeMap<String, String>) {
    put_varint(out, labels.len() as u64);
    for (name, value) in labels {
        put_text(out, name);
        put_text(out, value);
    }
}

pub(crate) fn labels(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>, DecodeError> {
    (0..reader.count("labels")?).map(|_| Ok((text(reader, "label")?, text(reader, "label")?))).collect()
}

//! Who is calling, and who has picked up.

use shardine_model::NodeId;
use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::limits::NAME_BYTES_MAX;

use crate::link::LinkKind;

/// The newest version of the protocol that is spoken here, and the oldest. A link uses the newest that both sides speak.
pub const PROTOCOL_VERSION: u16 = 1;
pub const PROTOCOL_VERSION_LEAST: u16 = 1;

/// What a hello opens with, for ever, so that whoever dials the wrong port is told so and not misread.
const MAGIC: [u8; 8] = *b"shardine";

/// A process of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// 0 as long as the node belongs to none.
    pub cluster: u128,
    /// 0 as long as the cluster has given it no number.
    pub node: NodeId,
    pub name: String,
    /// How often a process has been started on the node's directory, this one counted.
    pub incarnation: u64,
    /// Drawn at this start, so that two processes that count the same starts are told apart.
    pub start: u64,
    /// What this process can do beyond the protocol's version, one bit each. None are given yet.
    pub features: u64,
}

impl Who {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cluster.to_le_bytes());
        put_varint(out, self.node.0);
        put_bytes(out, self.name.as_bytes());
        put_varint(out, self.incarnation);
        out.extend_from_slice(&self.start.to_le_bytes());
        put_varint(out, self.features);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let cluster = reader.take(16, "cluster")?.try_into().expect("take returned sixteen bytes");
        Ok(Self {
            cluster: u128::from_le_bytes(cluster),
            node: NodeId(reader.varint("node")?),
            name: name(reader)?,
            incarnation: reader.varint("incarnation")?,
            start: reader.fixed_u64("start number")?,
            features: reader.varint("features")?,
        })
    }
}

fn name(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let name = reader.text("name of a node")?;
    if name.len() > NAME_BYTES_MAX {
        let (value, limit) = (name.len() as u64, NAME_BYTES_MAX as u64);
        return Err(DecodeError::TooLong { what: "name of a node", value, limit });
    }
    // It is printed wherever links are spoken of.
    match name.chars().find(|letter| letter.is_control()) {
        Some(letter) => Err(DecodeError::Unknown { what: "name of a node", value: u64::from(u32::from(letter)) }),
        None => Ok(name.to_owned()),
    }
}

/// The first words on a link, from whoever dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest and the oldest version that the caller speaks.
    pub version: u16,
    pub version_least: u16,
    pub who: Who,
    pub kind: LinkKind,
    /// Whom the caller means; 0 if it does not know yet.
    pub expects: NodeId,
    /// The lane that dials: the receiver gives the link to the same one of its own, where there are as many.
    pub lane: u16,
}

impl Hello {
    /// In the versions that are spoken here.
    #[must_use]
    pub fn new(who: Who, kind: LinkKind, expects: NodeId) -> Self {
        Self { version: PROTOCOL_VERSION, version_least: PROTOCOL_VERSION_LEAST, who, kind, expects, lane: 0 }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.version_least.to_le_bytes());
        self.who.encode(out);
        out.push(self.kind.tag());
        put_varint(out, self.expects.0);
        put_varint(out, u64::from(self.lane));
    }

    /// What stands behind a hello of another version is not looked at: it may mean anything.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Heard, DecodeError> {
        if reader.take(MAGIC.len(), "magic")? != MAGIC {
            return Err(DecodeError::Unknown { what: "magic", value: 0 });
        }
        let (version, version_least) = (version(reader)?, version(reader)?);
        if version < PROTOCOL_VERSION_LEAST || version_least > PROTOCOL_VERSION || version < version_least {
            return Ok(Heard::OtherVersion { version, version_least });
        }
        let (who, kind) = (Who::decode(reader)?, LinkKind::from_tag(reader.u8("kind of link")?)?);
        let expects = NodeId(reader.varint("expected node")?);
        let lane = reader.varint("lane")?;
        let lane = u16::try_from(lane).map_err(|_| DecodeError::Unknown { what: "lane", value: lane })?;
        if version == PROTOCOL_VERSION {
            reader.clone().finish("hello")?;
        }
        Ok(Heard::Hello(Self { version, version_least, who, kind, expects, lane }))
    }
}

/// What a caller said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Hello(Hello),
    OtherVersion { version: u16, version_least: u16 },
}

/// The answer of whoever was dialled and lets the caller in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that is spoken from here on.
    pub version: u16,
    pub who: Who,
}

impl Welcome {
    /// To somebody whose versions overlap with those spoken here.
    #[must_use]
    pub fn new(who: Who, to: &Hello) -> Self {
        Self { version: to.version.min(PROTOCOL_VERSION), who }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        self.who.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = version(reader)?;
        if !(PROTOCOL_VERSION_LEAST..=PROTOCOL_VERSION).contains(&version) {
            return Err(DecodeError::Unknown { what: "version of the protocol", value: u64::from(version) });
        }
        let who = Who::decode(reader)?;
        reader.clone().finish("welcome")?;
        Ok(Self { version, who })
    }
}

fn version(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let bytes = reader.take(2, "version of the protocol")?;
    Ok(u16::from_le_bytes(bytes.try_into().expect("take returned two bytes")))
}

//! What nodes tell each other about themselves.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{CatalogueVersion, NodeId, ReplicaId, ShardId};

use super::{flag, limited, unknown};
use crate::limits::{HEIRS_MAX, MAP_DELTA_BYTES_MAX};

/// "I live", with what makes it worth hearing. Times are milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse<'a> {
    /// The sender's monotonic time.
    pub sent_ms: u64,
    /// The newest such time of the receiver's that the sender has heard; 0 if none.
    pub echo_ms: u64,
    /// How long before this pulse it was heard.
    pub held_ms: u64,
    /// What the sender takes for the time of day.
    pub wall_ms: u64,
    /// The version of the map that the sender has.
    pub map: u64,
    /// The number of the list of groups that the sender leads, as it stands now. It grows whenever the list changes.
    pub list: u64,
    /// The number of the receiver's list that the sender has. A list is told again until the other side says that it has it.
    pub list_heard: u64,
    /// The list, where the receiver may not have it yet.
    pub leads: Option<Leads<'a>>,
}

impl<'a> Pulse<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { sent_ms, echo_ms, held_ms, wall_ms, map, list, list_heard, leads } = self;
        for number in [sent_ms, echo_ms, held_ms, wall_ms, map, list, list_heard] {
            put_varint(out, *number);
        }
        out.push(u8::from(leads.is_some()));
        if let Some(leads) = leads {
            out.extend_from_slice(leads.bytes);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            sent_ms: reader.varint("time of a pulse")?,
            echo_ms: reader.varint("echo of a pulse")?,
            held_ms: reader.varint("age of an echo")?,
            wall_ms: reader.varint("wall time")?,
            map: reader.varint("version of the map")?,
            list: reader.varint("number of a list")?,
            list_heard: reader.varint("number of a list")?,
            leads: if flag(reader, "list of groups")? { Some(Leads::decode(reader)?) } else { None },
        })
    }
}

/// A group that the sender leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    pub shard: ShardId,
    pub term: u64,
    pub leader: ReplicaId,
    pub committed: u64,
    /// How long before the pulse a majority certainly followed, if the leader knows.
    pub age_ms: Option<u64>,
    /// Whether the group sleeps, so that pulses stand for its heartbeats.
    pub is_asleep: bool,
    pub heirs: Heirs,
}

impl Lead {
    /// Appends it to a list, which is read by [`Leads::new`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.shard.0));
        put_varint(out, self.term);
        put_varint(out, self.leader.0);
        put_varint(out, self.committed);
        put_varint(out, self.age_ms.map_or(0, |age_ms| age_ms.saturating_add(1)));
        out.push(u8::from(self.is_asleep) | self.heirs.len << 1);
        self.heirs.iter().for_each(|heir| put_varint(out, heir.0));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let shard = ShardId(reader.varint_u32("shard")?);
        let (term, leader) = (reader.varint("term")?, ReplicaId(reader.varint("replica")?));
        let committed = reader.varint("committed")?;
        let age_ms = reader.varint("age")?.checked_sub(1);
        let marks = reader.u8("marks of a group")?;
        let count = usize::from(marks >> 1);
        if count > HEIRS_MAX {
            return Err(DecodeError::TooLong { what: "heirs", value: count as u64, limit: HEIRS_MAX as u64 });
        }
        let mut heirs = Heirs { len: count as u8, replicas: [ReplicaId(0); HEIRS_MAX] };
        for heir in &mut heirs.replicas[..count] {
            *heir = ReplicaId(reader.varint("replica")?);
        }
        Ok(Self { shard, term, leader, committed, age_ms, is_asleep: marks & 1 == 1, heirs })
    }
}

/// Who is to stand for election if the leader is lost, the one with the most first. At most [`HEIRS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heirs {
    len: u8,
    replicas: [ReplicaId; HEIRS_MAX],
}

impl Heirs {
    /// Those that come first.
    #[must_use]
    pub fn of(ranked: &[ReplicaId]) -> Self {
        let mut heirs = Self::default();
        for (place, replica) in heirs.replicas.iter_mut().zip(ranked) {
            *place = *replica;
            heirs.len += 1;
        }
        heirs
    }

    pub fn iter(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.replicas[..usize::from(self.len)].iter().copied()
    }

    /// From 0, for the one that need not wait.
    #[must_use]
    pub fn rank_of(&self, replica: ReplicaId) -> Option<usize> {
        self.iter().position(|heir| heir == replica)
    }
}

/// Groups that the sender leads, one behind the other. Invariant: all of it can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leads<'a> {
    bytes: &'a [u8],
}

impl<'a> Leads<'a> {
    /// A list that was put together by [`Lead::encode`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes))
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = reader.rest();
        while !reader.is_empty() {
            Lead::decode(reader)?;
        }
        Ok(Self { bytes })
    }

    pub fn iter(&self) -> impl Iterator<Item = Lead> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || (!reader.is_empty()).then(|| Lead::decode(&mut reader).expect("read once already")))
    }
}

/// Somebody leads a group now. The highest term is right, whoever tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderNews {
    pub shard: ShardId,
    pub term: u64,
    pub leader: ReplicaId,
    /// Where that replica is.
    pub node: NodeId,
}

impl LeaderNews {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.shard.0));
        for number in [self.term, self.leader.0, self.node.0] {
            put_varint(out, number);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            shard: ShardId(reader.varint_u32("shard")?),
            term: reader.varint("term")?,
            leader: ReplicaId(reader.varint("replica")?),
            node: NodeId(reader.varint("node")?),
        })
    }
}

/// The sender believes that a node is dead, or believes it no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    pub node: NodeId,
    /// Of which start of it.
    pub incarnation: u64,
    pub is_suspected: bool,
}

impl Suspicion {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.node.0);
        put_varint(out, self.incarnation);
        out.push(u8::from(self.is_suspected));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: NodeId(reader.varint("node")?),
            incarnation: reader.varint("incarnation")?,
            is_suspected: flag(reader, "suspicion")?,
        })
    }
}

/// What the sender has of the map, said as soon as it has it: whoever makes a table waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapVersion {
    pub map: u64,
    pub catalogue: CatalogueVersion,
}

impl MapVersion {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.map);
        put_varint(out, self.catalogue.0);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let map = reader.varint("version of the map")?;
        Ok(Self { map, catalogue: CatalogueVersion(reader.varint("catalogue version")?) })
    }
}

/// What turns one version of the map into a later one. Whoever has another one than `from` asks for the whole map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapDelta<'a> {
    pub from: u64,
    pub to: u64,
    /// As `meta` writes it.
    pub change: &'a [u8],
}

impl<'a> MapDelta<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.from);
        put_varint(out, self.to);
        put_bytes(out, self.change);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (from, to) = (reader.varint("version of the map")?, reader.varint("version of the map")?);
        if to <= from {
            return Err(unknown("version of the map", to));
        }
        Ok(Self { from, to, change: limited(reader, "change of the map", MAP_DELTA_BYTES_MAX)? })
    }
}

/// Why the sender says no more on this link. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The node stops; what it led it has handed over, as far as it could.
    Stopping,
    /// A newer link of the same kind has taken its place.
    Superseded,
    /// The receiver has been removed from the cluster.
    Removed,
    /// The sender has fallen behind the receiver, and begins anew.
    Overflown,
}

impl Goodbye {
    const ALL: [Self; 4] = [Self::Stopping, Self::Superseded, Self::Removed, Self::Overflown];

    fn tag(self) -> u8 {
        match self {
            Self::Stopping => 1,
            Self::Superseded => 2,
            Self::Removed => 3,
            Self::Overflown => 4,
        }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.push(self.tag());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8("goodbye")?;
        let goodbye = Self::ALL.into_iter().find(|goodbye| goodbye.tag() == tag);
        goodbye.ok_or(unknown("goodbye", u64::from(tag)))
    }
}
